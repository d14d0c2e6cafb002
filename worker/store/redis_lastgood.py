"""The last good values in the Redis store."""

from __future__ import annotations

from collections.abc import Sequence

from worker.redislink import RedisLink
from worker.redistalk import Script
from worker.store.lastgood import LAST_GOOD_MAX, Row
from worker.store.port import Remembered
from worker.store.redis_lua import COMMON

_AT_ONCE = 500  # values in one script

_REMEMBER = Script.of(
    COMMON,
    """
local most = tonumber(ARGV[2])
for at = 3, #ARGV, 3 do
  redis.call('HSET', key('values'), ARGV[at], ARGV[at + 1])
  redis.call('ZADD', key('values-at'), ARGV[at + 2], ARGV[at])
end
local beyond = redis.call('ZCARD', key('values-at')) - most
if beyond > 0 then
  local oldest = redis.call('ZPOPMIN', key('values-at'), beyond)
  for each = 1, #oldest, 2 do redis.call('HDEL', key('values'), oldest[each]) end
end
""",
)

_RECALL = Script.of(
    COMMON,
    """
local value = redis.call('HGET', key('values'), ARGV[2])
return value and {value, redis.call('ZSCORE', key('values-at'), ARGV[2])}
""",
    frees=True,
)


class LastGoodHash:
    """The values in a hash, and when each was stored."""

    def __init__(
        self, link: RedisLink, keys: Sequence[str], *, values_max: int = LAST_GOOD_MAX
    ) -> None:
        self.values_max = values_max
        self._link = link
        self._keys = keys

    async def read(self, key: str) -> Remembered | None:
        """The value of a key, however old."""
        row = await self._link.run(_RECALL, self._keys, key)
        return Remembered(row[0].decode(), float(row[1])) if row else None

    async def write(self, rows: Sequence[Row]) -> None:
        """Store some values, some hundred in each script."""
        for start in range(0, len(rows), _AT_ONCE):
            words = [
                word
                for key, value, at in rows[start : start + _AT_ONCE]
                for word in (key, value, repr(float(at)))
            ]
            await self._link.run(_REMEMBER, self._keys, self.values_max, *words)

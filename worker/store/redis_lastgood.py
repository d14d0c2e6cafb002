"""The last good values in the Redis store."""

from __future__ import annotations

from collections.abc import Sequence

from worker.redislink import RedisLink, Script
from worker.store.port import Remembered
from worker.store.redis_lua import COMMON
from worker.store.rows import readable
from worker.store.unwritten import LAST_GOOD_MAX, Row, Unwritten

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
    """Beyond `values_max` the values that were stored longest ago are forgotten."""

    def __init__(
        self, link: RedisLink, keys: Sequence[str], *, values_max: int = LAST_GOOD_MAX
    ) -> None:
        self.values_max = values_max
        self._link = link
        self._keys = keys
        self._unwritten = Unwritten(self._write)

    def __repr__(self) -> str:
        return f"LastGoodHash({len(self._unwritten)} not on the server yet)"

    def remember(self, key: str, value: str, at: float) -> None:
        """Keep a value, and write it soon."""
        self._unwritten.remember(key, value, at)

    async def recall(self, key: str) -> Remembered | None:
        """The value, however old."""
        key = readable(key)
        if (found := self._unwritten.recall(key)) is not None:
            return found
        row = await self._link.run(_RECALL, self._keys, key)
        return Remembered(row[0].decode(), float(row[1])) if row else None

    async def flush(self) -> None:
        """Write what was remembered, and wait until it is written or has failed."""
        await self._unwritten.flush()

    async def _write(self, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), _AT_ONCE):
            words = [
                word
                for key, value, at in rows[start : start + _AT_ONCE]
                for word in (key, value, repr(float(at)))
            ]
            await self._link.run(_REMEMBER, self._keys, self.values_max, *words)

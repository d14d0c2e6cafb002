"""Gossip among workers in the Redis store."""

from __future__ import annotations

from collections.abc import Sequence

from worker.redislink import RedisLink
from worker.redistalk import Script
from worker.store.peers import WORKERS_MAX, Heard, checked
from worker.store.redis_lua import COMMON
from worker.store.rows import readable

_GOSSIP = Script.of(
    COMMON,
    """
local gone = redis.call('ZRANGE', key('peers'), '-inf', moment(now), 'BYSCORE')
for _, owner in ipairs(gone) do
  redis.call('ZREM', key('peers'), owner)
  redis.call('HDEL', key('peer-words'), owner)
end
if ARGV[3] == '1' then
  redis.call('ZADD', key('peers'), moment(now + tonumber(ARGV[5])), ARGV[2])
  if ARGV[4] == '' then redis.call('HDEL', key('peer-words'), ARGV[2])
  else redis.call('HSET', key('peer-words'), ARGV[2], ARGV[4]) end
end
return {redis.call('ZCARD', key('peers')), redis.call('HVALS', key('peer-words'))}
""",
)


class PeerHash:
    """See the port."""

    def __init__(self, link: RedisLink, keys: Sequence[str]) -> None:
        self._link = link
        self._keys = keys

    async def gossip(self, owner: str, words: str | None, *, ttl_seconds: float) -> Heard:
        """See the port."""
        says = checked(words) is not None
        workers, said = await self._link.run(
            _GOSSIP, self._keys, readable(owner), int(says), readable(words or ""), ttl_seconds
        )
        return Heard(
            int(workers), tuple(each.decode(errors="replace") for each in said[:WORKERS_MAX])
        )

"""How a Redis or Valkey server has to be set up to be entrusted with tasks, from what it says itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

VERSION_MIN = (7, 0)


def unfit(said: Mapping[str, Any]) -> str:
    """Why a server cannot be entrusted with tasks, from its INFO; empty when it can."""
    policy = said.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return (
            f"maxmemory-policy is {policy}, so the server may throw tasks away;"
            " set maxmemory-policy noeviction"
        )
    version = str(said.get("redis_version", "7.0"))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < VERSION_MIN:
        return f"the server is version {version}; Redis 7.0, Valkey 7.2 or a later one is needed"
    return ""


def frail(said: Mapping[str, Any], config: Mapping[str, str]) -> str:
    """What a crash of the server would cost, from its INFO; empty when that is little.

    `config` may be empty: not everybody is told it.
    """
    advice = "set appendonly yes, and appendfsync always where nothing may be lost"
    if str(said.get("aof_enabled", "1")) == "1":
        if config.get("appendfsync") == "no":
            return (
                "appendfsync is no: a crash of the machine costs some 30 s; set everysec or always"
            )
        return ""
    if config.get("save") == "":
        return f"nothing is written to its disk: when the server ends, all is lost; {advice}"
    return f"its disk has snapshots at best: a crash costs all since the last one; {advice}"


# What the scripts of queue and store call, each with words that it would take: nothing is done.
# KEYS[1] is a stream that other programs write to, if there is one; ARGV[2] begins all other keys.
CHECK = """
local key = ARGV[2] .. ':x'
local calls = {
  {'EVAL', 'return 1', '1', ARGV[2]}, {'EVALSHA', 'x', '1', ARGV[2]}, {'INFO'}, {'TIME'}, {'TYPE', key},
  {'EXISTS', key}, {'DEL', key}, {'UNLINK', key}, {'GET', key}, {'SET', key, '1'}, {'INCR', key},
  {'INCRBY', key, '1'}, {'DECRBY', key, '1'},
  {'HSET', key, 'f', 'v'}, {'HSETNX', key, 'f', 'v'}, {'HGET', key, 'f'}, {'HMGET', key, 'f'},
  {'HDEL', key, 'f'}, {'HLEN', key}, {'HVALS', key}, {'HINCRBY', key, 'f', '1'}, {'HSTRLEN', key, 'f'},
  {'ZADD', key, '1', 'm'}, {'ZREM', key, 'm'}, {'ZSCORE', key, 'm'}, {'ZRANGE', key, '0', '0'},
  {'ZCARD', key}, {'ZCOUNT', key, '0', '1'}, {'ZPOPMIN', key}, {'ZREMRANGEBYRANK', key, '0', '0'},
  {'XADD', key, '*', 'f', 'v'}, {'XRANGE', key, '-', '+'}, {'XREVRANGE', key, '+', '-'},
  {'XREAD', 'STREAMS', key, '0-0'},
}
if KEYS[1] then
  for _, words in ipairs({{'TYPE', KEYS[1]}, {'XRANGE', KEYS[1], '-', '+'}, {'XDEL', KEYS[1], '1-1'},
                          {'XLEN', KEYS[1]}, {'XREAD', 'STREAMS', KEYS[1], '0-0'}}) do
    calls[#calls + 1] = words
  end
end
local denied, seen = {}, {}
for _, words in ipairs(calls) do
  if not redis.acl_check_cmd(unpack(words)) and not seen[words[1]] then
    denied[#denied + 1], seen[words[1]] = words[1], true
  end
end
if denied[1] then return {denied, 'none'} end
return {denied, KEYS[1] and redis.call('TYPE', KEYS[1])['ok'] or 'none'}
"""


def rights(name: str, stream: str | None) -> str:
    """What a user of the server has to be allowed, for all keys that begin with `name`."""
    more = f" ~{stream}" if stream else ""
    return (
        "ACL SETUSER … +@read +@write +@scripting +@connection +info +time"
        f" '~{name}*'{more}, and the same for the other queues and the store"
    )


def forbidden(denied: Sequence[str], name: str, stream: str | None) -> str:
    """Why a user of the server cannot work with it; empty when nothing is `denied`."""
    if not denied:
        return ""
    return f"this user may not run {', '.join(denied)} on '{name}*'; {rights(name, stream)}"


def misused(stream: str, kind: str) -> str:
    """Why tasks cannot be taken in, from what lies under the stream's name; empty when they can."""
    if kind in ("none", "stream"):
        return ""
    return (
        f"the key {stream!r} holds a {kind}, and tasks are put into a stream of that name, by XADD:"
        " move it away, or name another queue or prefix"
    )

"""The scripts of the mailbox in Redis: each change of what is expected or posted is one of them."""

from __future__ import annotations

from worker.redistalk import Script
from worker.store.mailbox import KEPT_BYTES_MAX
from worker.store.redis_lua import COMMON, PAGE

_FIELDS = (
    *("address", "run_id", "call_id", "kind", "tool", "arguments", "digest"),
    *("asked_at", "expires_at", "answered"),
)
_NAMES = ", ".join(f"'{name}'" for name in _FIELDS)

# `regard` keeps the lists of posts true after whatever has changed about an address.
_LETTERS = f"""
local function letter(n, ...) return redis.call('HMGET', key('expect:' .. n), ...) end
local function whole(n) return letter(n, {_NAMES}) end

local function wholes(numbers)
  local told = {{}}
  for _, n in ipairs(numbers) do told[#told + 1] = whole(n) end
  return told
end

local function at(address)
  local numbers = redis.call('HVALS', key('at:' .. address))
  table.sort(numbers, function(a, b) return tonumber(a) < tonumber(b) end)
  return numbers
end

local function waiting_at(address)
  local runs, seen = {{}}, {{}}
  for _, n in ipairs(at(address)) do
    local found = letter(n, 'run_id', 'answered')
    if found[2] == '0' and not seen[found[1]] then
      seen[found[1]] = true
      runs[#runs + 1] = found[1]
    end
  end
  return runs
end

local function call_of(run, call) return #run .. ':' .. run .. ':' .. call end

local function regard(address)
  local post = key('post:' .. address)
  local heard, posted_at = unpack(redis.call('HMGET', post, 'heard', 'posted_at'))
  local is_expected = redis.call('EXISTS', key('at:' .. address)) == 1
  local size = redis.call('HGET', key('unexpected'), address)
  if heard == '0' and not is_expected and not size then
    local bytes = redis.call('HSTRLEN', post, 'body')
    redis.call('HSET', key('unexpected'), address, bytes)
    redis.call('INCRBY', key('unexpected-bytes'), bytes)
  elseif size and (heard ~= '0' or is_expected) then
    redis.call('HDEL', key('unexpected'), address)
    redis.call('DECRBY', key('unexpected-bytes'), size)
  end
  if heard == '0' and is_expected and #waiting_at(address) > 0 then
    redis.call('ZADD', key('unheard'), posted_at, address)
  else
    redis.call('ZREM', key('unheard'), address)
  end
end
"""

EXPECT = Script.of(
    COMMON,
    _LETTERS,
    f"""
local address, run, call, kind = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local n = redis.call('HGET', key('at:' .. address), call_of(run, call))
if n then
  redis.call('ZREM', key('pending:' .. letter(n, 'kind')[1]), n)
else
  n = number()
  redis.call('HSET', key('at:' .. address), call_of(run, call), n)
  redis.call('ZADD', key('of:' .. run), n, n)
end
local words = {{}}
for place, name in ipairs({{{_NAMES}}}) do
  words[#words + 1] = name
  words[#words + 1] = ARGV[place + 1]
end
redis.call('HSET', key('expect:' .. n), unpack(words))
redis.call('ZADD', key('asked'), ARGV[9], n)
if ARGV[11] == '0' then redis.call('ZADD', key('pending:' .. kind), n, n) end
regard(address)
""",
)

# 1 when it is the first, 0 when another was there, -1 when there are too many for nobody.
POST = Script.of(
    COMMON,
    _LETTERS,
    """
local address, body, digest = ARGV[2], ARGV[3], ARGV[4]
local post, waiting = key('post:' .. address), waiting_at(address)
local there = redis.call('HMGET', post, 'body', 'digest', 'posted_at')
if there[3] then return {0, waiting, unpack(there)} end
if redis.call('EXISTS', key('at:' .. address)) == 0 then
  local count = redis.call('HLEN', key('unexpected'))
  local bytes = tonumber(redis.call('GET', key('unexpected-bytes')) or 0)
  if count >= tonumber(ARGV[5]) or bytes + #body > tonumber(ARGV[6]) then return {-1, count} end
end
redis.call('HSET', post, 'body', body, 'digest', digest, 'posted_at', moment(now), 'heard', 0)
redis.call('ZADD', key('posts'), moment(now), address)
regard(address)
return {1, waiting, body, digest, moment(now)}
""",
)

READ = Script.of(
    COMMON,
    """
local told = {}
for at = 2, #ARGV do
  told[#told + 1] = redis.call('HMGET', key('post:' .. ARGV[at]), 'body', 'digest', 'posted_at')
end
return told
""",
    frees=True,
)

ANSWERED = Script.of(
    COMMON,
    _LETTERS,
    f"""
local run = ARGV[2]
for place = 3, #ARGV do
  local address = ARGV[place]
  for _, n in ipairs(at(address)) do
    local found = letter(n, 'run_id', 'kind')
    if found[1] == run then
      redis.call('HSET', key('expect:' .. n), 'answered', 1)
      redis.call('ZREM', key('pending:' .. found[2]), n)
    end
  end
  local post = key('post:' .. address)
  if redis.call('EXISTS', post) == 1 and #waiting_at(address) == 0 then
    redis.call('HSET', post, 'heard', 1)
    if redis.call('HSTRLEN', post, 'body') > {KEPT_BYTES_MAX} then redis.call('HSET', post, 'body', '') end
  end
  regard(address)
end
""",
    frees=True,
)

EXPECTED = Script.of(
    COMMON,
    _LETTERS,
    "return wholes(redis.call('ZRANGE', key('of:' .. ARGV[2]), 0, -1))",
    frees=True,
)

AT = Script.of(COMMON, _LETTERS, "return wholes(at(ARGV[2]))", frees=True)

PENDING = Script.of(
    COMMON,
    _LETTERS,
    "return wholes(redis.call('ZRANGE', key('pending:' .. ARGV[2]), 0, ARGV[3] - 1))",
    frees=True,
)

UNHEARD = Script.of(
    COMMON,
    _LETTERS,
    """
local limit, runs, seen = tonumber(ARGV[3]), {}, {}
local addresses = redis.call('ZRANGE', key('unheard'), '-inf', moment(now - ARGV[2]), 'BYSCORE',
                             'LIMIT', 0, limit)
for _, address in ipairs(addresses) do
  for _, run in ipairs(waiting_at(address)) do
    if not seen[run] and #runs < limit then
      seen[run] = true
      runs[#runs + 1] = run
    end
  end
end
return runs
""",
    frees=True,
)

# Past the first ones, which are kept: how many were looked at, and how many of them forgotten.
FORGET_EXPECTATIONS = Script.of(
    COMMON,
    _LETTERS,
    f"""
local old = redis.call('ZRANGE', key('asked'), '-inf', moment(now - ARGV[2]), 'BYSCORE',
                       'LIMIT', ARGV[3], {PAGE})
local gone = 0
for _, n in ipairs(old) do
  local address, run, call, kind, answered =
    unpack(letter(n, 'address', 'run_id', 'call_id', 'kind', 'answered'))
  local state = get(run, 'state')[1]
  if answered == '1' or not state or state == 'finished' then
    redis.call('HDEL', key('at:' .. address), call_of(run, call))
    redis.call('ZREM', key('of:' .. run), n)
    redis.call('ZREM', key('pending:' .. kind), n)
    redis.call('ZREM', key('asked'), n)
    redis.call('UNLINK', key('expect:' .. n))
    regard(address)
    gone = gone + 1
  end
end
return {{#old, gone}}
""",
    frees=True,
)

FORGET_POSTS = Script.of(
    COMMON,
    _LETTERS,
    f"""
local old = redis.call('ZRANGE', key('posts'), '-inf', moment(now - ARGV[2]), 'BYSCORE',
                       'LIMIT', ARGV[3], {PAGE})
local gone = 0
for _, address in ipairs(old) do
  if #waiting_at(address) == 0 then
    redis.call('UNLINK', key('post:' .. address))
    redis.call('ZREM', key('posts'), address)
    regard(address)
    gone = gone + 1
  end
end
return {{#old, gone}}
""",
    frees=True,
)

"""What the Redis store does to sessions, within the scripts that open and end a run.

Whether somebody has a session is told by the row of the run that holds it, so keeping a lease alive
costs no write of its own.
"""

from __future__ import annotations

from worker.redistalk import Script
from worker.store.port import HOLD_PATIENCE_SECONDS, LINE_KEPT_SECONDS, LINE_PATIENCE_SECONDS
from worker.store.redis_lua import COMMON, PAGE

AHEAD_MAX = 100  # who stands further behind is told no larger number
_AT_ONCE = 1000  # values that one command takes, for the stack of a script is small

_LINE = f"""
local function session_name(tenant, id) return #tenant .. ':' .. tenant .. ':' .. id end
local function session(name, ...) return redis.call('HMGET', key('session:' .. name), ...) end
local function set_session(name, ...) redis.call('HSET', key('session:' .. name), ...) end

local function stays(id)
  local ends = redis.call('ZSCORE', key('late'), id)
  return ends and tonumber(ends) > now
end

local function leave_line(id)
  local found = redis.call('HMGET', key('wait:' .. id), 'session', 'member')
  if found[1] then
    redis.call('ZREM', key('line:' .. found[1]), found[2])
    redis.call('DEL', key('wait:' .. id))
    redis.call('ZREM', key('late'), id)
  end
end

local function first_of(name)
  while true do
    local front = redis.call('ZRANGE', key('line:' .. name), 0, 0, 'WITHSCORES')
    if not front[1] then return false end
    local id = string.sub(front[1], 18)
    if stays(id) then return id, tonumber(front[2]) end
    leave_line(id)
  end
end

local function ahead_of(name, member)
  local count = 0
  for _, other in ipairs(redis.call('ZRANGE', key('line:' .. name), 0, {AHEAD_MAX} - 1)) do
    if other == member then return count end
    if stays(string.sub(other, 18)) then count = count + 1 end
  end
  return count
end

local function stand(name, id, place)
  local old = redis.call('HMGET', key('wait:' .. id), 'session', 'member')
  local member = old[2] or string.format('%016.0f', number()) .. ':' .. id
  if old[1] and old[1] ~= name then redis.call('ZREM', key('line:' .. old[1]), member) end
  redis.call('ZADD', key('line:' .. name), place, member)
  redis.call('HSET', key('wait:' .. id), 'session', name, 'member', member)
  redis.call('ZADD', key('late'), moment(now + {LINE_KEPT_SECONDS}), id)
  return member
end

local function meet(name, id)
  if redis.call('EXISTS', key('session:' .. name)) == 0 then
    set_session(name, 'id', id, 'version', 0, 'expires_at', moment(now))
    redis.call('ZADD', key('sessions'), moment(now), name)
  end
end

local function is_held(name)
  local holder, hold_until = unpack(session(name, 'holder', 'hold_until'))
  if not holder then return false end
  local state, lease_until = unpack(get(holder, 'state', 'lease_until'))
  if state == 'open' then return lease_until + {HOLD_PATIENCE_SECONDS} > now end
  return state == 'released' and tonumber(hold_until or 0) > now
end
"""

_TURNS = f"""
local function forget_turns(name) redis.call('UNLINK', key('turns:' .. name), key('bodies:' .. name)) end

local function bodies_of(name)
  local bodies, runs = {{}}, redis.call('ZRANGE', key('turns:' .. name), 0, -1)
  for at = 1, #runs, {_AT_ONCE} do
    local some = redis.call('HMGET', key('bodies:' .. name),
                            unpack(runs, at, math.min(at + {_AT_ONCE} - 1, #runs)))
    for each = 1, #some do bodies[#bodies + 1] = some[each] end
  end
  return bodies
end
"""

# Parts of the journal's scripts. What `free` needs to know of the session, and of the turn to be
# saved in it, lies in ARGV from a place on: tenant, id, version, 1 for a turn, its body, how long
# it is kept, and the bound of all bytes.
SESSIONS = (
    _LINE
    + _TURNS
    + f"""
local function must_wait(name, id, place)
  local late, since = unpack(session(name, 'held_up_by', 'held_up_since'))
  if late and now - since > {LINE_PATIENCE_SECONDS} then leave_line(late) end
  local first, its_place = first_of(name)
  if not first or first == id or its_place > place then return false end
  if first ~= late then set_session(name, 'held_up_by', first, 'held_up_since', moment(now)) end
  return true
end

local function unhand(id)
  local name = get(id, 'session')[1]
  redis.call('HDEL', row(id), 'session')
  if not name or session(name, 'holder')[1] ~= id then return false end
  redis.call('HDEL', key('session:' .. name), 'holder')
  return name
end

local function let_go(id)
  leave_line(id)
  local name = unhand(id)
  return name and first_of(name)
end

local function take(name, session_id, id, place, or_without)
  meet(name, session_id)
  local holder, expires_at = unpack(session(name, 'holder', 'expires_at'))
  local held = is_held(name)
  local refused = held and holder ~= id
  if not held and holder and holder ~= id then fence(holder) end  -- it did not come back in time
  if not refused and holder ~= id then refused = must_wait(name, id, tonumber(place)) end
  if refused and or_without then
    leave_line(id)
    return 'without'
  elseif refused then
    return false, ahead_of(name, stand(name, id, place))
  end
  if tonumber(expires_at) <= now and not held then forget_turns(name) end
  if get(id, 'session')[1] ~= name then unhand(id) end
  set_session(name, 'holder', id, 'hold_until', 0)
  redis.call('HDEL', key('session:' .. name), 'held_up_by')
  set(id, 'session', name)
  leave_line(id)
  return 'with'
end

local function keep(id, seconds)
  local name = get(id, 'session')[1]
  if name and session(name, 'holder')[1] == id then
    set_session(name, 'hold_until', moment(now + seconds + {HOLD_PATIENCE_SECONDS}))
  end
end

local function trim(name, bytes_max)
  local runs, kept = redis.call('ZRANGE', key('turns:' .. name), 0, -1, 'REV'), 0
  for at = 1, #runs do
    local size = redis.call('HSTRLEN', key('bodies:' .. name), runs[at])
    if kept > 0 and kept + size > bytes_max then
      for older = at, #runs do redis.call('HDEL', key('bodies:' .. name), runs[older]) end
      redis.call('ZREMRANGEBYRANK', key('turns:' .. name), 0, #runs - at)
      break
    end
    kept = kept + size
  end
  return kept
end

local function free(id, at)
  if ARGV[at + 3] ~= '1' then return {{'done', let_go(id), 0}} end
  local name, version = session_name(ARGV[at], ARGV[at + 1]), ARGV[at + 2]
  local present = session(name, 'version')[1]
  if present ~= version and (present or version ~= '0') then
    return {{'conflict', tonumber(present or 0)}}
  end
  meet(name, ARGV[at + 1])  -- forgotten meanwhile, perhaps
  local expires_at = moment(now + ARGV[at + 5])
  set_session(name, 'version', version + 1, 'expires_at', expires_at)
  redis.call('ZADD', key('sessions'), expires_at, name)
  redis.call('ZADD', key('turns:' .. name), version + 1, id)
  redis.call('HSET', key('bodies:' .. name), id, ARGV[at + 4])
  local size = trim(name, tonumber(ARGV[at + 6]))
  unhand(id)
  return {{'done', first_of(name), size}}
end
"""
)

ENLIST = Script.of(
    COMMON,
    _LINE,
    """
local id, name = ARGV[2], session_name(ARGV[3], ARGV[4])
if redis.call('EXISTS', row(id), key('wait:' .. id)) > 0 then return 0 end
meet(name, ARGV[4])
stand(name, id, ARGV[5])
return 1
""",
)

WAITS = Script.of(
    COMMON,
    _LINE,
    """
local name, member = unpack(redis.call('HMGET', key('wait:' .. ARGV[2]), 'session', 'member'))
if not name or not stays(ARGV[2]) then return false end
local id, holder = unpack(session(name, 'id', 'holder'))
return {id, is_held(name) and holder, ahead_of(name, member)}
""",
    frees=True,
)

CONVERSATION = Script.of(
    COMMON,
    _LINE,
    _TURNS,
    """
local name = session_name(ARGV[2], ARGV[3])
local expires_at = session(name, 'expires_at')[1]
return expires_at and tonumber(expires_at) > now and bodies_of(name) or {}
""",
    frees=True,
)

# Past the first ones, which are kept: how many were looked at, and how many of them forgotten.
FORGET_SESSIONS = Script.of(
    COMMON,
    _LINE,
    _TURNS,
    f"""
for _, id in ipairs(redis.call('ZRANGE', key('late'), '-inf', moment(now), 'BYSCORE',
                               'LIMIT', 0, {PAGE})) do
  leave_line(id)
end
local over = redis.call('ZRANGE', key('sessions'), '-inf', moment(now), 'BYSCORE',
                        'LIMIT', ARGV[2], {PAGE})
local gone = 0
for _, name in ipairs(over) do
  if not is_held(name) and not first_of(name) then
    local holder = session(name, 'holder')[1]
    if holder then fence(holder) end  -- nobody will know of it any more
    forget_turns(name)
    redis.call('UNLINK', key('session:' .. name))
    redis.call('ZREM', key('sessions'), name)
    gone = gone + 1
  end
end
return {{#over, gone}}
""",
    frees=True,
)

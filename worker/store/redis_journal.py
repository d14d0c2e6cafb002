"""The scripts of the journal in Redis: each change of a run is one of them.

An append says which event it begins with, so that none is written twice: one that comes late, or
again because its answer got lost, finds its place taken. By its own words there it knows itself.
"""

from __future__ import annotations

from worker.redistalk import Script
from worker.store.redis_lua import COMMON, PAGE
from worker.store.redis_sessions import SESSIONS

EVENTS_PAGE = 100  # batches that one script reads

_EVENTS = f"""
local function entry(seq) return string.format('%.0f-1', seq) end

local function events_from(id, seq)
  local bodies = {{}}
  for _, one in ipairs(redis.call('XRANGE', key('events:' .. id), entry(seq), '+',
                                  'COUNT', {EVENTS_PAGE})) do
    bodies[#bodies + 1] = {{tonumber(string.match(one[1], '^%d+')), one[2][2]}}
  end
  return bodies
end
"""

OPEN = Script.of(
    COMMON,
    SESSIONS,
    _EVENTS,
    """
local id, owner, seconds, claims = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local found = get(id, 'state', 'epoch', 'owner', 'lease_until', 'cancel', 'next_seq', 'result',
                  'redrives')
local state, next_seq = found[1], tonumber(found[6] or 0)
if state == 'finished' then return {'ended', found[7]} end
local left = tonumber(found[4] or 0) - now
if state == 'open' and left > 0 and found[3] ~= owner then
  return {'busy', found[3], moment(left)}
end
local version, turns = false, {}
if claims then
  local name = session_name(ARGV[6], ARGV[7])
  local taken, ahead = take(name, ARGV[7], id, ARGV[8], ARGV[9] == '1')
  if not taken then return {'waits', ahead} end
  if taken == 'with' then
    version = redis.call('HGET', key('session:' .. name), 'version')
    if next_seq == 0 then turns = bodies_of(name) end
  end
end
set(id, 'state', 'open', 'owner', owner, 'lease_until', moment(now + seconds))
redis.call('HSETNX', row(id), 'created_at', moment(now))
redis.call('ZREM', key('early'), id)
changed(id, 'live')
local epoch = redis.call('HINCRBY', row(id), 'epoch', 1)
local events = next_seq > 0 and events_from(id, 0) or {}
return {'open', epoch, next_seq, found[5] or '', tonumber(found[8] or 0), state == 'open' and 1 or 0,
        version, turns, events}
""",
)

# The batches from an event on, as they follow those that the script before has found.
EVENTS = Script.of(COMMON, _EVENTS, "return events_from(ARGV[2], ARGV[3])", frees=True)

_ADD = """
local function add(id, base, count, body)
  redis.call('XADD', key('events:' .. id), string.format('%.0f-1', base), 'b', body)
  set(id, 'next_seq', string.format('%.0f', base + count))
end
"""

# Lost: nothing; else the number of the next event, whether it is written, and the cancel.
APPEND = Script.of(
    COMMON,
    _ADD,
    """
local id, base, count, body = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
if not owned(id, ARGV[3]) then return false end
local found = get(id, 'next_seq', 'cancel')
local next_seq, cancel = tonumber(found[1] or 0), found[2] or ''
if count > 0 and next_seq == base then
  add(id, base, count, body)
  next_seq = base + count
elseif count > 0 then
  local at = string.format('%.0f-1', base)
  local there = redis.call('XRANGE', key('events:' .. id), at, at)[1]
  if not there or there[2][2] ~= body then return {next_seq, 0, cancel} end
end
changed(id, 'live')
return {next_seq, 1, cancel}
""",
)

RENEW = Script.of(
    COMMON,
    """
local ends, told = moment(now + ARGV[2]), {}
for at = 3, #ARGV, 2 do
  local id = ARGV[at]
  if owned(id, ARGV[at + 1]) then
    set(id, 'lease_until', ends)
    changed(id, 'live')
    told[#told + 1] = get(id, 'cancel')[1] and 2 or 1
  else
    told[#told + 1] = 0
  end
end
return told
""",
    frees=True,
)

# ARGV[4] 1: it has a session; [5] how long it is kept for the run, '' to let go of it.
RELEASE = Script.of(
    COMMON,
    SESSIONS,
    """
local id = ARGV[2]
if not owned(id, ARGV[3]) then return {'lost'} end
local freed = {'done', false, 0}
if ARGV[4] == '1' and ARGV[5] ~= '' then
  keep(id, tonumber(ARGV[5]))
elseif ARGV[4] == '1' then
  freed = free(id, 6)
  if freed[1] == 'conflict' then return freed end
end
set(id, 'state', 'released')
changed(id, 'live')
return freed
""",
    frees=True,
)

FINISH = Script.of(
    COMMON,
    SESSIONS,
    _ADD,
    """
local id, base, count, body, result = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
if not owned(id, ARGV[3]) then
  local found = get(id, 'state', 'epoch')
  return {found[1] == 'finished' and found[2] == ARGV[3] and 'again' or 'lost'}
end
local next_seq = tonumber(get(id, 'next_seq')[1] or 0)
if next_seq ~= base then return {'elsewhere', next_seq} end
local freed = {'done', false, 0}
if ARGV[8] == '1' then
  freed = free(id, 9)
  if freed[1] == 'conflict' then return freed end
end
if count > 0 then add(id, base, count, body) end
end_run(id, result)
return freed
""",
)

PUT_RESULT = Script.of(
    COMMON,
    SESSIONS,
    """
local id = ARGV[2]
if get(id, 'state')[1] == 'finished' then return 0 end
let_go(id)
redis.call('HSETNX', row(id), 'created_at', moment(now))
redis.call('HINCRBY', row(id), 'epoch', 1)
end_run(id, ARGV[3])
return 1
""",
)

RESULT = Script.of(COMMON, "return get(ARGV[2], 'result')[1]", frees=True)

CANCEL = Script.of(
    COMMON,
    """
local id = ARGV[2]
local state = get(id, 'state')[1]
if state == 'finished' then return 0 end
if not state then
  set(id, 'state', 'released', 'epoch', 0, 'created_at', moment(now))
  changed(id, 'early')
end
set(id, 'cancel', 1)
return 1
""",
    frees=True,
)

# The places, among those asked for, of the runs that are to stop.
CANCELLED = Script.of(
    COMMON,
    """
local places = {}
for at = 2, #ARGV do
  if get(ARGV[at], 'cancel')[1] then places[#places + 1] = at - 2 end
end
return places
""",
    frees=True,
)

REOPEN = Script.of(
    COMMON,
    """
local id, wanted = ARGV[2], ARGV[3]
local found = get(id, 'state', 'redrives')
if found[1] ~= 'finished' then return 0 end
if wanted ~= '' and tonumber(wanted) ~= tonumber(found[2] or 0) then return 0 end
set(id, 'state', 'released')
redis.call('HDEL', row(id), 'result', 'cancel')
redis.call('HINCRBY', row(id), 'redrives', 1)
redis.call('ZREM', key('ended'), id)
changed(id, 'live')
return 1
""",
)

_SHOWN = """
local function shown(id)
  local found = get(id, 'state', 'epoch', 'owner', 'created_at', 'updated_at', 'result', 'redrives',
                    'lease_until')
  if tonumber(found[2] or 0) == 0 then return false end
  found[8] = moment((found[8] or 0) - now)
  table.insert(found, 1, id)
  return found
end
"""

# It begins at the batch that holds the first one wanted: to poll a long run costs what is new.
VIEW = Script.of(
    COMMON,
    _EVENTS,
    _SHOWN,
    """
local id, wanted = ARGV[2], tonumber(ARGV[3])
local told = shown(id)
if not told then return false end
if wanted >= tonumber(get(id, 'next_seq')[1] or 0) then return {told, {}} end
local before = redis.call('XREVRANGE', key('events:' .. id), entry(wanted), '-', 'COUNT', 1)[1]
return {told, events_from(id, before and string.match(before[1], '^%d+') or 0)}
""",
    frees=True,
)

RECENT = Script.of(
    COMMON,
    _SHOWN,
    """
local told = {}
for _, list in ipairs({'live', 'ended'}) do
  for _, id in ipairs(redis.call('ZRANGE', key(list), 0, ARGV[2] - 1, 'REV')) do
    told[#told + 1] = shown(id)
  end
end
return told
""",
    frees=True,
)

# What could be forgotten of a list, past those that are kept.
PRUNABLE = Script.of(
    COMMON,
    f"""
local old = {{}}
for _, id in ipairs(redis.call('ZRANGE', key(ARGV[2]), '-inf', moment(now - ARGV[3]), 'BYSCORE',
                               'LIMIT', ARGV[4], {PAGE})) do
  old[#old + 1] = {{id, get(id, 'updated_at')[1] or ''}}
end
return old
""",
    frees=True,
)

# By the time as it was read: a run that has been written to since then stays.
PRUNE = Script.of(
    COMMON,
    """
local gone = 0
for at = 3, #ARGV, 2 do
  local id = ARGV[at]
  local found = get(id, 'updated_at', 'state', 'epoch')
  local is_over = found[2] == 'finished' or (found[2] == 'released' and found[3] == '0')
  if is_over and found[1] == ARGV[at + 1] then
    redis.call('UNLINK', row(id), key('events:' .. id))
    redis.call('ZREM', key(ARGV[2]), id)
    gone = gone + 1
  elseif not found[2] then
    redis.call('ZREM', key(ARGV[2]), id)
  end
end
return gone
""",
    frees=True,
)

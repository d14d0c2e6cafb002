"""The scripts of the Redis queue: each change of state is one of them.

KEYS[1] is the stream into which other programs put tasks; every other key begins with KEYS[2], its
name in braces, so that all keys of a queue lie in one slot. ARGV[1] is added to the server's clock.

    :t:ID      the task, a hash           :delayed :parked   when it is due
    :ready     by rank, then by number    :leased            when the lease runs out
    :since     when it became ready       :held              when it was leased
    :n         the last number given      :dead :done        when it ended
    :bell      a stream with one entry: it changes when those who wait should look again
"""

from __future__ import annotations

from worker.queues.port import AGEING_SECONDS
from worker.queues.reasons import HISTORY_MAX, delivered_too_often, handed_back, lease_ran_out
from worker.queues.redis_intake import MOVE_BATCH, TAKE_IN
from worker.redislink import BLOCK_SECONDS
from worker.redistalk import Script

PRUNE_BATCH = 500  # tasks in one script, for the server does nothing else meanwhile
BURY_BATCH = 100  # tasks that one claim gives up

# Numbers are microseconds of the server's clock, and never come twice: also not after the data
# was lost, as a counter would.
_COMMON = f"""
local q, shift = KEYS[2], tonumber(ARGV[1])
local parts = redis.call('TIME')
local now = parts[1] + parts[2] / 1000000 + shift

local function key(name) return q .. ':' .. name end
local function row(id) return q .. ':t:' .. id end
local function moment(seconds) return string.format('%.6f', seconds) end
local function rang() redis.call('XADD', key('bell'), 'MAXLEN', 1, '*', 'q', '1') end

local function number()
  local last = tonumber(redis.call('GET', key('n')) or 0)
  local next = math.max(math.floor(now * 1000000), last + 1)
  local text = string.format('%016.0f', next)
  redis.call('SET', key('n'), text)
  return text
end

-- A row that a hand has deleted, or put something else in the place of, is no task: what lists it
-- lets go of it, for a script that fails at one row stops the work at all of them.
local function is_row(id) return redis.call('TYPE', row(id)).ok == 'hash' end
local function get(id, ...)
  local found = redis.pcall('HMGET', row(id), ...)
  return found.err and {{}} or found
end
local function figure_of(id, field)
  local value = tonumber(get(id, field)[1] or 0) or 0
  return math.abs(value) < 1e15 and value or 0  -- false of not-a-number as well
end
local function count_one(id, field)
  redis.call('HSET', row(id), field, string.format('%.0f', figure_of(id, field) + 1))
end
local function set(id, ...) redis.call('HSET', row(id), ...) end

local function note(id, line)
  local is_read, lines = pcall(cjson.decode, get(id, 'history')[1] or '[]')
  if not is_read or type(lines) ~= 'table' then lines = {{}} end
  while #lines >= {HISTORY_MAX} do table.remove(lines, 1) end
  lines[#lines + 1] = line
  set(id, 'history', cjson.encode(lines))
end

local function show(id, ready_at)
  local place = get(id, 'number')[1] or ''
  if not string.find(place, '^%d+$') or #place ~= 16 then
    place = number()
    set(id, 'number', place)
  end
  local rank = ready_at - {AGEING_SECONDS} * figure_of(id, 'priority')
  set(id, 'state', 'ready', 'ready_at', moment(ready_at))
  redis.call('ZADD', key('ready'), moment(rank), place .. ':' .. id)
  redis.call('ZADD', key('since'), moment(ready_at), id)
  rang()
end

local function hide(id, state, due)
  set(id, 'state', state, 'ready_at', moment(due))
  redis.call('ZADD', key(state), moment(due), id)
  if due < now + {BLOCK_SECONDS} then rang() end  -- else they look again before it is due
end

local function unlist(id, state)
  if state == 'ready' then
    redis.call('ZREM', key('ready'), (get(id, 'number')[1] or '') .. ':' .. id)
    redis.call('ZREM', key('since'), id)
  elseif state == 'leased' then
    redis.call('ZREM', key('leased'), id)
    redis.call('ZREM', key('held'), id)
  else
    redis.call('ZREM', key(state), id)
  end
end

local function settle(id)
  set(id, 'state', 'done', 'finished_at', moment(now))
  redis.call('HDEL', row(id), 'body', 'history', 'reason', 'owner')
  redis.call('ZADD', key('done'), moment(now), id)
end

local function bury(id, reason)
  note(id, reason)
  set(id, 'state', 'dead', 'reason', reason, 'token', number(), 'finished_at', moment(now))
  redis.call('ZADD', key('dead'), moment(now), id)
end

local function owned(id, token)
  local found = get(id, 'state', 'token')
  return found[1] == 'leased' and found[2] == token
end

local function enter(id, body, priority, not_before)
  if redis.call('EXISTS', row(id)) == 1 then return 0 end
  set(id, 'body', body, 'priority', priority, 'number', number(), 'enqueued_at', moment(now),
      'deliveries', 0, 'handings', 0, 'lapses', 0, 'woken', 0, 'token', '', 'owner', '')
  if not_before > now then hide(id, 'delayed', not_before) else show(id, now) end
  return 1
end
"""

_WAKE_DUE = f"""
for _, state in ipairs({{'delayed', 'parked'}}) do
  local due = redis.call('ZRANGE', key(state), '-inf', moment(now), 'BYSCORE', 'LIMIT', 0, {MOVE_BATCH})
  for _, id in ipairs(due) do
    redis.call('ZREM', key(state), id)
    if is_row(id) then show(id, figure_of(id, 'ready_at')) end
  end
end
"""

PUT = Script.of(
    _COMMON,
    TAKE_IN,
    """
local id, body, priority, not_before, most = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
if redis.call('EXISTS', row(id)) == 1 then return 0 end
if most >= 0 then
  local waiting = redis.call('XLEN', KEYS[1])
  for _, state in ipairs({'ready', 'delayed', 'parked'}) do
    waiting = waiting + redis.call('ZCARD', key(state))
  end
  if waiting >= most then return -1 end
end
return enter(id, body, priority, tonumber(not_before))
""",
)

CLAIM = Script.of(
    _COMMON,
    TAKE_IN,
    _WAKE_DUE,
    f"""
local owner, seconds = ARGV[2], tonumber(ARGV[3])
local most, deliveries_max = tonumber(ARGV[4]), tonumber(ARGV[5])
local leases, dead = {{}}, {{}}

local function hand(id)
  local deliveries = figure_of(id, 'deliveries')
  if deliveries >= deliveries_max then
    bury(id, string.format('{delivered_too_often("%s")}', deliveries, deliveries))
    dead[#dead + 1] = id
    return
  end
  set(id, 'state', 'leased', 'owner', owner, 'token', number(), 'woken', 0,
      'deliveries', deliveries + 1, 'lease_until', moment(now + seconds))
  count_one(id, 'handings')
  redis.call('ZADD', key('leased'), moment(now + seconds), id)
  redis.call('ZADD', key('held'), moment(now), id)
  local told = get(id, 'body', 'deliveries', 'handings', 'token', 'enqueued_at', 'priority', 'lapses')
  table.insert(told, 1, id)
  leases[#leases + 1] = told
end

while #leases < most and #dead < {BURY_BATCH} do
  local id = redis.call('ZRANGE', key('leased'), '-inf', moment(now), 'BYSCORE', 'LIMIT', 0, 1)[1]
  if not id then break end
  unlist(id, 'leased')
  if is_row(id) then
    local found = get(id, 'deliveries', 'owner')
    count_one(id, 'lapses')
    note(id, string.format('{lease_ran_out(delivery="%s", owner="%s")}', tostring(found[1]), tostring(found[2])))
    hand(id)
  end
end
while #leases < most and #dead < {BURY_BATCH} do
  local member = redis.call('ZPOPMIN', key('ready'))[1]
  if not member then break end
  local id = string.sub(member, 18)
  redis.call('ZREM', key('since'), id)
  if is_row(id) then hand(id) end
end

local due = math.huge
for _, state in ipairs({{'delayed', 'parked', 'leased'}}) do
  local first = redis.call('ZRANGE', key(state), 0, 0, 'WITHSCORES')[2]
  if first then due = math.min(due, tonumber(first) - now) end
end
if #dead >= {BURY_BATCH} then due = 0 end
local bell = redis.call('XREVRANGE', key('bell'), '+', '-', 'COUNT', 1)[1]
return {{leases, dead, due < 1e9 and moment(due) or '', bell and bell[1] or '0-0'}}
""",
    frees=True,
)

EXTEND = Script.of(
    _COMMON,
    """
local kept, until_ = {}, moment(now + ARGV[2])
for at = 3, #ARGV, 2 do
  local id = ARGV[at]
  local mine = owned(id, ARGV[at + 1])
  if mine then
    set(id, 'lease_until', until_)
    redis.call('ZADD', key('leased'), until_, id)
  end
  kept[#kept + 1] = mine and 1 or 0
end
return kept
""",
    frees=True,
)

ACK = Script.of(
    _COMMON,
    """
local id, token = ARGV[2], ARGV[3]
local found = get(id, 'state', 'token')
-- Gone means acked and pruned: nothing is left that could be stale.
if not found[1] or (found[1] == 'done' and found[2] == token) then return 1 end
if not owned(id, token) then return 0 end
unlist(id, 'leased')
settle(id)
return 1
""",
    frees=True,
)

NACK = Script.of(
    _COMMON,
    f"""
local id, delay, counted, reason = ARGV[2], tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6]
if not owned(id, ARGV[3]) then return 0 end
local found = get(id, 'deliveries', 'woken', 'ready_at')
note(id, string.format('{handed_back(delivery="%s", reason="%s")}', found[1], reason))
unlist(id, 'leased')
if not counted then redis.call('HINCRBY', row(id), 'deliveries', -1) end
if delay > 0 and (counted or found[2] ~= '1') then
  hide(id, counted and 'delayed' or 'parked', now + delay)
elseif delay > 0 or counted then
  show(id, now)
else  -- handed back without fault, a task keeps its place
  show(id, tonumber(found[3]))
end
return 1
""",
    frees=True,
)

BURY = Script.of(
    _COMMON,
    """
local id, reason = ARGV[2], ARGV[4]
if not owned(id, ARGV[3]) then return 0 end
unlist(id, 'leased')
bury(id, reason)
return 1
""",
    frees=True,
)

DEAD = Script.of(
    _COMMON,
    """
local letters = {}
for _, id in ipairs(redis.call('ZRANGE', key('dead'), 0, ARGV[2] - 1, 'REV')) do
  if is_row(id) then
    local told = get(id, 'body', 'reason', 'deliveries', 'enqueued_at', 'finished_at', 'owner', 'history')
    table.insert(told, 1, id)
    letters[#letters + 1] = told
  end
end
return letters
""",
)

REDRIVE = Script.of(
    _COMMON,
    """
local id = ARGV[2]
if get(id, 'state')[1] ~= 'dead' then return 0 end
note(id, 'redriven')
unlist(id, 'dead')
set(id, 'deliveries', 0, 'reason', '')
show(id, now)
return 1
""",
)

CANCEL = Script.of(
    _COMMON,
    TAKE_IN,
    """
local id = ARGV[2]
local state = get(id, 'state')[1]
if state ~= 'ready' and state ~= 'delayed' and state ~= 'parked' then return 0 end
unlist(id, state)
settle(id)
return 1
""",
    frees=True,
)

WAKE = Script.of(
    _COMMON,
    """
local id, afresh = ARGV[2], ARGV[3] == '1'
local found = get(id, 'state', 'enqueued_at')
if found[1] == 'leased' then set(id, 'woken', 1) end
if found[1] ~= 'parked' then return 0 end
unlist(id, 'parked')
show(id, afresh and now or tonumber(found[2] or now) or now)
return 1
""",
    frees=True,
)

PLACE = Script.of(
    _COMMON,
    TAKE_IN,
    """
local found = get(ARGV[2], 'state', 'ready_at', 'lease_until', 'owner', 'deliveries', 'history')
if not found[1] then return false end
local state = found[1]
local over = state == 'leased' and found[3] or (state == 'delayed' or state == 'parked') and found[2]
found[#found + 1] = (over and tonumber(over) <= now) and 'ready' or state
for at = 1, #found do found[at] = found[at] or '' end
return found
""",
    frees=True,
)

# Apart from the place, which is asked for again and again: a body may be a megabyte.
BODY = Script.of(_COMMON, TAKE_IN, "return get(ARGV[2], 'body')[1]", frees=True)

DEPTH = Script.of(
    _COMMON,
    TAKE_IN,
    """
local before, after = moment(now), '(' .. moment(now)
local ready, ready_since = redis.call('ZCARD', key('ready')) + redis.call('XLEN', KEYS[1]), math.huge
local counts = {}
local function oldest(name)
  local first = redis.call('ZRANGE', key(name), 0, 0, 'WITHSCORES')[2]
  if first and tonumber(first) <= now then ready_since = math.min(ready_since, tonumber(first)) end
end
oldest('since')
for _, state in ipairs({'delayed', 'parked', 'leased'}) do
  ready = ready + redis.call('ZCOUNT', key(state), '-inf', before)
  counts[#counts + 1] = redis.call('ZCOUNT', key(state), after, '+inf')
  oldest(state)
end
local held_since, at = false, 0
while counts[3] > 0 and not held_since do  -- past those whose lease is over
  local ids = redis.call('ZRANGE', key('held'), at, at + 99, 'WITHSCORES')
  if #ids == 0 then break end
  for each = 1, #ids, 2 do
    if tonumber(redis.call('ZSCORE', key('leased'), ids[each])) > now then
      held_since = ids[each + 1]
      break
    end
  end
  at = at + 100
end
local function age(since) return moment(math.max(0, now - since)) end
return {ready, counts[1], counts[3], counts[2], redis.call('ZCARD', key('dead')),
        ready_since < math.huge and age(ready_since) or '', held_since and age(held_since) or ''}
""",
    frees=True,
)

PRUNE = Script.of(
    _COMMON,
    f"""
local ids = redis.call('ZRANGE', key('done'), '-inf', moment(now - ARGV[2]), 'BYSCORE',
                       'LIMIT', 0, {PRUNE_BATCH})
for _, id in ipairs(ids) do
  redis.call('DEL', row(id))
  redis.call('ZREM', key('done'), id)
end
return #ids
""",
    frees=True,
)

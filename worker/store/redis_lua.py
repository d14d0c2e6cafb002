"""What the scripts of the Redis store have in common: the clock, the keys, the row of a run.

KEYS[1] is the name of the store in braces; every key begins with it, so that all lie in one slot.
ARGV[1] is added to the server's clock.

    :run:ID      a run, a hash                  :live :ended :early   by their last change
    :events:ID   its batches, a stream; the number of an entry is that of its first event
    :session:S   a session, a hash              :sessions             by the end of their time
    :turns:S     its runs, by the save          :bodies:S             what they have added
    :line:S      who waits, by the place        :wait:ID :late        a place, and until when
    :expect:N    an expectation, a hash         :at:A :of:ID :pending:KIND :asked
    :post:A      a post, a hash                 :posts :unheard :unexpected :unexpected-bytes
    :values :values-at                          last good values
    :peers :peer-words                          gossip, by its end
    :n           the last number given

A run that nobody has opened (somebody asked for its end, before it began) is in `early`.
"""

from __future__ import annotations

PAGE = 200  # rows that one script reads or forgets, for the server does nothing else meanwhile

COMMON = """
local shift = tonumber(ARGV[1])
local parts = redis.call('TIME')
local now = parts[1] + parts[2] / 1000000 + shift

local function key(name) return KEYS[1] .. ':' .. name end
local function row(id) return key('run:' .. id) end
local function moment(seconds) return string.format('%.6f', seconds) end
local function number() return redis.call('INCR', key('n')) end
local function get(id, ...) return redis.call('HMGET', row(id), ...) end
local function set(id, ...) redis.call('HSET', row(id), ...) end

local function owned(id, epoch)
  local found = get(id, 'state', 'epoch')
  return found[1] == 'open' and found[2] == epoch
end

local function changed(id, list)
  set(id, 'updated_at', moment(now))
  redis.call('ZADD', key(list), moment(now), id)
end

local function end_run(id, result)
  set(id, 'state', 'finished', 'result', result)
  redis.call('ZREM', key('live'), id)
  redis.call('ZREM', key('early'), id)
  changed(id, 'ended')
end

-- Runs that have a session have it by this; should one of them be alive all the same, it is fenced.
local function fence(id)
  if get(id, 'state')[1] == 'open' then
    set(id, 'state', 'released')
    changed(id, 'live')
  end
end
"""

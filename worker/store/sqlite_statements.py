"""The statements of the SQLite store, named; its tables are in `sqlite_tables.py`."""

from __future__ import annotations

_OF_RUN = "number between :run << 24 and :run << 24 | 16777215"

FIND = """
select number, state, epoch, owner, lease_until, cancel, next_seq, result, redrives
from run where id = ?
"""
CREATE = "insert into run (id, created_at, updated_at) values (?, ?, ?) on conflict do nothing"
BEGIN = """
insert into run (id, state, epoch, owner, lease_until, created_at, updated_at)
values (?, 'open', 1, ?, ?, ?, ?)
"""
OWN = """
update run set state = 'open', epoch = epoch + 1, owner = ?, lease_until = ?, updated_at = ?
where number = ?
"""
EVENTS = f"select body from event where {_OF_RUN} order by number"
# It begins at the batch that holds the first one wanted: to poll a long run costs what is new.
EVENTS_AFTER = """
select number & 16777215, body from event
where number between
  coalesce((
    select max(number) from event where number between :run << 24 and :run << 24 | :after),
    :run << 24)
  and :run << 24 | 16777215
  and (number & 16777215) + count > :after
order by number
"""

APPEND = """
update run set next_seq = next_seq + ?, updated_at = ?
where id = ? and epoch = ? and state = 'open' returning number, next_seq, cancel
"""
ADD_EVENTS = "insert into event (number, count, body) values (? << 24 | ?, ?, ?)"
RENEW = """
update run set lease_until = ?, updated_at = ?
where id = ? and epoch = ? and state = 'open' returning cancel
"""
RELEASE = """
update run set state = 'released', updated_at = ? where id = ? and epoch = ? and state = 'open'
"""
FINISH = "update run set state = 'finished', result = ? where number = ?"
IS_FINISHED_BY = "select 1 from run where id = ? and epoch = ? and state = 'finished'"

PUT_RESULT = """
update run set state = 'finished', result = ?, epoch = epoch + 1, updated_at = ?
where id = ? and state != 'finished'
"""
RESULT = "select result from run where id = ?"
CANCEL = "update run set cancel = 1 where id = ? and state != 'finished'"
CANCELLED_AMONG = """
select id from run where id in (select value from json_each(?)) and cancel = 1
"""
CANCEL_REQUESTED = "select cancel from run where id = ?"
REOPEN = """
update run set state = 'released', result = null, cancel = 0, redrives = redrives + 1,
  updated_at = ?
where id = ? and state = 'finished' and (? is null or redrives = ?)
"""

_VIEW = """
id, state, epoch, owner, created_at, updated_at, result, redrives, lease_until - :now, number
"""
VIEW = f"select {_VIEW} from run where id = :id and epoch > 0"
RECENT_LIVE = f"select {_VIEW} from run where state != 'finished' and epoch > 0"
RECENT_FINISHED = f"""
select {_VIEW} from run where state = 'finished' order by updated_at desc limit :limit
"""

_OLD = "updated_at <= :before and (updated_at, number) > (:after, :number)"
PRUNABLE = f"""
select updated_at, number, id from run where state = 'finished' and {_OLD}
union all
select updated_at, number, id from run
where state != 'finished' and state = 'released' and epoch = 0 and {_OLD}
order by 1, 2 limit :limit
"""
FORGET_EVENTS = f"delete from event where {_OF_RUN}"
FORGET_RUN = """
delete from run where updated_at = ? and number = ? and id = ?
  and (state = 'finished' or (state = 'released' and epoch = 0)) returning state
"""

REMEMBER = """
insert into last_good (key, value, at) values (?, ?, ?)
on conflict (key) do update set value = excluded.value, at = excluded.at
"""
FORGET_OLDEST = """
delete from last_good where key in (
  select key from last_good order by at desc limit -1 offset ?)
"""
RECALL = "select value, at from last_good where key = ?"

IS_OWNED = "select 1 from run where id = ? and epoch = ? and state = 'open'"

SESSION = """
select number, version, holder, hold_until, expires_at, held_up_by, held_up_since
from session where tenant = ? and id = ?
"""
ADD_SESSION = "insert into session (tenant, id, expires_at) values (?, ?, ?)"
HOLDER = "select state, lease_until from run where id = ?"
FENCE_HOLDER = """
update run set state = 'released', updated_at = ? where id = ? and state = 'open'
"""
TAKE_SESSION = """
update session set holder = ?, hold_until = 0, held_up_by = null where number = ?
"""
HOLD_UP = "update session set held_up_by = ?, held_up_since = ? where number = ?"
HOLD_SESSION = "update session set hold_until = ? where holder = ?"
FREE_SESSION = "update session set holder = null where holder = ? returning number"
SAVE_SESSION = """
update session set version = version + 1, expires_at = :expires_at,
  holder = case when holder = :run then null else holder end
where tenant = :tenant and id = :id and version = :version returning number
"""

FIRST_IN_LINE = """
select run, place from session_line where session = ? and until > ?
order by place, number limit 1
"""
STAND_IN_LINE = """
insert into session_line (run, session, place, until) values (?, ?, ?, ?)
on conflict (run) do update
set session = excluded.session, place = excluded.place, until = excluded.until
returning number
"""
ENLIST = """
insert into session_line (run, session, place, until)
select :run, :session, :place, :until where not exists (select 1 from run where id = :run)
on conflict (run) do nothing
"""
AHEAD_MAX = 100
AHEAD = f"""
select count(*) from (
  select 1 from session_line
  where session = ? and until > ? and (place, number) < (?, ?) limit {AHEAD_MAX})
"""
IN_LINE = """
select s.id, l.place, l.number, s.number, version, holder, hold_until, expires_at, held_up_by,
  held_up_since
from session_line l join session s on s.number = l.session where l.run = ? and l.until > ?
"""
LEAVE_LINE = "delete from session_line where run = ?"

_TURNS = "number between :session << 24 and :session << 24 | 16777215"
TURNS = f"select body from session_turn where {_TURNS} order by number"
TURN_SIZES = f"select number, length(body) from session_turn where {_TURNS} order by number desc"
ADD_TURN = "insert into session_turn (number, run, body) values (? << 24 | ?, ?, ?)"
FORGET_TURN_OF = f"delete from session_turn where {_TURNS} and run = :run"
FORGET_TURNS_BEFORE = f"delete from session_turn where {_TURNS} and number < :number"
FORGET_TURNS = f"delete from session_turn where {_TURNS}"
CONVERSATION = """
select t.body from session s join session_turn t
  on t.number between s.number << 24 and s.number << 24 | 16777215
where s.tenant = ? and s.id = ? and s.expires_at > ? order by t.number
"""

OVER_SESSIONS = """
select number, holder from session where expires_at <= :now and (
  holder is null or not exists (
    select 1 from run where id = holder and (
      (state = 'open' and lease_until + :patience > :now)
      or (state = 'released' and hold_until > :now))))
  and not exists (select 1 from session_line where session = number and until > :now)
limit :limit
"""
FORGET_SESSION = "delete from session where number = ?"
FORGET_LINE_OF = "delete from session_line where session = ?"
FORGET_LATE = """
delete from session_line where number in (
  select number from session_line where until <= ? limit ?)
"""

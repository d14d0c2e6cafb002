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
EVENTS_AFTER = f"""
select number & 16777215, body from event
where {_OF_RUN} and (number & 16777215) + count > :after order by number
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
CANCEL_REQUESTED = "select cancel from run where id = ?"
REOPEN = """
update run set state = 'released', result = null, cancel = 0, redrives = redrives + 1,
  updated_at = ?
where id = ? and state = 'finished'
"""

_VIEW = "id, state, epoch, owner, created_at, updated_at, result, redrives, number"
VIEW = f"select {_VIEW} from run where id = ? and epoch > 0"
RECENT_LIVE = f"select {_VIEW} from run where state != 'finished' and epoch > 0"
RECENT_FINISHED = f"""
select {_VIEW} from run where state = 'finished' order by updated_at desc limit ?
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

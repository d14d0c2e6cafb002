"""The statements of the SQLite store, named.

Events lie as they were written: one row for each append, a JSON array of events, numbered by its
first. The epoch is checked in the statement that moves `next_seq`, in the transaction of the insert.
The indexes hold nothing that a step changes, so an append touches two rows and no index.
"""

from __future__ import annotations

SCHEMA = """
create table if not exists run (
  number integer primary key,
  id text not null unique,
  state text not null default 'released' check (state in ('open', 'released', 'finished')),
  epoch integer not null default 0,
  owner text not null default '',
  lease_until real not null default 0,
  cancel integer not null default 0,
  next_seq integer not null default 0,
  created_at real not null,
  updated_at real not null,
  result blob
) strict;
create index if not exists run_live on run (state) where state != 'finished';
create index if not exists run_finished on run (updated_at) where state = 'finished';
create table if not exists event (
  run integer not null,
  seq integer not null,
  count integer not null,
  body blob not null,
  primary key (run, seq)
) strict, without rowid;
create table if not exists last_good (
  number integer primary key autoincrement,
  key text not null unique,
  value text not null,
  at real not null
) strict
"""

FIND = """
select number, state, epoch, owner, lease_until, cancel, next_seq, result from run where id = ?
"""
CREATE = "insert into run (id, created_at, updated_at) values (?, ?, ?) on conflict do nothing"
OWN = """
update run set state = 'open', epoch = epoch + 1, owner = ?, lease_until = ?, updated_at = ?
where number = ?
"""
EVENTS = "select body from event where run = ? order by seq"
EVENTS_AFTER = "select seq, body from event where run = ? and seq + count > ? order by seq"

APPEND = """
update run set next_seq = next_seq + ?, updated_at = ?
where id = ? and epoch = ? and state = 'open' returning number, next_seq, cancel
"""
ADD_EVENTS = "insert into event (run, seq, count, body) values (?, ?, ?, ?)"
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
update run set state = 'released', result = null, cancel = 0, updated_at = ?
where id = ? and state = 'finished'
"""

_VIEW = "id, state, epoch, owner, created_at, updated_at, result, number"
VIEW = f"select {_VIEW} from run where id = ? and epoch > 0"
RECENT_LIVE = f"select {_VIEW} from run where state != 'finished' and epoch > 0"
RECENT_FINISHED = f"""
select {_VIEW} from run where state = 'finished' order by updated_at desc limit ?
"""

PRUNABLE = """
select number from run where state = 'finished' and updated_at <= ?1
union all
select number from run where state = 'released' and epoch = 0 and updated_at <= ?1
limit ?2
"""
FORGET_EVENTS = "delete from event where run = ?"
FORGET_RUN = "delete from run where number = ? returning state"

REMEMBER = "insert or replace into last_good (key, value, at) values (?, ?, ?)"
FORGET_OLDEST = """
delete from last_good where number <= (select max(number) from last_good) - ?
"""
RECALL = "select value, at from last_good where key = ?"

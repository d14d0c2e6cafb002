"""The statements of the PostgreSQL store, named; its tables are in `postgres_tables.py`.

Those of runs are one transaction in one round trip each, and ask for the epoch in the statement that
writes. `%(shift)s` moves the clock, for tests; it is 0.
"""

from __future__ import annotations

CLOCK = "(extract(epoch from statement_timestamp())::float8 + %(shift)s::float8)"
# Lost in a crash of the server, it can be found out again: no need to wait for the disk.
QUICK = "(select set_config('synchronous_commit', 'off', true)) is not null"
_OURS = "id = %(run)s and epoch = %(epoch)s and state = 'open'"

NOW = f"select {CLOCK}"

# The row is locked as it was before, for its state tells whether this is a take-over. An open waits
# for the disk: if a crash lost it, the next one would be given the same epoch, and fence nobody.
OPEN = f"""
with clock as materialized (
  select {CLOCK} as now
), before as materialized (
  select state, owner, lease_until, result from @run where id = %(run)s for update
), opened as (
  insert into @run as r (id, state, epoch, owner, lease_until, created_at, updated_at)
  select %(run)s, 'open', 1, %(owner)s, now + %(seconds)s::float8, now, now
  from clock left join before on true
  on conflict (id) do update set state = 'open', epoch = r.epoch + 1, owner = excluded.owner,
    lease_until = excluded.lease_until, updated_at = excluded.updated_at
  where r.state <> 'finished'
    and not (r.state = 'open' and r.lease_until > excluded.updated_at and r.owner <> excluded.owner)
  returning number, epoch, next_seq, cancel, redrives
)
select number, epoch, next_seq, cancel, redrives, state, owner, lease_until - now, result
from clock left join opened on true left join before on true
"""
EVENTS = "select body from @event where run = %(run)s and seq < %(next_seq)s order by seq"

_ADDED = """
  insert into @event (run, seq, count, body)
  select number, next_seq - %(count)s::integer, %(count)s::integer, %(body)b from ours
  where %(count)s::integer > 0
"""
# After the events that the owner knows of and nothing else: what the server reads late, from a
# connection that was given up, finds its place taken.
_APPEND = f"""
with ours as (
  update @run set next_seq = next_seq + %(count)s::integer, updated_at = {CLOCK}
  where {_OURS} and next_seq = %(seq)s and {{quick}}
  returning number, next_seq, cancel
), added as ({_ADDED})
select next_seq, cancel from ours
"""
APPEND = _APPEND.format(quick="true")
APPEND_UNSYNCED = _APPEND.format(quick=QUICK)
APPENDED = f"""
select next_seq, cancel, next_seq = %(seq)s + %(count)s::integer
  and exists (select from @event where run = number and seq = %(seq)s and body = %(body)b)
from @run where {_OURS}
"""

# Locked in one order, so that two heartbeats never wait for each other in a circle.
RENEW = f"""
with ours as (
  select number from @run join unnest(%(runs)s::text[], %(epochs)s::bigint[]) as held (i, e)
    on id = i and epoch = e
  where state = 'open' and {QUICK} order by number for update of run)
update @run set lease_until = {CLOCK} + %(seconds)s::float8, updated_at = {CLOCK}
where number in (select number from ours) returning id, epoch, cancel
"""
RELEASE = f"update @run set state = 'released', updated_at = {CLOCK} where {_OURS}"
RELEASE_UNSYNCED = f"{RELEASE} and {QUICK}"
FINISH = f"""
with ours as (
  update @run set state = 'finished', result = %(result)b,
    next_seq = next_seq + %(count)s::integer, updated_at = {CLOCK}, finished_at = {CLOCK}
  where {_OURS}
  returning number, next_seq
), added as ({_ADDED})
select 1 from ours
"""
IS_FINISHED_BY = (
    "select 1 from @run where id = %(run)s and epoch = %(epoch)s and state = 'finished'"
)
IS_OWNED = f"select 1 from @run where {_OURS} for update"

PUT_RESULT = f"""
with ended as (
  insert into @run as r (id, state, epoch, result, created_at, updated_at, finished_at)
  select %(run)s, 'finished', 1, %(result)b, now, now, now from (select {CLOCK} as now) as clock
  on conflict (id) do update set state = 'finished', result = excluded.result,
    epoch = r.epoch + 1, updated_at = excluded.updated_at, finished_at = excluded.finished_at
  where r.state <> 'finished'
  returning id
), freed as (
  update @session set holder = null where holder in (select id from ended)
), left_line as (
  delete from @session_line where run in (select id from ended)
)
select 1 from ended
"""
RESULT = "select result from @run where id = %(run)s and result is not null"
CANCEL = f"""
insert into @run as r (id, cancel, created_at, updated_at)
select %(run)s, true, now, now from (select {CLOCK} as now) as clock
on conflict (id) do update set cancel = true where r.state <> 'finished'
"""
CANCELLED_AMONG = "select id from @run where id = any(%(runs)s::text[]) and cancel"
REOPEN = f"""
update @run set state = 'released', result = null, cancel = false, redrives = redrives + 1,
  updated_at = {CLOCK}, finished_at = null
where id = %(run)s and state = 'finished'
  and (%(redrives)s::integer is null or redrives = %(redrives)s::integer)
"""

_VIEW = f"""
id, state, epoch, owner, created_at, updated_at, result, redrives, lease_until - {CLOCK}
"""
VIEW = f"select {_VIEW}, number, next_seq from @run where id = %(run)s and epoch > 0"
# It begins at the batch that holds the first one wanted: to poll a long run costs what is new.
EVENTS_AFTER = """
select seq, body from @event
where run = %(run)s and seq < %(next_seq)s and seq >= coalesce(
    (select max(seq) from @event where run = %(run)s and seq <= %(first)s), 0)
  and seq + count > %(first)s
order by seq
"""
RECENT = f"""
(select {_VIEW} from @run where state <> 'finished' and epoch > 0
 order by updated_at desc limit %(limit)s)
union all
(select {_VIEW} from @run where state = 'finished' order by finished_at desc limit %(limit)s)
order by updated_at desc limit %(limit)s
"""

_OLD = "{0} <= %(before)s and ({0}, number) > (%(after)s::float8, %(number)s::bigint)"
PRUNABLE = f"""
(select updated_at, number, id from @run
 where state = 'finished' and {_OLD.format("finished_at")}
 order by finished_at, number limit %(limit)s)
union all
(select updated_at, number, id from @run
 where state = 'released' and epoch = 0 and {_OLD.format("created_at")}
 order by created_at, number limit %(limit)s)
order by 1, 2 limit %(limit)s
"""
# The rows as they were read: a run that has been written to since then stays.
FORGET_RUNS = """
with gone as (
  delete from @run using unnest(%(ats)s::float8[], %(numbers)s::bigint[]) as read (a, n)
  where number = n and updated_at = a
    and (state = 'finished' or (state = 'released' and epoch = 0))
  returning number, state
), events as (
  delete from @event where run in (select number from gone)
)
select count(*) from gone where state = 'finished'
"""

REMEMBER = f"""
insert into @last_good (key, value, at)
select * from unnest(%(keys)s::bytea[], %(contents)s::bytea[], %(ats)s::float8[]) where {QUICK}
on conflict (key) do update set value = excluded.value, at = excluded.at
"""
FORGET_OLDEST = f"""
delete from @last_good where {QUICK} and key in (
  select key from @last_good order by at desc offset %(most)s)
"""
RECALL = "select value, at from @last_good where key = %(key)s"

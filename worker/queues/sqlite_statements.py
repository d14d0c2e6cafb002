"""The statements of the SQLite queue, named; its tables are in `sqlite_tables.py`."""

from __future__ import annotations

from worker.queues.reasons import HISTORY_MAX

# A shell may have written anything into a row; no row may stop the claims of the others.
_NOTE = (  # one line more in the history
    "json_insert(case when not json_valid(history) or json_type(history) != 'array' then '[]'"
    f" when json_array_length(history) < {HISTORY_MAX} then history"
    " else json_remove(history, '$[0]') end, '$[#]', " + "{line})"
)
_MORE = "min({count}, 1000000000) + 1"
_LINE = "'delivery ' || deliveries || ': ' || "

PUT = """
insert into task (id, queue, payload, priority, state, ready_at, enqueued_at)
values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing
"""
KNOWN = "select 1 from task where queue = ? and id = ?"
WAITING = """
select count(*) from (
  select 1 from task where queue = :queue and state = 'ready'
  union all select 1 from task where queue = :queue and state in ('delayed', 'parked')
  limit :limit)
"""

WAKE = """
update task set state = 'ready' where number in (
  select number from task
  where queue = ? and state in ('delayed', 'parked') and ready_at <= ? limit 1000)
"""
WAKE_ONE = """
update task set state = 'ready', ready_at = coalesce(:now, enqueued_at)
where queue = :queue and id = :id and state = 'parked'
"""
WAKE_LATER = "update task set woken = 1 where queue = :queue and id = :id and state = 'leased'"
_CLAIM = f"""
update task set state = 'leased', deliveries = {_MORE.format(count="deliveries")},
  handings = {_MORE.format(count="handings")},
  woken = 0, token = random(), owner = :owner, leased_at = :now, lease_until = :until {{more}}
where number in ({{which}} limit :limit)
returning rank, number, token, id, cast(payload as blob), deliveries, handings, enqueued_at, priority,
  lapses
"""
# What was due when it was put is due, also when the clock has been set back since.
CLAIM_READY = _CLAIM.format(
    more="",
    which="""
  select number from task
  where queue = :queue and state = 'ready' and ready_at <= max(:now, enqueued_at)
  order by rank, number""",
)
CLAIM_EXPIRED = _CLAIM.format(
    more=f", lapses = {_MORE.format(count='lapses')}, history = "
    + _NOTE.format(line="'delivery ' || deliveries || ': the lease of ' || owner || ' ran out'"),
    which="""
  select number from task where queue = :queue and state = 'leased' and lease_until <= :now
  order by lease_until""",
)
NEXT_DUE = """
select min(due) from (
  select min(lease_until) as due from task where queue = :queue and state = 'leased'
  union all
  select min(ready_at) from task where queue = :queue and state in ('delayed', 'parked'))
"""
GIVE_UP = f"""
update task set state = 'dead', reason = :reason, finished_at = :now, lease_until = null,
  deliveries = deliveries - 1, handings = handings - 1,
  history = {_NOTE.format(line=":reason")}
where number = :number
"""

EXTEND = "update task set lease_until = ? where number = ? and token = ? and state = 'leased'"
ACK = """
update task set state = 'done', payload = x'', history = '[]', finished_at = ?, lease_until = null
where number = ? and token = ? and state = 'leased'
"""
SETTLED_BY = "select state, token from task where number = ?"
_ROUSED = "woken and :state = 'parked'"
NACK = f"""
update task set state = case when {_ROUSED} then 'ready' else :state end,
  ready_at = case when {_ROUSED} then :now else coalesce(:ready_at, ready_at) end,
  lease_until = null,
  deliveries = deliveries - :uncounted, history = {_NOTE.format(line=_LINE + ":reason")}
where number = :number and token = :token and state = 'leased'
"""
BURY = f"""
update task set state = 'dead', reason = :reason, finished_at = :now, lease_until = null,
  history = {_NOTE.format(line=_LINE + ":reason")}
where number = :number and token = :token and state = 'leased'
"""

DEAD = """
select id, cast(payload as blob), reason, deliveries, enqueued_at, coalesce(finished_at, enqueued_at),
  owner, history
from task where queue = ? and state = 'dead' order by finished_at desc, number desc limit ?
"""
REDRIVE = f"""
update task set state = 'ready', ready_at = ?, deliveries = 0, reason = '', finished_at = null,
  history = {_NOTE.format(line="'redriven'")}
where queue = ? and id = ? and state = 'dead'
"""
CANCEL = """
update task set state = 'done', payload = x'', reason = 'cancelled', finished_at = ?
where queue = ? and id = ? and state in ('ready', 'delayed', 'parked')
"""
STATE = """
select case when (state = 'leased' and lease_until <= :now)
    or (state in ('delayed', 'parked') and ready_at <= :now) then 'ready' else state end
from task where queue = :queue and id = :id
"""
PLACE = """
select state, case when (state = 'leased' and lease_until <= :now)
    or (state in ('delayed', 'parked') and ready_at <= :now) then 'ready' else state end,
  ready_at, coalesce(lease_until, 0), owner, deliveries,
  coalesce(case when json_valid(history) then cast(json_extract(history, '$[#-1]') as text) end, '')
from task where queue = :queue and id = :id
"""
BODY = """
select cast(payload as blob) from task where queue = ? and id = ? and state != 'done'
"""
DEPTH = """
select 'ready', count(*), min(ready_at) from task where queue = :queue and state = 'ready'
union all
select case when ready_at <= :now then 'ready' else state end, count(*), min(ready_at)
from task where queue = :queue and state in ('delayed', 'parked') group by 1
union all
select case when lease_until <= :now then 'ready' else state end, count(*),
  min(case when lease_until <= :now then lease_until else leased_at end)
from task where queue = :queue and state = 'leased' group by 1
union all
select 'dead', count(*), null from task where queue = :queue and state = 'dead'
"""
PRUNE = """
delete from task where number in (
  select number from task where queue = ? and state = 'done' and finished_at <= ? limit ?)
"""

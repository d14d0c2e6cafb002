"""The statements of the PostgreSQL queue, named; its table is in `postgres_tables.py`.

Each is one transaction by itself, in one round trip, and none holds a lock that another waits for
longer than it lasts. `%(shift)s` moves the clock, for tests; it is 0.
"""

from __future__ import annotations

from worker.queues.reasons import HISTORY_MAX, delivered_too_often, handed_back, lease_ran_out


def _history(added: str, *, lines: int = 1) -> str:
    """The history with so many lines more at its end, and no more than are kept."""
    kept = HISTORY_MAX - lines
    return (
        f"(case when jsonb_array_length(history) <= {kept} then history"
        f" else history{' - 0' * lines} end) || {added}"
    )


_NOW = "(extract(epoch from statement_timestamp())::float8 + %(shift)s::float8)"
_SAID = (
    "'" + handed_back(delivery="' || deliveries || '", reason="' || %(reason)s::text || '") + "'"
)
_BACK = _history(f"jsonb_build_array({_SAID})")
_LAPSE = "'" + lease_ran_out(delivery="' || deliveries || '", owner="' || owner || '") + "'"
_WORN = "'" + delivered_too_often("' || deliveries || '") + "'"
# Losing it in a crash costs a delivery more, which the journal absorbs: no need to wait for the disk.
_QUICK = "(select set_config('synchronous_commit', 'off', true)) is not null"
_OURS = "number = %(number)s and token = %(token)s and state = 'leased'"

PUT = f"""
insert into @task (id, queue, payload, priority, state, ready_at, enqueued_at)
select %(id)s, %(queue)s, %(body)b, %(priority)s::integer,
  case when %(not_before)s::float8 > now then 'delayed' else 'ready' end,
  greatest(now, %(not_before)s::float8), now
from (select {_NOW} as now) as clock
on conflict (queue, id) do nothing
"""
KNOWN = "select 1 from @task where queue = %(queue)s and id = %(id)s"
WAITING = """
select count(*) from (
  select 1 from @task where queue = %(queue)s and state = 'ready'
  union all
  select 1 from @task where queue = %(queue)s and state in ('delayed', 'parked')
  limit %(limit)s) as waiting
"""

_IS_WORN = "(deliveries >= %(most)s)"
_CLAIMED = _history(
    f"(case when state = 'leased' then jsonb_build_array({_LAPSE}) else '[]' end)"
    f" || (case when {_IS_WORN} then jsonb_build_array({_WORN}) else '[]' end)",
    lines=2,
)
# What is hidden and due becomes ready in the same statement that claims, and stands in the same
# line as what is ready already. A task that was delivered too often dies instead of being leased.
CLAIM = f"""
with lapsed as materialized (
  select number, rank from @task
  where queue = %(queue)s and state = 'leased' and lease_until <= {_NOW}
  order by lease_until limit %(limit)s for update skip locked
), due as materialized (
  select number, rank from @task
  where queue = %(queue)s and state in ('delayed', 'parked') and ready_at <= {_NOW}
  order by ready_at limit 1000 for update skip locked
), ready as materialized (
  select number, rank from @task
  where queue = %(queue)s and state = 'ready' and ready_at <= greatest({_NOW}, enqueued_at)
  order by rank, number limit %(limit)s for update skip locked
), chosen as materialized (
  select 0 as turn, number, rank from lapsed
  union all select 1, number, rank from due
  union all select 1, number, rank from ready
  order by 1, 3, 2 limit %(limit)s
), roused as (
  update @task set state = 'ready'
  where number in (select number from due except select number from chosen)
), taken as (
  update @task as t set
    state = case when {_IS_WORN} then 'dead' else 'leased' end,
    deliveries = least(deliveries, 1000000000) + (not {_IS_WORN})::integer,
    handings = least(handings, 1000000000) + (not {_IS_WORN})::integer,
    lapses = least(lapses, 1000000000) + (state = 'leased')::integer,
    woken = false, token = floor(random() * 9007199254740992)::bigint,
    owner = case when {_IS_WORN} then owner else %(owner)s end,
    leased_at = {_NOW},
    lease_until = case when not {_IS_WORN} then {_NOW} + %(seconds)s::float8 end,
    finished_at = case when {_IS_WORN} then {_NOW} end,
    reason = case when {_IS_WORN} then {_WORN} else reason end,
    history = {_CLAIMED}
  from chosen as c where t.number = c.number
  returning turn, c.rank as place, t.number, token, id, payload, deliveries, handings, enqueued_at,
    priority, lapses, state
)
select turn, number, token, id, payload, deliveries, handings, enqueued_at, priority, lapses, state
from taken order by turn, place, number
"""
NEXT_DUE = f"""
select min(due) - {_NOW} from (
  select min(lease_until) as due from @task where queue = %(queue)s and state = 'leased'
  union all
  select min(ready_at) from @task where queue = %(queue)s and state in ('delayed', 'parked')) as coming
"""

# Locked in one order, so that two heartbeats never wait for each other in a circle.
EXTEND = f"""
with ours as (
  select number from @task join unnest(%(numbers)s::bigint[], %(tokens)s::bigint[]) as held (n, t)
    on number = n and token = t
  where state = 'leased' and {_QUICK} order by number for update of task)
update @task set lease_until = {_NOW} + %(seconds)s::float8
where number in (select number from ours) returning number, token
"""
ACK = f"""
update @task set state = 'done', payload = '', history = '[]', finished_at = {_NOW},
  lease_until = null
where {_OURS} and {_QUICK}
"""
SETTLED_BY = "select state, token from @task where number = %(number)s"
_ROUSED = "(woken and %(state)s = 'parked')"
# Handed back without fault or delay, a task keeps its place in the queue.
NACK = f"""
update @task set
  state = case when {_ROUSED} then 'ready' else %(state)s end,
  ready_at = case when {_ROUSED} then {_NOW}
    when %(keeps)s then ready_at else {_NOW} + %(delay)s::float8 end,
  lease_until = null, deliveries = deliveries - %(uncounted)s::integer, history = {_BACK}
where {_OURS}
"""
BURY = f"""
update @task set state = 'dead', reason = %(reason)s, finished_at = {_NOW}, lease_until = null,
  history = {_BACK}
where {_OURS}
"""

DEAD = """
select id, payload, reason, deliveries, enqueued_at, coalesce(finished_at, enqueued_at), owner,
  history
from @task where queue = %(queue)s and state = 'dead'
order by finished_at desc, number desc limit %(limit)s
"""
_REDRIVEN = _history("jsonb_build_array('redriven'::text)")
REDRIVE = f"""
update @task set state = 'ready', ready_at = {_NOW}, deliveries = 0, reason = '', finished_at = null,
  history = {_REDRIVEN}
where queue = %(queue)s and id = %(id)s and state = 'dead'
"""
CANCEL = f"""
update @task set state = 'done', payload = '', reason = 'cancelled', finished_at = {_NOW}
where queue = %(queue)s and id = %(id)s and state in ('ready', 'delayed', 'parked')
"""
# Of a parked task the state changes, of a leased one only the mark: one statement for both.
WAKE = f"""
update @task set
  ready_at = case when state = 'leased' then ready_at
    when %(afresh)s then {_NOW} else enqueued_at end,
  woken = (state = 'leased'),
  state = case when state = 'leased' then state else 'ready' end
where queue = %(queue)s and id = %(id)s and state in ('parked', 'leased')
returning state
"""
PLACE = f"""
select state, case when (state = 'leased' and lease_until <= {_NOW})
    or (state in ('delayed', 'parked') and ready_at <= {_NOW}) then 'ready' else state end,
  ready_at, coalesce(lease_until, 0), owner, deliveries, coalesce(history ->> -1, '')
from @task where queue = %(queue)s and id = %(id)s
"""
BODY = "select payload from @task where queue = %(queue)s and id = %(id)s and state <> 'done'"
DEPTH = f"""
select state, count(*), {_NOW} - min(since) from (
  select 'ready' as state, ready_at as since from @task
  where queue = %(queue)s and state = 'ready'
  union all
  select case when ready_at <= {_NOW} then 'ready' else state end, ready_at from @task
  where queue = %(queue)s and state in ('delayed', 'parked')
  union all
  select case when lease_until <= {_NOW} then 'ready' else state end,
    case when lease_until <= {_NOW} then lease_until else leased_at end
  from @task where queue = %(queue)s and state = 'leased'
  union all
  select 'dead', null from @task where queue = %(queue)s and state = 'dead') as tasks
group by state
"""
PRUNE = f"""
delete from @task where number in (
  select number from @task
  where queue = %(queue)s and state = 'done' and finished_at <= {_NOW} - %(seconds)s::float8
  limit %(limit)s)
"""

"""The tables of the SQLite queue, and the steps that lift those of older versions.

`rank` orders the ready tasks: the time since when a task is ready, less a minute for each point of
priority. It never changes while a task waits, so an index can hold it, and still every task rises
with its waiting time. Hidden tasks (delayed, parked) have an index of their own: ten thousand of
them cost a claim nothing. `token` is drawn at random for each lease, so that a row number used
again after a prune can never make a stale lease look good.
"""

from __future__ import annotations

from worker.queues.port import AGEING_SECONDS
from worker.sqliteschema import Part, add_column

_NOW = "(julianday('now') - 2440587.5) * 86400.0"

SCHEMA = f"""
create table if not exists task (
  number integer primary key,
  id text not null,
  queue text not null,
  payload any not null,
  priority integer not null default 0,
  state text not null default 'ready'
    check (state in ('ready', 'delayed', 'parked', 'leased', 'dead', 'done')),
  ready_at real not null default ({_NOW}),
  rank real as (ready_at - {AGEING_SECONDS} * priority) virtual,
  deliveries integer not null default 0,
  handings integer not null default 0,
  lapses integer not null default 0,
  woken integer not null default 0, -- somebody woke it while it was leased
  token integer not null default 0,
  owner text not null default '',
  leased_at real,
  lease_until real,
  enqueued_at real not null default ({_NOW}),
  finished_at real,
  reason text not null default '',
  history text not null default '[]',
  unique (queue, id)
) strict;
create index if not exists task_ready on task (queue, rank, number, ready_at, state)
  where state = 'ready';
create index if not exists task_hidden on task (queue, ready_at, state)
  where state in ('delayed', 'parked');
create index if not exists task_leased on task (queue, lease_until, leased_at, state)
  where state = 'leased';
create index if not exists task_dead on task (queue, finished_at) where state = 'dead';
create index if not exists task_done on task (queue, finished_at) where state = 'done'
"""

QUEUE = Part(
    name="queue",
    main="task",
    schema=SCHEMA,
    steps=(
        add_column("task", "lapses", "integer not null default 0"),
        # They got columns more, so that a claim reads the index alone; `schema` makes them anew.
        "drop index if exists task_ready; drop index if exists task_leased",
        add_column("task", "woken", "integer not null default 0"),
    ),
)

"""The table of the PostgreSQL queue.

`rank` orders the ready tasks as in the SQLite queue: the time since when a task is ready, less a
minute for each point of priority; it never changes while a task waits. Times are seconds since the
epoch by the server's clock. Free room in the pages and an early vacuum keep updates in their pages.
"""

from __future__ import annotations

from worker.postgres.schema import Part
from worker.queues.port import AGEING_SECONDS

_NOW = "(extract(epoch from now())::float8)"

TABLES = f"""
create table if not exists @task (
  number bigint generated always as identity primary key,
  id text not null,
  queue text not null,
  payload bytea not null,
  priority integer not null default 0,
  state text not null default 'ready'
    check (state in ('ready', 'delayed', 'parked', 'leased', 'dead', 'done')),
  ready_at float8 not null default {_NOW},
  rank float8 generated always as (ready_at - {AGEING_SECONDS} * priority) stored,
  deliveries integer not null default 0,
  handings integer not null default 0,
  lapses integer not null default 0,
  woken boolean not null default false, -- somebody woke it while it was leased
  token bigint not null default 0,
  owner text not null default '',
  leased_at float8,
  lease_until float8,
  enqueued_at float8 not null default {_NOW},
  finished_at float8,
  reason text not null default '',
  history jsonb not null default '[]' check (jsonb_typeof(history) = 'array'),
  unique (queue, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create index if not exists task_ready on @task (queue, rank, number) where state = 'ready';
create index if not exists task_hidden on @task (queue, ready_at)
  where state in ('delayed', 'parked');
create index if not exists task_leased on @task (queue, lease_until) where state = 'leased';
create index if not exists task_dead on @task (queue, finished_at) where state = 'dead';
create index if not exists task_done on @task (queue, finished_at) where state = 'done'
"""

QUEUE = Part(name="queue", schema=TABLES)

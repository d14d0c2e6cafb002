"""A SQLite file as the first versions of loopworker left it, before files told their version."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

NOW = 1_790_000_000.0

# Literal, and never to be brought up to date: files like this lie on somebody's disk.
QUEUE_0 = """
create table task (
  number integer primary key,
  id text not null,
  queue text not null,
  payload any not null,
  priority integer not null default 0,
  state text not null default 'ready'
    check (state in ('ready', 'delayed', 'parked', 'leased', 'dead', 'done')),
  ready_at real not null default ((julianday('now') - 2440587.5) * 86400.0),
  rank real as (ready_at - 60.0 * priority) virtual,
  deliveries integer not null default 0,
  handings integer not null default 0,
  token integer not null default 0,
  owner text not null default '',
  leased_at real,
  lease_until real,
  enqueued_at real not null default ((julianday('now') - 2440587.5) * 86400.0),
  finished_at real,
  reason text not null default '',
  history text not null default '[]',
  unique (queue, id)
) strict;
create index task_ready on task (queue, rank, ready_at) where state = 'ready';
create index task_hidden on task (queue, ready_at, state) where state in ('delayed', 'parked');
create index task_leased on task (queue, lease_until, leased_at) where state = 'leased';
create index task_dead on task (queue, finished_at) where state = 'dead';
create index task_done on task (queue, finished_at) where state = 'done';
"""
STORE_0 = """
create table run (
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
create index run_live on run (state) where state != 'finished';
create index run_finished on run (updated_at) where state = 'finished';
create table event (
  number integer primary key,
  count integer not null,
  body blob not null
) strict;
create table last_good (key text primary key, value text not null, at real not null) strict;
create index last_good_at on last_good (at);
"""
_TASKS = [
    ("ready", "ready", '{"input": "a"}', 0, None, "", "[]"),
    ("leased", "leased", '{"input": "b"}', 1, 0.0, "", "[]"),
    ("dead", "dead", '{"input": "c"}', 5, None, "boom", '["delivery 5: boom"]'),
]
_NOTE = b'[{"v":1,"kind":"note_added","data":{"at":1.0,"kind":"test","text":"x"}}]'
_RESULT = b'{"version":1,"id":"over/result","task_id":"over","status":"completed","answer":"42"}'


def old_file(path: Path, *, queue: bool = True, store: bool = True) -> str:
    """Make the file, in the middle of its work, and return its URL.

    Tasks `ready`, `leased` (the lease has run out) and `dead`; runs `leased`, open with one event,
    and `over`, with a result.
    """
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode=wal")
        if queue:
            connection.executescript(QUEUE_0)
            connection.executemany(
                "insert into task (id, queue, state, payload, deliveries, handings, lease_until,"
                " reason, history, owner) values (?, 'tasks', ?, ?, ?, ?, ?, ?, ?, 'w0')",
                [(*row[:4], *row[3:]) for row in _TASKS],  # as often handed out as delivered
            )
        if store:
            connection.executescript(STORE_0)
            connection.execute(
                "insert into run (id, state, epoch, owner, next_seq, created_at, updated_at)"
                " values ('leased', 'open', 3, 'w0', 1, :now, :now)",
                {"now": NOW},
            )
            connection.execute("insert into event values (1 << 24, 1, ?)", (_NOTE,))
            connection.execute(
                "insert into run (id, state, epoch, created_at, updated_at, result)"
                " values ('over', 'finished', 1, :now, :now, :result)",
                {"now": NOW, "result": _RESULT},
            )
        connection.commit()
    return f"sqlite:///{path}"

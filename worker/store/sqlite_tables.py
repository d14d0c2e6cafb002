"""The tables of the SQLite store, and the steps that lift those of older versions.

Events lie as they were written: one row for each append, a JSON array of events. Its number is
the run's number and the first event's in one integer, so that a run lies in one piece, in order, in
a table with no other index; a second row for the same event is impossible. The epoch is checked in
the statement that moves `next_seq`, in the transaction of the insert. The indexes of `run` hold
nothing that a step changes, so an append touches two rows and no index.
"""

from __future__ import annotations

from worker.sqliteschema import Part, add_column

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
  result blob,
  redrives integer not null default 0
) strict;
create index if not exists run_live on run (state) where state != 'finished';
create index if not exists run_finished on run (updated_at) where state = 'finished';
create table if not exists event (
  number integer primary key, -- run << 24 | number of the first event in the body
  count integer not null,
  body blob not null
) strict;
create table if not exists last_good (
  key text primary key,
  value text not null,
  at real not null
) strict;
create index if not exists last_good_at on last_good (at);
create table if not exists expectation (
  number integer primary key,
  address text not null,
  run_id text not null,
  call_id text not null,
  kind text not null,
  tool text not null,
  arguments text not null,
  digest text not null,
  asked_at real not null,
  expires_at real not null,
  answered integer not null default 0,
  unique (address, run_id, call_id)
) strict;
create index if not exists expectation_run on expectation (run_id);
create index if not exists expectation_pending on expectation (kind, number) where answered = 0;
create table if not exists post (
  address text primary key,
  body blob not null,
  digest text not null,
  posted_at real not null,
  heard integer not null default 0 -- every run that expected it has it
) strict;
create index if not exists post_unheard on post (posted_at) where heard = 0
"""

STORE = Part(
    name="store",
    main="run",
    schema=SCHEMA,
    steps=(
        "",
        "",  # the tables of the mailbox, which `schema` makes
        add_column("run", "redrives", "integer not null default 0"),
    ),
)

"""The tables of the SQLite store, and the steps that lift those of older versions.

Events lie as they were written: one row for each append, a JSON array of events. Its number is
the run's number and the first event's in one integer, so that a run lies in one piece, in order, in
a table with no other index; a second row for the same event is impossible. The epoch is checked in
the statement that moves `next_seq`, in the transaction of the insert. The indexes of `run` hold
nothing that a step changes, so an append touches two rows and no index.

A conversation is stored by turns, one row for each run that has ended, in the same manner: its
number is the session's and the version of the session that the turn was added to.
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
create table if not exists peer (
  owner text primary key,
  words text not null,
  until real not null
) strict;
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
create index if not exists post_unheard on post (posted_at) where heard = 0;
create table if not exists session (
  number integer primary key,
  tenant text not null,
  id text not null,
  version integer not null default 0,
  holder text, -- the id of the run that has it
  hold_until real not null default 0, -- of a holder that was released
  expires_at real not null,
  held_up_by text, -- the id of the run that a free session waits for
  held_up_since real,
  unique (tenant, id)
) strict;
create index if not exists session_holder on session (holder) where holder is not null;
create index if not exists session_expiry on session (expires_at);
create table if not exists session_turn (
  number integer primary key, -- session << 24 | the version that it was added to
  run text not null,
  body blob not null
) strict;
create table if not exists session_line (
  number integer primary key,
  run text not null unique,
  session integer not null,
  place real not null,
  until real not null
) strict;
create index if not exists session_line_place on session_line (session, place, number);
create index if not exists session_line_until on session_line (until)
"""

STORE = Part(
    name="store",
    main="run",
    schema=SCHEMA,
    steps=(
        "",
        "",  # the tables of the mailbox, which `schema` makes
        add_column("run", "redrives", "integer not null default 0"),
        "",  # sessions
        add_column("session", "held_up_by", "text"),
        add_column("session", "held_up_since", "real"),
        "",  # peers
    ),
)

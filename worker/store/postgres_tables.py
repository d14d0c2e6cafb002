"""The tables of the PostgreSQL store; what they hold is as in the SQLite one.

Events lie as they were written: one row for each append, a JSON array of events, its key the run's
number and the first event's; a second row for the same event is impossible. No index of `run` holds
what an append or a renewal changes, so those stay within their page. Times are seconds since the
epoch by the server's clock.
"""

from __future__ import annotations

from worker.postgres.schema import Part

TABLES = """
create table if not exists @run (
  number bigint generated always as identity primary key,
  id text not null unique,
  state text not null default 'released' check (state in ('open', 'released', 'finished')),
  epoch bigint not null default 0,
  owner text not null default '',
  lease_until float8 not null default 0,
  cancel boolean not null default false,
  next_seq integer not null default 0,
  created_at float8 not null,
  updated_at float8 not null,
  finished_at float8,
  result bytea,
  redrives integer not null default 0
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create index if not exists run_live on @run (state) where state <> 'finished';
create index if not exists run_finished on @run (finished_at, number) where state = 'finished';
create index if not exists run_unborn on @run (created_at, number)
  where state = 'released' and epoch = 0;
create table if not exists @event (
  run bigint not null,
  seq integer not null, -- of the first event in the body
  count integer not null,
  body bytea not null,
  primary key (run, seq)
);
create table if not exists @last_good (
  key bytea primary key, -- a digest: what it stands for may be longer than an index takes
  value bytea not null,
  at float8 not null
);
create index if not exists last_good_at on @last_good (at);
create table if not exists @peer (
  owner text primary key,
  words text not null,
  until float8 not null
);
create table if not exists @expectation (
  number bigint generated always as identity primary key,
  key bytea not null unique, -- a digest of address, run and call
  address text not null,
  run_id text not null,
  call_id text not null,
  kind text not null,
  tool text not null,
  arguments text not null,
  digest text not null,
  asked_at float8 not null,
  expires_at float8 not null,
  answered boolean not null default false
);
create index if not exists expectation_address on @expectation (address);
create index if not exists expectation_run on @expectation (run_id);
create index if not exists expectation_pending on @expectation (kind, number) where not answered;
create index if not exists expectation_asked on @expectation (asked_at);
create table if not exists @post (
  address text primary key,
  body bytea not null,
  digest text not null,
  posted_at float8 not null,
  heard boolean not null default false -- every run that expected it has it
);
create index if not exists post_unheard on @post (posted_at) where not heard;
create index if not exists post_age on @post (posted_at);
create table if not exists @session (
  number bigint generated always as identity primary key,
  tenant text not null,
  id text not null,
  version integer not null default 0,
  holder text, -- the id of the run that has it
  hold_until float8 not null default 0, -- of a holder that was released
  expires_at float8 not null,
  held_up_by text, -- the id of the run that a free session waits for
  held_up_since float8,
  unique (tenant, id)
);
create index if not exists session_holder on @session (holder) where holder is not null;
create index if not exists session_expiry on @session (expires_at);
create table if not exists @session_turn (
  session bigint not null,
  version integer not null, -- of the session that the turn was added to
  run text not null,
  body bytea not null,
  primary key (session, version)
);
create table if not exists @session_line (
  number bigint generated always as identity primary key,
  run text not null unique,
  session bigint not null,
  place float8 not null,
  until float8 not null
);
create index if not exists session_line_place on @session_line (session, place, number);
create index if not exists session_line_until on @session_line (until)
"""

STORE = Part(name="store", schema=TABLES, steps=("",))  # peers

"""The statements of sessions in the PostgreSQL store, each within a transaction that has the time."""

from __future__ import annotations

from worker.store.postgres_statements import CLOCK

_ROW = "number, version, holder, hold_until, expires_at, held_up_by, held_up_since"

# The row as it is, made if need be; whether it is written or not, it is locked.
LOCK = f"""
insert into @session (tenant, id, expires_at) values (%(tenant)s, %(id)s, {CLOCK})
on conflict (tenant, id) do update set tenant = excluded.tenant
returning {_ROW}, {CLOCK}
"""
# Once it is locked: the run that wants it, the run that has it, and who waits first, but for one that
# did not come.
LOOK = """
select r.state, r.next_seq, r.state = 'open' and r.lease_until > %(now)s and r.owner <> %(owner)s,
  h.state, h.lease_until, f.run, f.place
from (select) as one left join @run as r on r.id = %(run)s left join @run as h on h.id = %(holder)s
  left join lateral (
    select run, place from @session_line where session = %(session)s and until > %(now)s
      and run is distinct from %(late)s order by place, number limit 1) as f on true
"""
FENCE_HOLDER = """
update @run set state = 'released', updated_at = %(now)s where id = %(holder)s and state = 'open'
"""
FENCE_HOLDERS = """
update @run set state = 'released', updated_at = %(now)s
where id = any(%(holders)s::text[]) and state = 'open'
"""
TAKE = """
with taken as (
  update @session set holder = %(run)s, hold_until = 0, held_up_by = null
  where number = %(session)s
), left_line as (
  delete from @session_line where run = %(run)s
)
select body from @session_turn where session = %(session)s and %(fresh)s order by version
"""
HOLD_UP = """
update @session set held_up_by = %(first)s, held_up_since = %(now)s where number = %(session)s
"""
HOLD_SESSION = """
update @session set hold_until = %(until)s where number = %(session)s and holder = %(run)s
"""
FREE = """
with left_line as (
  delete from @session_line where run = %(run)s
), freed as (
  update @session set holder = null where number = %(session)s and holder = %(run)s
  returning number
)
select run from @session_line where session in (select number from freed)
  and until > %(now)s and run <> %(run)s order by place, number limit 1
"""
# A run has one turn, and it is the newest. That one stays, however large; what does not fit beside it
# goes, with all that is older.
SAVE = """
with older as (
  select version, length(body) as size,
    %(size)s::integer + sum(length(body)) over (order by version desc) as total
  from @session_turn where session = %(session)s and run <> %(run)s
), over as (
  select coalesce(max(version), -1) as version from older where total > %(bytes_max)s
), gone as (
  delete from @session_turn where session = %(session)s
    and (run = %(run)s or version <= (select version from over))
), added as (
  insert into @session_turn (session, version, run, body)
  values (%(session)s, %(version)s, %(run)s, %(body)b)
), saved as (
  update @session set version = version + 1, expires_at = %(expires_at)s,
    holder = case when holder = %(run)s then null else holder end
  where number = %(session)s
)
select %(size)s::integer + coalesce(
    (select sum(size) from older where version > (select version from over)), 0),
  (select run from @session_line where session = %(session)s and until > %(now)s
   order by place, number limit 1)
"""

STAND_IN_LINE = """
with mine as (
  insert into @session_line (run, session, place, until)
  values (%(run)s, %(session)s, %(place)s, %(until)s)
  on conflict (run) do update
  set session = excluded.session, place = excluded.place, until = excluded.until
  returning number
)
select number from mine
"""
ENLIST = """
insert into @session_line (run, session, place, until)
select %(run)s, %(session)s, %(place)s::float8, %(until)s::float8
where not exists (select from @run where id = %(run)s)
on conflict (run) do nothing
"""
AHEAD_MAX = 100
AHEAD = f"""
select count(*) from (
  select from @session_line where session = %(session)s and until > %(now)s
    and (place, number) < (%(place)s::float8, %(number)s::bigint) limit {AHEAD_MAX}) as ahead
"""
_OF_SESSION = ", ".join(f"s.{name}" for name in _ROW.split(", "))
IN_LINE = f"""
select s.id, l.place, l.number, h.state, h.lease_until, {_OF_SESSION}, {CLOCK}
from @session_line l join @session s on s.number = l.session left join @run h on h.id = s.holder
where l.run = %(run)s and l.until > {CLOCK}
"""
LEAVE_LINE = "delete from @session_line where run = %(run)s"

FORGET_TURNS = "delete from @session_turn where session = %(session)s"
CONVERSATION = f"""
select t.body from @session s join @session_turn t on t.session = s.number
where s.tenant = %(tenant)s and s.id = %(id)s and s.expires_at > {CLOCK} order by t.version
"""

OVER_SESSIONS = """
select number, holder from @session as s where expires_at <= %(now)s and (
  holder is null or not exists (
    select from @run where id = holder and (
      (state = 'open' and lease_until + %(patience)s > %(now)s)
      or (state = 'released' and s.hold_until > %(now)s))))
  and not exists (
    select from @session_line where session = s.number and until > %(now)s)
limit %(limit)s for update of s skip locked
"""
FORGET_SESSIONS = """
with gone as (
  delete from @session where number = any(%(sessions)s::bigint[]) returning number
), turns as (
  delete from @session_turn where session in (select number from gone)
)
delete from @session_line where session in (select number from gone)
"""
FORGET_LATE = """
delete from @session_line where number in (
  select number from @session_line where until <= %(now)s limit %(limit)s)
"""

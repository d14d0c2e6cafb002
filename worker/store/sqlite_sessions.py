"""What the SQLite store does to sessions, within the transaction of a run's open and end.

Functions that take a connection run in the writer thread. Whether somebody has a session is told
by the row of the run that holds it, so keeping a lease alive costs no write of its own.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from worker.core.errors import SessionBusy, SessionConflict
from worker.store import sqlite_statements as sql
from worker.store.port import (
    HOLD_PATIENCE_SECONDS,
    LINE_KEPT_SECONDS,
    LINE_PATIENCE_SECONDS,
    SessionClaim,
    SessionHold,
    SessionWait,
)
from worker.store.rows import Freed, Taken, TurnRow

SESSIONS_BATCH = 200  # forgotten in one transaction


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    version: int
    holder: str | None
    hold_until: float
    expires_at: float
    held_up_by: str | None
    held_up_since: float | None


def take(
    connection: sqlite3.Connection, claim: SessionClaim, run_id: str, now: float, *, fresh: bool
) -> Taken | SessionBusy:
    """Give the session to a run, or a place in the line before it.

    A `fresh` run gets the turns as well.
    """
    row = _found(connection, claim, now)
    is_held = row.holder is not None and _is_held(connection, row, now)
    if row.holder != run_id:
        if is_held:
            return _refused(connection, claim, row.number, run_id, now)
        if row.holder is not None:
            # It did not come back in time. Should it be alive all the same, it writes no more.
            connection.execute(sql.FENCE_HOLDER, (now, row.holder))
        if _must_wait(connection, claim, row, run_id, now):
            return _refused(connection, claim, row.number, run_id, now)
    if row.expires_at <= now and not is_held:  # to who has it, it cannot have become too old
        connection.execute(sql.FORGET_TURNS, {"session": row.number})
    connection.execute(sql.TAKE_SESSION, (run_id, row.number))
    connection.execute(sql.LEAVE_LINE, (run_id,))
    rows = connection.execute(sql.TURNS, {"session": row.number}) if fresh else ()
    bodies = [body for (body,) in rows]
    return Taken(SessionHold(claim.id, claim.tenant, row.version), bodies)


def _found(connection: sqlite3.Connection, claim: SessionClaim, now: float) -> _Row:
    row = connection.execute(sql.SESSION, (claim.tenant, claim.id)).fetchone()
    if row is not None:
        return _Row(*row)
    added = connection.execute(sql.ADD_SESSION, (claim.tenant, claim.id, now))
    return _Row(added.lastrowid or 0, 0, None, 0.0, now, None, None)


def _must_wait(
    connection: sqlite3.Connection, claim: SessionClaim, row: _Row, run_id: str, now: float
) -> bool:
    """Whether somebody in front may still come for a free session; who does not loses its place."""
    late = row.held_up_by
    if late is not None and now - (row.held_up_since or now) > LINE_PATIENCE_SECONDS:
        connection.execute(sql.LEAVE_LINE, (late,))
    first = connection.execute(sql.FIRST_IN_LINE, (row.number, now)).fetchone()
    if first is None or first[0] == run_id or first[1] > claim.place:
        return False
    if first[0] != late:
        connection.execute(sql.HOLD_UP, (first[0], now, row.number))
    return True


def enlist(connection: sqlite3.Connection, claim: SessionClaim, run_id: str, now: float) -> None:
    """Put a run that has not been opened into the line."""
    values = {
        "run": run_id,
        "session": _found(connection, claim, now).number,
        "place": claim.place,
        "until": now + LINE_KEPT_SECONDS,
    }
    connection.execute(sql.ENLIST, values)


def _is_held(connection: sqlite3.Connection, row: _Row, now: float) -> bool:
    found = connection.execute(sql.HOLDER, (row.holder,)).fetchone()
    state, lease_until = found or ("", 0.0)
    if state == "open":
        return bool(lease_until + HOLD_PATIENCE_SECONDS > now)
    return state == "released" and row.hold_until > now


def _refused(
    connection: sqlite3.Connection, claim: SessionClaim, number: int, run_id: str, now: float
) -> Taken | SessionBusy:
    """Put a run that cannot have the session into the line, or let it go on without."""
    if claim.or_without:
        connection.execute(sql.LEAVE_LINE, (run_id,))
        return Taken(None, [])
    until = now + LINE_KEPT_SECONDS
    values = (run_id, number, claim.place, until)
    mine = connection.execute(sql.STAND_IN_LINE, values).fetchone()[0]
    ahead = _ahead(connection, number, claim.place, mine, now)
    return SessionBusy(f"session {claim.id!r} is busy", ahead=ahead)


def _ahead(
    connection: sqlite3.Connection, session: int, place: float, number: int, now: float
) -> int:
    return int(connection.execute(sql.AHEAD, (session, now, place, number)).fetchone()[0])


def waits(connection: sqlite3.Connection, run_id: str, now: float) -> SessionWait | None:
    """The session that a run stands in line for."""
    place = connection.execute(sql.IN_LINE, (run_id, now)).fetchone()
    if place is None:
        return None
    row = _Row(*place[3:])
    ahead = _ahead(connection, row.number, place[1], place[2], now)
    is_held = row.holder is not None and _is_held(connection, row, now)
    return SessionWait(place[0], row.holder if is_held else None, ahead)


def free(
    connection: sqlite3.Connection,
    hold: SessionHold,
    run_id: str,
    turn: TurnRow | None,
    now: float,
) -> SessionConflict | Freed:
    """Let go of a session, after saving the turn if there is one."""
    if turn is None:
        return let_go(connection, run_id, now)
    return _save(connection, hold, run_id, turn, now)


def _save(
    connection: sqlite3.Connection, hold: SessionHold, run_id: str, turn: TurnRow, now: float
) -> SessionConflict | Freed:
    """Add the turn and let go, if the session is at the version of the hold; else write nothing."""
    values = {
        "tenant": hold.tenant,
        "id": hold.id,
        "version": hold.version,
        "expires_at": now + turn.ttl_seconds,
        "run": run_id,
    }
    row = connection.execute(sql.SAVE_SESSION, values).fetchone()
    if row is None:
        found = connection.execute(sql.SESSION, (hold.tenant, hold.id)).fetchone()
        present = found[1] if found else 0
        if found is not None or hold.version != 0:
            return SessionConflict(f"session {hold.id!r} has been saved", version=present)
        connection.execute(sql.ADD_SESSION, (hold.tenant, hold.id, now))  # forgotten meanwhile
        row = connection.execute(sql.SAVE_SESSION, values).fetchone()
    number = row[0]
    connection.execute(sql.FORGET_TURN_OF, {"session": number, "run": run_id})
    connection.execute(sql.ADD_TURN, (number, hold.version, run_id, turn.body))
    size = _trim(connection, number, turn.bytes_max)
    return Freed(_next_run(connection, number, now), size)


def _trim(connection: sqlite3.Connection, number: int, bytes_max: int) -> int:
    """Forget the oldest turns beyond the bound; returns the size of the rest."""
    kept = 0
    for turn, size in connection.execute(sql.TURN_SIZES, {"session": number}).fetchall():
        if kept and kept + size > bytes_max:
            values = {"session": number, "number": turn + 1}
            connection.execute(sql.FORGET_TURNS_BEFORE, values)
            break
        kept += size
    return kept


def let_go(connection: sqlite3.Connection, run_id: str, now: float) -> Freed:
    """Free the session that a run has, and leave the line, if it waits for one."""
    connection.execute(sql.LEAVE_LINE, (run_id,))
    row = connection.execute(sql.FREE_SESSION, (run_id,)).fetchone()
    return Freed() if row is None else Freed(_next_run(connection, row[0], now))


def keep(connection: sqlite3.Connection, run_id: str, seconds: float, now: float) -> None:
    """Keep the session for a run that is to be taken up again in so many seconds."""
    connection.execute(sql.HOLD_SESSION, (now + seconds + HOLD_PATIENCE_SECONDS, run_id))


def _next_run(connection: sqlite3.Connection, number: int, now: float) -> str | None:
    row = connection.execute(sql.FIRST_IN_LINE, (number, now)).fetchone()
    return None if row is None else str(row[0])


def forget_some(connection: sqlite3.Connection, now: float) -> int:
    """Forget some sessions that nobody has and whose time is over; returns how many."""
    connection.execute(sql.FORGET_LATE, (now, SESSIONS_BATCH))
    values = {"now": now, "patience": HOLD_PATIENCE_SECONDS, "limit": SESSIONS_BATCH}
    rows = connection.execute(sql.OVER_SESSIONS, values).fetchall()
    for number, holder in rows:
        if holder is not None:
            connection.execute(sql.FENCE_HOLDER, (now, holder))  # nobody will know of it any more
        connection.execute(sql.FORGET_SESSION, (number,))
        connection.execute(sql.FORGET_TURNS, {"session": number})
        connection.execute(sql.FORGET_LINE_OF, (number,))
    return len(rows)

"""What the PostgreSQL store does to sessions, within the transaction of a run's open and end.

Whoever changes a session locks its row before that of any run, so that nobody waits in a circle.
Whether somebody has a session is told by the row of the run that holds it, so keeping a lease alive
costs no write of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from worker.core.errors import SessionBusy, SessionConflict
from worker.postgres.link import Statements
from worker.postgres.text import storable
from worker.store import postgres_session_statements as sql
from worker.store.port import (
    HOLD_PATIENCE_SECONDS,
    LINE_KEPT_SECONDS,
    LINE_PATIENCE_SECONDS,
    SessionClaim,
    SessionHold,
    SessionWait,
)
from worker.store.postgres_statements import NOW
from worker.store.rows import Freed, Taken, TurnRow

SESSIONS_BATCH = 200  # forgotten in one transaction


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as it lies in the table, and the server's time when it was read."""

    number: int
    version: int
    holder: str | None
    hold_until: float
    expires_at: float
    held_up_by: str | None
    held_up_since: float | None
    now: float

    @property
    def late(self) -> str | None:
        """The run that a free session has waited for long enough: it loses its place."""
        since = self.now if self.held_up_since is None else self.held_up_since
        return self.held_up_by if self.now - since > LINE_PATIENCE_SECONDS else None


@dataclass(frozen=True, slots=True)
class Look:
    """What is to be seen around a session: of the run that wants it, of who has it and who waits.

    `first` is the one in the line whose turn it is, with its place.
    """

    can_begin: bool
    is_fresh: bool
    is_held: bool
    first: tuple[str, float] | None


def storable_claim(claim: SessionClaim) -> SessionClaim:
    """The claim with names that can be stored."""
    return replace(claim, id=storable(claim.id), tenant=storable(claim.tenant))


async def locked(tx: Statements, claim: SessionClaim | SessionHold) -> SessionRow:
    """The session of a claim, made if need be; nobody else changes it before the transaction ends."""
    rows = await tx.rows(sql.LOCK, {"tenant": claim.tenant, "id": claim.id})
    return SessionRow(*rows[0])


async def look(tx: Statements, row: SessionRow, run_id: str, owner: str) -> Look:
    """Look around in a session that is locked."""
    values = {
        "session": row.number,
        "now": row.now,
        "run": run_id,
        "owner": owner,
        "holder": row.holder,
        "late": row.late,
    }
    [(state, next_seq, is_anothers, *holder, first, place)] = await tx.rows(sql.LOOK, values)
    return Look(
        can_begin=state != "finished" and not is_anothers,
        is_fresh=not next_seq,
        is_held=_is_held(row, *holder),
        first=None if first is None else (first, place),
    )


async def take(
    tx: Statements, claim: SessionClaim, row: SessionRow, seen: Look, run_id: str
) -> Taken | SessionBusy:
    """Give the session to a run, or a place in the line before it. A fresh run gets the turns."""
    values = {"session": row.number, "run": run_id, "now": row.now, "fresh": seen.is_fresh}
    if row.holder != run_id:
        if seen.is_held:
            return await _refused(tx, claim, row, run_id)
        if row.holder is not None:
            # It did not come back in time. Should it be alive all the same, it writes no more.
            await tx.count(sql.FENCE_HOLDER, {**values, "holder": row.holder})
        if row.late is not None:
            await tx.count(sql.LEAVE_LINE, {"run": row.late})
        if seen.first is not None and seen.first[0] != run_id and seen.first[1] <= claim.place:
            if seen.first[0] != row.held_up_by:
                await tx.count(sql.HOLD_UP, {**values, "first": seen.first[0]})
            return await _refused(tx, claim, row, run_id)
    if row.expires_at <= row.now and not seen.is_held:  # to who has it, it is never too old
        await tx.count(sql.FORGET_TURNS, values)
    bodies = [body for (body,) in await tx.rows(sql.TAKE, values)]
    return Taken(SessionHold(claim.id, claim.tenant, row.version), bodies)


async def _refused(
    tx: Statements, claim: SessionClaim, row: SessionRow, run_id: str
) -> Taken | SessionBusy:
    """Put a run that cannot have the session into the line, or let it go on without."""
    if claim.or_without:
        await tx.count(sql.LEAVE_LINE, {"run": run_id})
        return Taken(None, [])
    place = {"session": row.number, "place": claim.place, "now": row.now}
    until = row.now + LINE_KEPT_SECONDS
    [(mine,)] = await tx.rows(sql.STAND_IN_LINE, {**place, "run": run_id, "until": until})
    [(ahead,)] = await tx.rows(sql.AHEAD, {**place, "number": mine})
    return SessionBusy(f"session {claim.id!r} is busy", ahead=ahead)


def _is_held(row: SessionRow, state: str | None, lease_until: float | None) -> bool:
    if state == "open":
        return (lease_until or 0.0) + HOLD_PATIENCE_SECONDS > row.now
    return state == "released" and row.hold_until > row.now


async def enlist(tx: Statements, claim: SessionClaim, run_id: str) -> None:
    """Put a run that has not been opened into the line."""
    row = await locked(tx, claim)
    values = {
        "run": run_id,
        "session": row.number,
        "place": claim.place,
        "until": row.now + LINE_KEPT_SECONDS,
    }
    await tx.count(sql.ENLIST, values)


async def waits(tx: Statements, run_id: str) -> SessionWait | None:
    """The session that a run stands in line for."""
    places = await tx.rows(sql.IN_LINE, {"run": run_id})
    if not places:
        return None
    session, place, number, *holder = places[0][:5]
    row = SessionRow(*places[0][5:])
    values = {"session": row.number, "place": place, "number": number, "now": row.now}
    [(ahead,)] = await tx.rows(sql.AHEAD, values)
    return SessionWait(session, row.holder if _is_held(row, *holder) else None, ahead)


async def free(tx: Statements, row: SessionRow, run_id: str, turn: TurnRow | None) -> Freed:
    """Let go of a session, after adding the turn if there is one."""
    values = {"session": row.number, "run": run_id, "now": row.now}
    if turn is None:
        first = await tx.rows(sql.FREE, values)
        return Freed(str(first[0][0]) if first else None)
    values |= {
        "version": row.version,
        "expires_at": row.now + turn.ttl_seconds,
        "size": len(turn.body),
        "body": turn.body,
        "bytes_max": turn.bytes_max,
    }
    [(size, next_run)] = await tx.rows(sql.SAVE, values)
    return Freed(next_run, size)


def conflict(row: SessionRow, hold: SessionHold, turn: TurnRow | None) -> SessionConflict | None:
    """Why a turn cannot be added: somebody else has added one since the run has read them."""
    if turn is None or row.version == hold.version:
        return None
    return SessionConflict(f"session {hold.id!r} has been saved", version=row.version)


async def keep(tx: Statements, row: SessionRow, run_id: str, seconds: float) -> None:
    """Keep the session for a run that is to be taken up again in so many seconds."""
    until = row.now + seconds + HOLD_PATIENCE_SECONDS
    await tx.count(sql.HOLD_SESSION, {"session": row.number, "run": run_id, "until": until})


async def forget_some(tx: Statements) -> int:
    """Forget some sessions that nobody has and whose time is over; returns how many."""
    [(now,)] = await tx.rows(NOW, {})
    await tx.count(sql.FORGET_LATE, {"now": now, "limit": SESSIONS_BATCH})
    values = {"now": now, "patience": HOLD_PATIENCE_SECONDS, "limit": SESSIONS_BATCH}
    rows = await tx.rows(sql.OVER_SESSIONS, values)
    holders = [holder for _, holder in rows if holder is not None]
    if holders:  # nobody will know of them any more
        await tx.count(sql.FENCE_HOLDERS, {"holders": sorted(holders), "now": now})
    if rows:
        await tx.count(sql.FORGET_SESSIONS, {"sessions": [number for number, _ in rows]})
    return len(rows)

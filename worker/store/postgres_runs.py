"""What the PostgreSQL store does to a run: begin, write, let go and end, with its session or without."""

from __future__ import annotations

from typing import Any, NamedTuple

from worker.core.errors import RunBusy, SessionBusy, SessionConflict
from worker.postgres.link import Again, Statements
from worker.postgres.text import storable
from worker.store import postgres_sessions as sessions
from worker.store import postgres_statements as sql
from worker.store.port import Run, SessionClaim, SessionHold
from worker.store.rows import Freed, Taken, TurnRow, lost


class Begun(NamedTuple):
    """A run that an open has made its caller's, not read yet."""

    run: Run
    number: int
    taken_over: bool
    turns: list[bytes]


def turn_of(run: Run) -> tuple[str, int]:
    """What the writes of one owner go in turn by, also after one whose caller was cancelled."""
    return run.id, run.epoch


def owned(run: Run) -> dict[str, Any]:
    """The values by which a statement asks whether a run is still its owner's."""
    return {"run": storable(run.id), "epoch": run.epoch}


def begun_of(
    row: Any, values: dict[str, Any], turns: list[bytes] | None = None
) -> Begun | RunBusy | bytes | None:
    """What became of an open, from the row that it returns; None when nobody can tell."""
    number, epoch, next_seq, cancel, redrives, state, owner, left, result = row
    if number is not None:
        run = Run(values["run"], epoch, values["owner"], next_seq, cancel, redrives)
        return Begun(run, number, state == "open", turns or [])
    if state == "finished":
        return bytes(result)
    if state == "open":
        return RunBusy(f"{owner} runs {values['run']}", retry_after_seconds=max(0.0, left))
    return None


async def append(on: Statements, run: Run, statement: str, values: dict[str, Any]) -> None:
    """Add events behind those that the owner knows of, or that it wrote without hearing of it."""
    while True:
        values = {**values, "seq": run.next_seq}
        if rows := await on.rows(statement, values):
            [(run.next_seq, run.cancel_requested)] = rows
            return
        found = await on.rows(sql.APPENDED, values)
        if not found:
            raise lost(run.id, run.epoch)
        [(next_seq, run.cancel_requested, is_there)] = found
        has_moved, run.next_seq = next_seq != run.next_seq, next_seq
        if is_there and values["count"]:
            return  # it is this one that was written without an answer
        if not has_moved:
            raise Again  # it was not ours for a moment, and is now


async def begin_with(
    tx: Statements, values: dict[str, Any], claim: SessionClaim
) -> Begun | RunBusy | SessionBusy | bytes:
    """Open a run together with its session, or neither."""
    row = await sessions.locked(tx, claim)
    seen = await sessions.look(tx, row, values["run"], values["owner"])
    taken = Taken(None, [])
    if seen.can_begin:
        found = await sessions.take(tx, claim, row, seen, values["run"])
        if isinstance(found, SessionBusy):
            return found
        taken = found
    [opened] = await tx.rows(sql.OPEN, values)
    begun = begun_of(opened, values, taken.bodies)
    if isinstance(begun, Begun) and seen.can_begin:
        begun.run.session = taken.hold
    elif begun is None or isinstance(begun, Begun) or seen.can_begin:
        raise Again  # the run was begun, ended or let go of between the two looks
    return begun


async def release(
    tx: Statements,
    values: dict[str, Any],
    hold: SessionHold,
    hold_seconds: float | None,
    turn: TurnRow | None,
) -> SessionConflict | Freed | None:
    """Let go of a run and of its session, or keep that for `hold_seconds`; None: it is lost."""
    row = await sessions.locked(tx, hold)
    conflict = sessions.conflict(row, hold, turn)
    if conflict is not None and hold_seconds is None:
        return conflict if await tx.rows(sql.IS_OWNED, values) else None
    if not await tx.count(sql.RELEASE, values):
        return None
    if hold_seconds is None:
        return await sessions.free(tx, row, values["run"], turn)
    await sessions.keep(tx, row, values["run"], hold_seconds)
    return Freed()


async def finish(
    tx: Statements, values: dict[str, Any], hold: SessionHold, turn: TurnRow | None
) -> SessionConflict | Freed | None:
    """End a run, and let go of its session, or do neither; None: it is lost, or has ended."""
    row = await sessions.locked(tx, hold)
    conflict = sessions.conflict(row, hold, turn)
    if conflict is not None:
        return conflict if await tx.rows(sql.IS_OWNED, values) else None
    if not await tx.rows(sql.FINISH, values):
        return None
    return await sessions.free(tx, row, values["run"], turn)

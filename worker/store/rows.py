"""What the engines of a store have in common about their rows: what they show, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from worker.core.errors import LeaseLost
from worker.store import codec
from worker.store.port import Run, RunView, SessionClaim, SessionHold, Turn

EVENTS_MAX = (1 << 24) - 1  # what fits into the number of an event


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn as it is stored."""

    body: bytes
    ttl_seconds: float
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Freed:
    """A session that was let go of: who waits for it first, and its size if it was saved."""

    next_run: str | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """A session that a run has now: its hold (None: it does without), and the bodies of the turns."""

    hold: SessionHold | None
    bodies: list[bytes]


def view_of(row: Any, batches: Iterable[tuple[int, bytes]], after_seq: int) -> RunView:
    """A run as operators see it, from its row and its batches of events.

    The row is id, state, epoch, owner, created_at, updated_at, result, redrives and the seconds that
    are left of the lease; more may follow.
    """
    run_id, state, epoch, owner, created_at, updated_at, result, redrives, left = row[:9]
    events = [
        {"seq": first + place, **envelope}
        for first, body in batches
        for place, envelope in enumerate(codec.envelopes(body))
        if first + place > after_seq
    ]
    return RunView(
        id=run_id,
        state=state,
        epoch=epoch,
        owner=owner,
        created_at=created_at,
        updated_at=updated_at,
        events=tuple(events),
        result=None if result is None else codec.decode_result(result, run_id),
        redrives=redrives,
        lease_left=max(0.0, left) if state == "open" else 0.0,
    )


def readable(text: str) -> str:
    """The text as engines take it: without lone surrogates, which must not cost a write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def readable_claim(claim: SessionClaim) -> SessionClaim:
    """The claim with names that can be stored."""
    return replace(claim, id=readable(claim.id), tenant=readable(claim.tenant))


def turn_row(turn: Turn | None) -> TurnRow | None:
    """A turn as it is stored."""
    if turn is None:
        return None
    return TurnRow(codec.dump(turn.messages), turn.ttl_seconds, turn.bytes_max)


def note_freed(run: Run, freed: Freed | None) -> None:
    """Note in a run what became of the session that it has let go of."""
    if run.session is not None and freed is not None:
        run.session.next_run, run.session.size_bytes = freed.next_run, freed.size_bytes


def lost(run_id: str, epoch: int) -> LeaseLost:
    """What a write of an older owner meets."""
    return LeaseLost(f"epoch {epoch} of run {run_id} is over")

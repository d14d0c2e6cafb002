"""From what a row says to where its task is, in the same way for every engine."""

from __future__ import annotations

import json

from worker.queues.port import Place
from worker.queues.reasons import note_of, ran_out

_HIDDEN = ("delayed", "parked")


def place_from(
    written: str,
    state: str,
    *,
    ready_at: float,
    lease_until: float,
    owner: str,
    deliveries: int,
    last_line: str,
) -> Place:
    """Where a task is. `written` is the state that its row holds, `state` what that comes to now.

    They differ when a time has passed that nobody has noted yet: then the task is ready.
    """
    note = "" if state == "done" else note_of(last_line)
    if state == "ready":
        if written == "leased":
            return Place(state, since=lease_until, deliveries=deliveries, note=ran_out(owner))
        return Place(state, since=ready_at, deliveries=deliveries, note=note)
    if state == "leased":
        return Place(state, until=lease_until, owner=owner, deliveries=deliveries, note=note)
    return Place(
        state, until=ready_at if state in _HIDDEN else None, deliveries=deliveries, note=note
    )


def history_of(text: str | bytes) -> tuple[str, ...]:
    """The lines of a row's history; one that cannot be read hides no task and no dead letter."""
    try:
        lines = json.loads(text)
    except (ValueError, RecursionError):
        return ("its history cannot be read",)
    return tuple(map(str, lines)) if isinstance(lines, list) else ()

"""Guards, dead letters and runs as the JSON objects that operators see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from worker.core.wireformat import rfc3339
from worker.queues.port import DeadLetter
from worker.store.port import RunView

if TYPE_CHECKING:
    from worker.guard.guard import Guard

BODY_SHOWN_CHARS = 2000  # of a dead letter


def guard_to_wire(guard: Guard, dependencies: Mapping[str, str]) -> dict[str, Any]:
    """Write a guard as a JSON object: its breaker's state and counts, its layers, its tools."""
    tools = sorted(tool for tool, name in dependencies.items() if name == guard.name)
    return {**guard.snapshot(), "tools": tools, "layers": guard.describe()}


def letter_to_wire(letter: DeadLetter) -> dict[str, Any]:
    """Write a dead letter as a JSON object; of its body the beginning is shown."""
    return {
        "id": letter.id,
        "reason": letter.reason,
        "deliveries": letter.deliveries,
        "enqueued_at": rfc3339(letter.enqueued_at),
        "died_at": rfc3339(letter.died_at),
        "last_owner": letter.last_owner,
        "history": list(letter.history),
        "body": letter.body[: 4 * BODY_SHOWN_CHARS].decode("utf-8", "replace")[:BODY_SHOWN_CHARS],
        "body_bytes": len(letter.body),
    }


def run_to_wire(run: RunView) -> dict[str, Any]:
    """Write one line of the list of runs."""
    return {
        "id": run.id,
        "state": run.state,
        "status": str(run.result.status) if run.result else None,
        "steps": run.result.steps if run.result else None,
        "degraded": bool(run.result.degraded) if run.result else False,
        "worker": run.owner,
        "epoch": run.epoch,
        "created_at": rfc3339(run.created_at),
        "updated_at": rfc3339(run.updated_at),
    }

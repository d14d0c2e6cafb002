"""A task as a broker keeps it: all but its bytes as one line of text beside them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from worker.core.wireformat import TIMES_END
from worker.queues.memory_shelf import Row
from worker.queues.reasons import readable

_KEPT = (
    *("id", "priority", "number", "enqueued_at", "ready_at", "state", "deliveries", "handings"),
    *("lapses", "woken", "owner", "lease_until", "leased_at", "finished_at", "reason", "history"),
)
_STATES = ("ready", "delayed", "parked", "leased", "dead", "done")
_COUNTS_END = 2**63
_LINE = 500  # characters kept of a line of history: headers are small


def header_of(row: Row, **more: Any) -> str:
    """All of a row but its bytes, in one line, and whatever else the engine notes."""
    kept = {key: getattr(row, key) for key in _KEPT}
    kept["reason"] = row.reason[:_LINE]
    kept["history"] = [line[:_LINE] for line in row.history]
    return json.dumps({**kept, "more": more}, separators=(",", ":"))


def row_of(header: str, body: bytes) -> tuple[Row, dict[str, Any]] | None:
    """The row of a message and what else was noted; None when it is none of ours.

    Whoever may send a message may write anything into its headers.
    """
    try:
        kept = json.loads(header)
        more = dict(kept.pop("more"))
        row = Row(body=body, **kept)
        return (row, more) if _is_sound(row) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_sound(row: Row) -> bool:
    counts = (row.priority, row.number, row.deliveries, row.handings, row.lapses)
    times = (row.enqueued_at, row.ready_at, row.lease_until, row.leased_at, row.finished_at)
    texts = (row.id, row.owner, row.reason, *row.history)
    return (
        all(type(count) is int and abs(count) < _COUNTS_END for count in counts)
        and all(type(time) in (int, float) and abs(time) < TIMES_END for time in times)
        and all(isinstance(text, str) and readable(text) == text for text in texts)
        and isinstance(row.history, list)
        and row.state in _STATES
        and isinstance(row.woken, bool)
    )


def bare(row: Row) -> Row:
    """A row without its bytes."""
    return replace(row, body=b"") if row.body else row


def task_of(given: Mapping[str, Any], body: bytes, *, task_id: str, now: float) -> Row:
    """The task of a message that another program has sent, with what it gave as headers.

    Known are `priority` and `not_before`, in any case of letters; what is no number counts as 0.
    """
    known = {str(key).lower(): value for key, value in given.items()}
    due = max(now, _figure(known.get("not_before")))
    row = Row(
        id=readable(task_id),
        body=body,
        priority=int(max(-100, min(100, _figure(known.get("priority"))))),
        number=time.time_ns(),
        enqueued_at=now,
        ready_at=due,
    )
    row.state = "delayed" if due > now else "ready"
    return row


def _figure(given: Any) -> float:
    try:
        value = float(given or 0)
    except (TypeError, ValueError):
        return 0.0
    return value if math.isfinite(value) and abs(value) < TIMES_END else 0.0

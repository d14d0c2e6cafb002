"""What one process remembers of the tasks that it had in hand: RabbitMQ finds no message by an id."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

from worker.queues.memory_shelf import Row
from worker.queues.places import place_from
from worker.queues.port import Place

KEPT = 10_000  # tasks; the one that was longest not touched is forgotten first

Memory = dict[str, Any]


class RabbitMemory:
    """Where tasks were put, as far as this process did it."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Memory] = OrderedDict()

    def __repr__(self) -> str:
        return f"RabbitMemory({len(self._rows)} tasks)"

    def note(self, row: Row, state: str, *, until: float = 0.0) -> None:
        """Remember what became of a task, now."""
        self._rows[row.id] = {
            "at": time.time(),
            "state": state,
            "until": until,
            "since": row.ready_at,
            "owner": row.owner,
            "deliveries": row.deliveries,
            "line": row.history[-1] if row.history else "",
        }
        self._rows.move_to_end(row.id)
        while len(self._rows) > KEPT:
            self._rows.popitem(last=False)

    def of(self, task_id: str) -> Memory | None:
        """What is remembered of a task."""
        return self._rows.get(task_id)


def newest(memories: list[Memory | None]) -> Place | None:
    """Where a task is, by what several processes remember of it: who had it last knows best."""
    known = [one for one in memories if one is not None]
    if not known:
        return None
    last = max(known, key=lambda one: float(one["at"]))
    state = last["state"]
    is_over = state in ("leased", "delayed", "parked") and last["until"] <= time.time()
    return place_from(
        state,
        "ready" if is_over else state,
        ready_at=last["since"] if state == "ready" else last["until"],
        lease_until=last["until"],
        owner=last["owner"],
        deliveries=last["deliveries"],
        last_line=last["line"],
    )

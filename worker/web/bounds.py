"""How many steps a run has taken, how many it may take, and why; read from its journal.

A long run is polled many times: what has been counted is kept, so that a poll costs what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from worker.core.errors import IllegalEvent
from worker.core.wireformat import rfc3339
from worker.store.port import BEYOND_ALL_EVENTS, Journal, RunView

COUNTED_MAX = 500  # runs whose count is kept; the ones that nobody has asked for longest leave


class StepCount:
    """Folds the events of one run, in order, into its steps."""

    def __init__(self) -> None:
        self.next_seq = 0
        self._first = ""
        self._seen: dict[str, Any] | None = None

    def add(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Count events that follow those counted before."""
        for event in events:
            self.next_seq = event["seq"] + 1
            data = event["data"]
            match event["kind"]:
                case "started":
                    self._first = data["max_steps_reason"]
                    self._seen = {"taken": 0, "max": data["max_steps"], "reason": self._first}
                    self._seen["changes"] = []
                case "model_replied" if self._seen is not None:
                    self._seen["taken"] += 1
                case "steps_changed" if self._seen is not None:
                    change = {"max": data["max_steps"], "reason": data["reason"]}
                    self._seen |= change | {"reason": f"{self._first}; {data['reason']}"}
                    self._seen["changes"].append({"at": rfc3339(data["at"]), **change})

    def to_wire(self) -> dict[str, Any] | None:
        """Write the steps as a JSON object; None before the beginning is journaled.

        `changes` are the later decisions, in order; `max` is the last one's, `reason` that of the
        first and of the last.
        """
        if self._seen is None:
            return None
        return {**self._seen, "changes": [*self._seen["changes"]]}


class StepCounts:
    """The counts of the runs that were asked for last. Belongs to one event loop."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._kept: OrderedDict[str, tuple[float, StepCount]] = OrderedDict()

    async def look(self, task_id: str) -> tuple[RunView | None, dict[str, Any] | None]:
        """A run and its steps, None where its journal is damaged.

        Reads the events that nobody has counted yet.
        """
        try:
            return await self._look(task_id)
        except (IllegalEvent, LookupError, TypeError):
            return await self._journal.view(task_id, after_seq=BEYOND_ALL_EVENTS), None

    async def _look(self, task_id: str) -> tuple[RunView | None, dict[str, Any] | None]:
        created_at, count = self._kept.get(task_id, (0.0, StepCount()))
        view = await self._journal.view(task_id, after_seq=count.next_seq - 1)
        if view is not None and count.next_seq and view.created_at != created_at:
            # Forgotten meanwhile, and handed in once more: another run of the same name.
            count = StepCount()
            view = await self._journal.view(task_id)
        if view is None:
            self._kept.pop(task_id, None)
            return None, None
        # Two may look at once: what the other one has counted meanwhile is not counted again.
        count.add(event for event in view.events if event["seq"] >= count.next_seq)
        self._kept[task_id] = view.created_at, count
        self._kept.move_to_end(task_id)
        if len(self._kept) > COUNTED_MAX:
            self._kept.popitem(last=False)
        return view, count.to_wire()

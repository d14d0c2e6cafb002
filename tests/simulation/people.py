"""Who hands tasks in, calls some of them off and redrives dead ones, at the real desk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.simulation.facts import Accepted, Fact
from tests.simulation.plan import Chance, Plan
from tests.simulation.staff import SESSIONS
from worker.consuming.publishing import Publisher
from worker.core.errors import QueueUnavailable, RunBusy, StoreUnavailable
from worker.telemetry.tell import Telemetry
from worker.web.desk import Desk

REPLIES = "replies"
_SUBJECTS = ("the harvest", "the ferry", "a late train", "the old mill", "three hats")


class People:
    """All callers of a world. What they could not do because of an outage they do again."""

    def __init__(
        self,
        plan: Plan,
        queue: Any,
        store: Any,
        *,
        note: Callable[[Fact], None],
        wall: Callable[[], float],
    ) -> None:
        self.plan = plan
        self.chance = Chance(plan.seed, "people")
        self.accepted: list[str] = []
        self.wanting: set[str] = set()  # those with a reply_to
        self.asking = 0  # of what they want, how much they insist on right now
        self._note = note
        self._desk = Desk(
            queue,
            store,
            now=wall,
            new_id=lambda: f"unnamed-{self.chance.randrange(10**9)}",
            publish=Publisher(queue, Telemetry()).publish,
            sessions=SESSIONS,
        )

    def __repr__(self) -> str:
        return f"People({len(self.accepted)} of {self.plan.tasks} tasks)"

    async def hand_in(self) -> None:
        """Hand in every task, at any time within the time for it; some of them twice."""
        pause = self.plan.submit_seconds / self.plan.tasks
        for number in range(self.plan.tasks):
            await asyncio.sleep(self.chance.around(pause))
            task = self._task(number)
            for _ in range(2 if self.chance.happens(0.1) else 1):
                await self._insist(lambda task=task: self._desk.submit(json.dumps(task).encode()))
            self.accepted.append(task["id"])
            self.wanting |= {task["id"]} if "reply_to" in task else set()
            self._note(Accepted(task["id"]))

    async def call_off_one(self) -> None:
        """Cancel any task, whatever has become of it."""
        if self.accepted:
            task_id = self.chance.choice(self.accepted)
            await self._insist(lambda: self._desk.cancel(task_id))

    async def redrive_one(self, dead: list[str]) -> None:
        """Redrive one of the dead letters."""
        task_id = self.chance.choice(dead)
        await self._insist(lambda: self._desk.redrive(task_id))

    def _task(self, number: int) -> dict[str, Any]:
        chance = self.chance
        task: dict[str, Any] = {
            "id": f"task-{number}",
            "input": f"What about {chance.choice(_SUBJECTS)}?",
            "priority": chance.choice((0, 0, 0, 5, -5)),
        }
        if self.plan.sessions and chance.happens(0.5):
            task["session_id"] = f"session-{chance.randrange(self.plan.sessions)}"
            task["priority"] = 0
            task["input"] += f" ({task['id']})"
        if chance.happens(0.3):
            task["reply_to"] = f"queue:{REPLIES}"
        if chance.happens(0.1):
            task["tools"] = ["look_up", "stock"]
        return task

    async def _insist(self, act: Callable[[], Any]) -> None:
        self.asking += 1
        while True:
            try:
                await act()
                break
            except (QueueUnavailable, StoreUnavailable, RunBusy):
                await asyncio.sleep(self.chance.uniform(0.5, 3.0))
        self.asking -= 1

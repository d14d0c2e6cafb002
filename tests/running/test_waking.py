"""Waking a parked run whose queue cannot look for its task."""

from __future__ import annotations

import json

from worker.core.task import Result
from worker.store.memory import MemoryStore
from worker.testing.store_suite import STARTED
from worker.waking import wake


class BlindQueue:
    """A queue that finds no task by its id, as those of some brokers."""

    def __init__(self):
        self.woken = []

    async def body(self, task_id):
        """Know of nothing."""

    async def wake(self, task_id, *, afresh=False, body=None):
        """Keep what it is asked for."""
        self.woken.append((task_id, afresh, body and json.loads(body)))


async def test_the_task_comes_from_the_journal():
    """As it was when its run began; of a run that has not begun, or has ended, there is none."""
    queue, store = BlindQueue(), MemoryStore()
    await wake("t", queue, store)
    run = (await store.open("t", owner="w", lease_seconds=9)).run
    await store.append(run, [STARTED])
    await wake("t", queue, store)
    await store.finish(run, [], Result(task_id="t", status="completed"))
    await wake("t", queue, store)

    assert queue.woken == [("t", True, None), ("t", True, STARTED.task), ("t", True, None)]

"""The broker hands a worker a task that it has in hand: it is worked at once only."""

from __future__ import annotations

import asyncio

from worker.model.scripted import answer, calls
from worker.registry import tool
from worker.telemetry.signals import LeaseWasLost, TaskReceived


class Letters:
    """A write that takes as long as a test likes, with a diary."""

    def __init__(self):
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.diary = []

        @tool(effect="write", timeout_seconds=30)
        async def send_letter(to: str) -> str:
            """Send a letter."""
            self.diary.append("begun")
            self.begun.set()
            try:
                await self.may_end.wait()
            finally:
                self.diary.append("over")
            return "sent"

        self.tool = send_letter


def script():
    """Send a letter, then answer."""
    return [calls(("send_letter", {"to": "Ann"})), answer("done")]


async def test_a_lease_that_comes_twice_is_settled_once(start):
    """The same lease in the same words, while it is in hand: nothing is begun, nothing unknown."""
    letters = Letters()
    async with start(*script(), tools=[letters.tool]) as worker:
        again, told = [], asyncio.Event()
        claim = worker.queue.inner.claim

        async def twice(**wish):
            if letters.begun.is_set() and again:
                return [again.pop()]
            if letters.begun.is_set():
                told.set()  # what came again has been looked at
            leases = await claim(**wish)
            again.extend(leases)
            return leases

        worker.queue.inner.claim = twice
        task_id = await worker.submit("q")
        await told.wait()
        letters.may_end.set()
        result = await worker.result(task_id, wait_seconds=5)
        received = len(worker.ears.of(TaskReceived))

    assert result is not None
    assert (result.status, result.degraded) == ("completed", ())
    assert (received, letters.diary) == (1, ["begun", "over"])


async def test_a_task_that_is_delivered_anew_is_ended_before_it_begins_again(start):
    """The old lease is worth nothing any more: what works with it ends, then the run is opened."""
    letters = Letters()
    async with start(*script(), tools=[letters.tool]) as worker:
        opened = worker.store.inner.open

        async def noted(run_id, **rest):
            letters.diary.append("opened")
            return await opened(run_id, **rest)

        worker.store.inner.open = noted
        task_id = await worker.submit("q")
        await letters.begun.wait()
        broker = worker.queue.inner.broker
        broker.shelves["tasks"].rows[task_id].lease_until = broker.clock()
        broker.clock_moved()
        result = await worker.result(task_id, wait_seconds=5)
        lost = worker.ears.of(LeaseWasLost)

    assert result is not None
    assert [part.source for part in result.degraded] == ["unknown"]
    assert letters.diary == ["opened", "begun", "over", "opened"]
    assert [each.task_id for each in lost] == [task_id]

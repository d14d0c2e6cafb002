"""A cancel ends a running read at once; a write that has begun is waited for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.running.test_resuming import ASKED, BEGUN, mailer
from worker import Task, tool
from worker.core.limits import Limits
from worker.core.opening import Opening, open_run
from worker.model.scripted import answer, calls
from worker.telemetry.signals import RunLoop, TaskSettled

LEASE = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "lease_seconds": 0.9}


class Reading:
    """A read that never comes back by itself."""

    def __init__(self):
        self.begun = asyncio.Event()
        self.cancelled = 0
        self.tool = tool(effect="read", timeout_seconds=60)(self.look)

    async def look(self) -> str:
        """Look something up, for ever."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "never"


def sources(result):
    """Where each call's result came from, in call order."""
    return [(call.name, call.source) for call in result.tool_calls]


async def cancelled(worker, *, begun):
    """Hand a task in, cancel it once its tools run, and return its result."""
    task_id = await worker.submit("q")
    await begun.wait()
    assert (await worker.desk.cancel(task_id)).status == "cancelling"
    result = await worker.result(task_id, wait_seconds=10)
    assert result is not None
    return result


async def paired(worker, task_id):
    """The calls of the journal and those of its observations, which must be the same."""
    events = (await worker.store.view(task_id)).events
    asked = [
        c["id"] for e in events if e["kind"] == "model_replied" for c in e["data"]["reply"]["calls"]
    ]
    told = {
        e["data"]["call_id"]: e["data"]["observation"]
        for e in events
        if e["kind"] == "tool_returned"
    }
    assert set(asked) == set(told)
    return [told[call_id] for call_id in asked]


async def test_an_async_read_is_cancelled(start):
    """The tool is told, its call is answered as skipped, and no breaker hears of it."""
    reading = Reading()
    async with start(calls(("look", {})), tools=[reading.tool]) as worker:
        result = await cancelled(worker, begun=reading.begun)
        (seen,) = await paired(worker, result.task_id)
        guard = worker.guards.get("test_cancelling")

        assert (result.status, sources(result)) == ("cancelled", [("look", "skipped")])
        assert (seen["reason"], seen["error_type"], seen["status_code"]) == (
            *("cancelled", "cancelled", 499),
        )
        assert reading.cancelled == 1
        assert (guard.state, guard.snapshot()["in_use"]) == ("closed", 0)
        assert guard.snapshot()["consecutive_failures"] == 0
        assert (await worker.queue.depth()).leased == 0
        assert len(worker.model.requests) == 1


async def test_a_sync_read_is_left_behind(start):
    """Nothing stops a thread: the run ends without it, and it keeps its slot until it ends."""
    begun, free = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool(effect="read", timeout_seconds=60)
    def look() -> str:
        """Look something up, for long."""
        loop.call_soon_threadsafe(begun.set)
        free.wait(30)
        return "late"

    async with start(calls(("look", {})), tools=[look]) as worker:
        result = await cancelled(worker, begun=begun)
        guard = worker.guards.get(look.dependency)
        behind = guard.snapshot()["in_use"]
        free.set()
        async with asyncio.timeout(5):
            while guard.snapshot()["in_use"]:  # noqa: ASYNC110  (the end of a thread)
                await asyncio.sleep(0.01)

        assert (result.status, sources(result)) == ("cancelled", [("look", "skipped")])
        assert behind == 1


@pytest.mark.parametrize("effect", ["write", "idempotent"])
async def test_an_effect_that_has_begun_is_waited_for(start, effect):
    """The read beside it ends at once, the effect ends as it would have, and both are told."""
    reading, writing, free = Reading(), asyncio.Event(), asyncio.Event()

    @tool(effect=effect, timeout_seconds=60)
    async def book() -> str:
        """Book something, slowly."""
        writing.set()
        await free.wait()
        return "booked"

    both = calls(("book", {}), ("look", {}))
    async with start(both, tools=[reading.tool, book]) as worker:
        task_id = await worker.submit("q")
        await reading.begun.wait()
        await writing.wait()
        await worker.desk.cancel(task_id)
        async with asyncio.timeout(5):
            while not reading.cancelled:  # noqa: ASYNC110  (the tool has no signal of it)
                await asyncio.sleep(0.01)
        early = await worker.store.result(task_id)
        free.set()
        result = await worker.result(task_id, wait_seconds=5)
        seen = await paired(worker, task_id)

        assert early is None
        assert result.status == "cancelled"
        assert sources(result) == [("book", "live"), ("look", "skipped")]
        assert seen[0]["content"] == "booked"
        assert len(worker.model.requests) == 1


async def test_what_has_not_begun_does_not_begin(start):
    """Calls that waited for their turn are answered as skipped; a write among them never runs."""
    reading, booked = Reading(), []

    @tool(effect="read", sequential="desk")
    async def look() -> str:
        """Look something up, for ever."""
        return await reading.look()

    @tool(effect="write", sequential="desk")
    async def book() -> str:
        """Book something."""
        booked.append(1)
        return "booked"

    asked = calls(("look", {}), ("book", {}))
    async with start(asked, tools=[look, book]) as worker:
        result = await cancelled(worker, begun=reading.begun)

        assert (result.status, booked) == ("cancelled", [])
        assert sources(result) == [("look", "skipped"), ("book", "skipped")]


async def test_cancelled_again_while_it_ends(start):
    """However often the cancel is repeated: the run ends by it, and is not taken for a drain."""
    begun, free = asyncio.Event(), asyncio.Event()

    @tool(effect="read", timeout_seconds=60)
    async def look() -> str:
        """Look something up, and be slow to stop."""
        begun.set()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async with start(calls(("look", {})), tools=[look]) as worker:
        task_id = await worker.submit("q")
        await begun.wait()
        for _ in range(3):
            await worker.desk.cancel(task_id)
        result = await worker.result(task_id, wait_seconds=5)
        free.set()

        assert (result.status, sources(result)) == ("cancelled", [("look", "skipped")])
        assert [settled.outcome for settled in worker.ears.of(TaskSettled)] == ["ack"]
        assert len(worker.ears.of(RunLoop, "settled")) == 1


async def test_a_cancel_from_elsewhere_comes_with_the_heartbeat(start):
    """Another process notes it in the journal; the read ends within two beats."""
    reading = Reading()
    stuck = {"loop_stuck_seconds": 0.9}
    async with start(
        calls(("look", {})), tools=[reading.tool], queue=LEASE, worker=stuck
    ) as worker:
        task_id = await worker.submit("q")
        await reading.begun.wait()
        await worker.store.inner.request_cancel(task_id)
        result = await worker.result(task_id, wait_seconds=5)

        assert (result.status, sources(result)) == ("cancelled", [("look", "skipped")])


async def test_a_drain_beside_a_cancel_hands_back(start):
    """Two cancellations of one read at once: the drain's wins, and the task is not lost."""
    reading = Reading()
    async with start(
        calls(("look", {})), tools=[reading.tool], worker={"drain_seconds": 0.0}
    ) as worker:
        task_id = await worker.submit("q")
        await reading.begun.wait()
        await worker.store.request_cancel(task_id)
        worker.begin_drain()
        worker.consumer.cancel(task_id)
        for task in worker.consumer._tasks.values():
            task.cancel()
        await worker._working

        assert [settled.outcome for settled in worker.ears.of(TaskSettled)] == ["release"]
        assert await worker.store.result(task_id) is None


async def test_a_drain_alone_ends_a_read_of_a_run_that_is_cancelled_unheard(start):
    """A cancel that has been noted and not told yet does not make a drain look like one."""
    reading = Reading()
    async with start(
        calls(("look", {})), tools=[reading.tool], worker={"drain_seconds": 0.0}
    ) as worker:
        task_id = await worker.submit("q")
        await reading.begun.wait()
        (held,) = worker.consumer.held.values()
        held.run.cancel_requested = True
        worker.begin_drain()
        await worker._working

        assert [settled.outcome for settled in worker.ears.of(TaskSettled)] == ["release"]
        assert await worker.store.result(task_id) is None


async def test_a_write_in_doubt_is_unknown_to_a_cancelled_run(start):
    """It may have happened before the crash, so it is never called skipped."""
    sent = []
    async with start(answer("x"), tools=[mailer(sent)], running=False) as worker:
        await worker._open()
        task = Task("t1", "send the mail")
        opened = await worker.store.open("t1", owner="dead", lease_seconds=5)
        begun = open_run(task, Opening(Limits(), 1e9, 200), now=1.0, tools=("send_mail",))
        await worker.store.append(opened.run, [begun, ASKED, BEGUN])
        await worker.store.request_cancel("t1")
        await worker.store.release(opened.run)
        await worker.submit(task)
        worker._working = asyncio.create_task(worker._work())
        result = await worker.result("t1", wait_seconds=10)
        await worker.stop()

        assert (result.status, sent) == ("cancelled", [])
        assert sources(result) == [("send_mail", "unknown")]
        assert [part.source for part in result.degraded] == ["unknown"]
        assert worker.model.requests == []

"""Runs that are parked: cancelled, at their deadline, in great numbers, and in order."""

from __future__ import annotations

import asyncio
import time
import tracemalloc

import pytest

from tests.running.waits import ARGUMENTS, ASKS, decide, parked, refunding, until
from worker import Task, tool
from worker.model.scripted import ScriptedModel, answer, calls
from worker.telemetry.signals import RunParked
from worker.web.waiting import NotAccepted


async def test_a_parked_run_is_cancelled_at_once(start):
    """Its result tells what was done before, and nothing waits any more."""
    made, calls_ = [], [calls(("refund", {**ARGUMENTS, "amount": 1})), ASKS]
    async with start(*calls_, tools=[refunding(made)]) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        await decide(worker, task_id)
        await until(lambda: made)
        await parked(worker, task_id)
        view = await worker.desk.cancel(task_id)

        assert view.result.status == "cancelled"
        assert [call.source for call in view.result.tool_calls] == ["live", "skipped"]
        assert view.result.steps == 2
        assert await worker.desk.waiting.approvals() == []
        assert (await worker.queue.depth()).parked == 0
        with pytest.raises(NotAccepted):
            await decide(worker, task_id, call_id="c1", approved=False)


async def test_a_task_does_not_wait_beyond_its_own_deadline(start):
    """It ends as `deadline` when that passes, whatever the approval had left."""
    async with start(ASKS, tools=[refunding([])]) as worker:
        task_id = await worker.submit(Task("t", "refund", deadline=time.time() + 1.5))
        await parked(worker, task_id)
        result = await worker.result(task_id, wait_seconds=10)

        assert (result.status, result.tool_calls[0].source) == ("deadline", "skipped")
        assert await worker.desk.waiting.approvals() == []


async def test_the_deadline_of_the_settings_does_not_run_while_parked(start):
    """A run that waits for a person longer than runs may work still does its work."""
    made = []
    async with start(ASKS, answer("ok"), tools=[refunding(made)], deadline=1.0) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        await asyncio.sleep(1.2)  # what is tested is that time passes
        await decide(worker, task_id)
        result = await worker.result(task_id, wait_seconds=10)

        assert (result.status, made) == ("completed", [("CN1", 20)])


async def test_parking_uses_up_no_delivery(start):
    """A run that waits more often than a task may be delivered is no poison."""
    made = []
    queue = {
        "backoff_seconds": 0.0,
        "poll_seconds": 0.05,
        "lease_seconds": 5.0,
        "max_deliveries": 2,
    }
    script = [calls(("refund", {"order": f"CN{n}", "amount": n})) for n in range(6)]
    async with start(*script, answer("ok"), tools=[refunding(made)], queue=queue) as worker:
        task_id = await worker.submit("refund them all")
        for number in range(6):
            await until(lambda: len(made) == number)  # noqa: B023
            await parked(worker, task_id)
            await decide(worker, task_id)
        result = await worker.result(task_id, wait_seconds=10)

        assert (result.status, len(made)) == ("completed", 6)


async def test_a_sequential_group_waits_behind_the_call_that_waits(start):
    """Stateful calls keep their order: what follows a waiting call of the group is held."""
    log = []

    @tool(effect="write", requires_approval=True, sequential="desk")
    async def sign(name: str) -> str:
        """Sign."""
        log.append(f"sign {name}")
        return "signed"

    @tool(effect="write", sequential="desk")
    async def file(name: str) -> str:
        """File."""
        log.append(f"file {name}")
        return "filed"

    asks = calls(("file", {"name": "a"}), ("sign", {"name": "b"}), ("file", {"name": "c"}))
    async with start(asks, answer("ok"), tools=[sign, file]) as worker:
        task_id = await worker.submit("go")
        await parked(worker, task_id)
        before = list(log)
        await worker.queue.wake(task_id)
        await until(lambda: len(worker.ears.of(RunParked)) == 2)
        again = list(log)
        await decide(worker, task_id)
        await worker.result(task_id, wait_seconds=10)

        assert (before, again) == (["file a"], ["file a"])
        assert log == ["file a", "sign b", "file c"]


async def test_parked_runs_are_measured(start):
    """They show as parked tasks, and count as runs only once they end."""

    async def page():
        await worker.housekeeper.once()
        return worker.seen.metrics.render()[0].decode()

    async with start(ASKS, answer("ok"), tools=[refunding([])]) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        before = await page()
        await decide(worker, task_id)
        await worker.result(task_id, wait_seconds=10)
        after = await page()

    assert 'loopworker_queue_tasks{queue="tasks",state="parked"} 1.0' in before
    assert 'loopworker_runs_total{reason="completed",status="success"} 0.0' in before
    assert 'loopworker_runs_total{reason="error",status="error"} 0.0' in before
    assert 'loopworker_queue_tasks{queue="tasks",state="parked"} 0.0' in after
    assert 'loopworker_runs_total{reason="completed",status="success"} 1.0' in after


@pytest.mark.slow
async def test_many_parked_runs_hold_no_memory(start, tmp_path):
    """Two thousand runs that wait cost the worker nothing, and a fresh task is answered at once."""

    def model(request):
        text = request.messages[-1].body["content"]
        return answer("quick") if text == "quick" else ASKS

    url = f"sqlite:///{tmp_path / 'a.db'}?synchronous=off"
    scripted = ScriptedModel(otherwise=model)
    async with start(scripted, tools=[refunding([])], queue_url=url, concurrency=8) as worker:

        async def park(first, count):
            for number in range(first, first + count):
                await worker.submit(Task(f"t{number}", "refund"))

            async def all_parked():
                return (await worker.queue.depth()).parked == first + count

            await until(all_parked, 120)
            scripted.requests.clear()
            worker.ears.heard.clear()

        await park(0, 200)
        tracemalloc.start()
        try:
            await park(200, 200)
            early = tracemalloc.get_traced_memory()[0]
            await park(400, 1600)
            grown = tracemalloc.get_traced_memory()[0] - early
        finally:
            tracemalloc.stop()
        held = len(worker.consumer.held)
        result = await worker.result(await worker.submit("quick"), wait_seconds=10)

        assert (held, result.answer) == (0, "quick")
        assert grown < 200 * 1600, f"{grown / 1600:.0f} bytes for each parked run"

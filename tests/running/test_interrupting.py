"""A cancel does not wait for the model, and an outage does not use up deliveries."""

from __future__ import annotations

import asyncio

from worker.core.errors import ModelError
from worker.core.events import ModelFailed
from worker.core.settlement import Deliveries, settle_ended
from worker.model.scripted import answer
from worker.telemetry.signals import RunLoop, TaskSettled


async def test_a_cancel_ends_the_waiting_for_the_model(start):
    """The model never answers; the run ends as cancelled all the same, at once."""
    thinking = asyncio.Event()

    async def think(request):
        thinking.set()
        await asyncio.Event().wait()

    async with start(think) as worker:
        task_id = await worker.submit("q")
        await thinking.wait()
        assert (await worker.desk.cancel(task_id)).status == "cancelling"
        result = await worker.result(task_id, wait_seconds=5)

        assert result is not None
        assert result.status == "cancelled"
        assert (await worker.queue.depth()).leased == 0


async def test_a_cancel_from_another_process_is_seen_with_the_next_heartbeat(start):
    """Somebody notes it in the journal; the heartbeat brings it to the run."""
    thinking = asyncio.Event()

    async def think(request):
        thinking.set()
        await asyncio.Event().wait()

    queue = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "lease_seconds": 0.6}
    stuck = {"loop_stuck_seconds": 0.6}
    async with start(think, queue=queue, worker=stuck) as worker:
        task_id = await worker.submit("q")
        await thinking.wait()
        await worker.store.request_cancel(task_id)
        result = await worker.result(task_id, wait_seconds=5)

        assert result is not None
        assert result.status == "cancelled"


async def test_a_drain_beside_a_cancel_still_hands_back(start):
    """Two cancellations at once: the outer one wins, and nothing is lost."""
    thinking = asyncio.Event()

    async def think(request):
        thinking.set()
        await asyncio.Event().wait()

    async with start(think, worker={"drain_seconds": 0.0}) as worker:
        task_id = await worker.submit("q")
        await thinking.wait()
        await worker.store.request_cancel(task_id)
        worker.begin_drain()
        worker.consumer.cancel(task_id)
        for task in worker.consumer._tasks.values():
            task.cancel()
        await worker._working

        settled = worker.ears.of(TaskSettled)
        assert [s.outcome for s in settled] == ["release"]


async def test_a_refusal_by_the_open_breaker_uses_up_no_delivery(start, ask):
    """No request was made, so the task waits for the breaker and then is answered."""
    refused = ModelError(
        "open",
        status="model_unavailable",
        transient=True,
        retry_after_seconds=0.01,
        attempted=False,
    )
    queue = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "max_deliveries": 2}
    script = [*[refused] * 6, answer("here")]
    async with start(*script, queue=queue) as worker:
        result = await ask(worker, "hello")

        assert result.status == "completed"
        assert len(worker.ears.of(RunLoop, "settled")) == 7


def test_an_unattempted_failure_waits_for_the_breaker_uncounted():
    """The delay is the breaker's own, and the delivery is given back."""
    last = Deliveries(5, 5, 2.0, 300.0)

    settlement = settle_ended("model_unavailable", "open", last, hint_seconds=31, attempted=False)

    assert (settlement.action, settlement.counted, settlement.delay_seconds) == ("retry", False, 31)
    assert ModelFailed(1.0, "model_unavailable", "x", True).attempted


async def test_a_bug_while_reading_a_task_is_bounded_by_its_deliveries(start, ask, monkeypatch):
    """What nobody foresaw is counted and ends in the dead letters; it never spins for ever."""
    from worker.consuming import delivery

    read = delivery.read_task

    def reading(body, **more):
        if b"poison" in body:
            raise ZeroDivisionError
        return read(body, **more)

    monkeypatch.setattr(delivery, "read_task", reading)
    queue = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "max_deliveries": 2}
    async with start(otherwise=answer("fine"), queue=queue) as worker:
        await worker.submit("poison")
        assert (await ask(worker, "good")).status == "completed"
        async with asyncio.timeout(5):
            while not await worker.queue.inner.dead():  # noqa: ASYNC110  (no signal of a claim)
                await asyncio.sleep(0.01)

        assert [d.deliveries for d in await worker.queue.inner.dead()] == [2]


async def test_a_full_reply_queue_delays_the_task_and_loses_nothing(start, monkeypatch):
    """The result is stored; the task waits until the result can be handed over."""
    from worker import Task
    from worker.consuming.publishing import Publisher
    from worker.core.errors import QueueFull

    tries = []
    publish = Publisher.publish

    async def publishing(self, result, reply_to):
        tries.append(result.id)
        if len(tries) < 4:
            raise QueueFull
        await publish(self, result, reply_to)

    monkeypatch.setattr(Publisher, "publish", publishing)
    queue = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "max_deliveries": 2}
    async with start(answer("42"), queue=queue) as worker:
        await worker.submit(Task("t1", "q", reply_to="queue:answers"))
        answers = worker.queue.inner.sibling("answers")
        leases = await answers.claim(owner="me", lease_seconds=5, wait_seconds=5)

        assert [lease.id for lease in leases] == ["t1/result"]
        assert tries == ["t1/result"] * 4
        assert len(worker.model.requests) == 1


async def test_the_bulkhead_has_room_for_what_the_worker_itself_lets_in(start):
    """At the default settings no run fails because its own worker runs others beside it."""
    from worker import tool
    from worker.model.scripted import calls

    met = asyncio.Barrier(24)

    @tool(effect="read")
    async def meet() -> str:
        """Wait until all are here."""
        await met.wait()
        return "here"

    def think(request):
        asked = any(message.role == "tool" for message in request.messages)
        return answer("done") if asked else calls(("meet", {}))

    async with start(otherwise=think, tools=[meet], concurrency=24) as worker:
        ids = [await worker.submit(f"q{n}") for n in range(24)]
        results = [await worker.result(task_id, wait_seconds=10) for task_id in ids]

        assert [r.tool_calls[0].source for r in results] == ["live"] * 24

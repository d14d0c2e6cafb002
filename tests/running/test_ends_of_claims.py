"""What ends a claim that waits, and what is said of claims that do not come back."""

from __future__ import annotations

import asyncio

import pytest

from worker import Task
from worker.core.errors import QueueUnavailable, SessionBusy
from worker.store.port import SessionClaim

QUEUE = {"poll_seconds": 20.0, "lease_seconds": 30.0, "backoff_seconds": 0.0}


async def until(condition):
    """Wait for something that nobody signals."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (a state that has no event)
            await asyncio.sleep(0.001)


class Thinking:
    """A model that begins to think and is let go of by the test."""

    def __init__(self):
        self.begun, self.done = asyncio.Event(), asyncio.Event()

    async def __call__(self, request):
        self.begun.set()
        await self.done.wait()
        return "fine"


async def test_a_drain_ends_the_claim_and_leaves_no_cancellation_behind(start):
    """What runs goes on in a task that nobody has cancelled."""
    thinking = Thinking()
    async with start(thinking, queue=QUEUE) as worker:
        await worker.submit("q")
        await thinking.begun.wait()
        await until(lambda: worker.consumer._claiming is not None)
        worker.begin_drain()
        assert worker._working.cancelling() == 1
        await until(lambda: worker._working.cancelling() == 0)
        assert not worker._working.done()
        thinking.done.set()
        await worker._working


async def test_a_drain_beside_a_cancel_is_a_cancel(start):
    """Whoever ends the worker at the moment of its drain is not taken for the drain."""
    async with start(queue=QUEUE) as worker:
        await until(lambda: worker.consumer.last_claim_at is not None)
        await until(lambda: worker.consumer._claiming is not None)
        worker.begin_drain()
        worker._working.cancel()
        await asyncio.wait([worker._working])

        assert worker._working.cancelled()


async def test_claims_that_do_not_come_back_are_told(start):
    """Beyond the wait of a claim and some patience; but not while every slot is in use."""
    thinking = Thinking()
    async with start(thinking, queue=QUEUE, concurrency=1) as worker:
        consumer = worker.consumer
        await until(lambda: consumer.last_claim_at is not None)
        first = consumer.last_claim_at
        consumer._clock = lambda: first + 50.0
        in_time = (consumer.claim_trouble(), consumer.obstacle())
        consumer._clock = lambda: first + 51.0
        late = (consumer.claim_trouble(), consumer.obstacle())
        await worker.submit("q")
        await thinking.begun.wait()
        consumer.last_claim_at = first
        full = (consumer.claim_trouble(), consumer.obstacle())
        thinking.done.set()

    assert in_time == (None, None)
    assert late == ("no claim has succeeded for 51 s",) * 2
    assert full == (None, "all 1 slots of this worker are in use")
    assert consumer.obstacle() == "this worker drains"


async def test_claims_that_fail_are_told_within_seconds(start, monkeypatch):
    """Not the first of them, which may be a moment of the network's; one that succeeds ends it."""
    quick = {**QUEUE, "poll_seconds": 0.01}
    async with start(queue=quick) as worker:
        consumer, broker = worker.consumer, worker.consumer._queue
        await until(lambda: consumer.last_claim_at is not None)
        failed, claim = asyncio.Event(), broker.claim

        async def away(**_):
            failed.set()
            raise QueueUnavailable("gone")

        monkeypatch.setattr(broker, "claim", away)
        await failed.wait()
        await until(lambda: consumer._failing_since is not None)
        since = consumer._failing_since
        told = []
        for seconds in (2.9, 3.0):
            monkeypatch.setattr(consumer, "_clock", lambda seconds=seconds: since + seconds)
            told.append(consumer.claim_trouble())
        monkeypatch.setattr(broker, "claim", claim)
        await until(lambda: consumer._failing_since is None)
        well = consumer.claim_trouble()

    assert told == [None, "claims have failed for 3 s; the log says why"]
    assert well is None


async def test_a_run_that_is_handed_back_keeps_its_session(start):
    """The next task of the conversation waits until the first one has been taken up again."""
    thinking = Thinking()
    async with start(thinking, queue=QUEUE, worker={"drain_seconds": 0.0}) as worker:
        await worker.submit(Task("t1", "first", session_id="s"))
        await thinking.begun.wait()
        worker.begin_drain()
        await worker._working

        with pytest.raises(SessionBusy):
            await worker.store.open("t2", owner="w", lease_seconds=5, session=SessionClaim("s"))

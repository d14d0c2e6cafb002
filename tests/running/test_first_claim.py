"""When a worker says that it is ready."""

from __future__ import annotations

import asyncio

from worker.telemetry.signals import QueueCall

QUEUE = {"poll_seconds": 20.0, "lease_seconds": 30.0, "backoff_seconds": 0.0}


def claims(worker, what):
    """The claims that began or ended so far."""
    return [call for call in worker.ears.of(QueueCall, what) if call.name == "claim"]


async def until(condition):
    """Wait for something that nobody signals."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (a state that has no event)
            await asyncio.sleep(0.001)


async def test_an_empty_queue_does_not_hold_up_readiness(start):
    """The first claim comes back at once, however long later ones wait for a task."""
    async with start(queue=QUEUE) as worker:
        await until(lambda: worker._ready().is_ready)

        assert [call.messages for call in claims(worker, "settled")] == [0]


async def test_the_claims_after_the_first_wait_for_a_task(start):
    """A worker on an empty queue does not spin: its second claim is still under way."""
    async with start(queue=QUEUE) as worker:
        await until(lambda: len(claims(worker, "started")) == 2)
        for _ in range(100):
            await asyncio.sleep(0)

        assert (len(claims(worker, "started")), len(claims(worker, "settled"))) == (2, 1)

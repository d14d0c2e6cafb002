"""What takes the place of a sentence that an engine cannot keep: the same promise, kept by the journal.

Which sentences those are stands in the `capabilities` of the engine, and in `worker/queues/gaps.py`.
"""

from __future__ import annotations

import asyncio

import pytest

from worker.core.errors import LeaseLost, RunBusy
from worker.core.task import Result
from worker.queues.port import Lease, Queue, Ticket
from worker.store.memory import MemoryStore
from worker.testing.queue_case import QueueCase
from worker.testing.store_case import note


class QueueTwins(QueueCase):
    """The twins, by the capability that is missing."""

    async def twin_of_one_id(self, queue: Queue) -> None:
        """deduplicates: the second ticket of an id finds its run at an end, and is settled unrun."""
        store = MemoryStore()
        for body in (b"1", b"2"):
            assert await queue.put(Ticket(id="a", body=body)) is True
        leases = await self.take(queue, limit=5)
        first, *_ = [await store.open("a", owner="w1", lease_seconds=self.lease_seconds)]
        assert first.run is not None
        await store.finish(first.run, [note(1)], Result(task_id="a", status="completed"))
        again = await store.open("a", owner="w1", lease_seconds=self.lease_seconds)
        for lease in leases:
            await queue.ack(lease)

        assert [(lease.id, lease.body) for lease in leases] == [("a", b"1"), ("a", b"2")]
        assert again.run is None
        assert again.result is not None and again.result.status == "completed"
        assert await self.take(queue) == []

    async def twin_of_racing_puts(self, queue: Queue) -> None:
        """deduplicates: of twenty tickets of one id that are worked at at once, one gets the run."""
        store = MemoryStore()
        await asyncio.gather(*[queue.put(Ticket(id="a", body=b"1")) for _ in range(20)])
        leases: list[Lease] = []
        while len(leases) < 20:
            found = await self.take(queue, limit=20)
            assert found
            leases += found
        opens = [
            store.open("a", owner=f"w{number}", lease_seconds=60) for number in range(len(leases))
        ]
        outcomes = await asyncio.gather(*opens, return_exceptions=True)

        assert sum(isinstance(outcome, RunBusy) for outcome in outcomes) == 19

    async def twin_of_surviving_leases(self, queue: Queue, lease: Lease) -> None:
        """extends: the lease went with its connection, and whoever had it is fenced by the next one."""
        store = MemoryStore()
        stale = await store.open(lease.id, owner="w1", lease_seconds=60)
        with pytest.raises(LeaseLost):
            await queue.ack(lease)
        again = await self.take_one(queue)
        await store.open(again.id, owner="w1", lease_seconds=60)
        assert stale.run is not None
        with pytest.raises(LeaseLost):
            await store.append(stale.run, [note(1)])
        await queue.ack(again)

        assert (again.id, again.body, again.deliveries) == (lease.id, lease.body, 2)

    async def twin_of_cancel(self, queue: Queue) -> None:
        """finds: what was called off is claimed all the same, finds its result, and is settled."""
        store = MemoryStore()
        await queue.put(Ticket(id="b", body=b"1"))
        assert await queue.cancel("b") is False
        await store.put_result(Result(task_id="b", status="cancelled"))
        lease = await self.take_one(queue)
        opened = await store.open("b", owner="w1", lease_seconds=60)
        await queue.ack(lease)

        assert opened.run is None
        assert opened.result is not None and opened.result.status == "cancelled"
        assert await self.take(queue) == []

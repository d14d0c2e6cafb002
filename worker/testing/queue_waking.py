"""The part of the contract of a queue that is about waking what is parked (Q30, Q31)."""

from __future__ import annotations

import asyncio

from worker.queues.port import Lease, Queue, Ticket
from worker.testing.batches import for_each
from worker.testing.harness import PATIENCE_SECONDS, QueueHarness
from worker.testing.queue_case import TOGETHER, QueueCase


class QueueWaking(QueueCase):
    """Who is woken, who is not, and what wakes with it."""

    async def test_q30_wake(self, queue: Queue) -> None:
        """A parked task is ready at once, and goes before what was put after it."""
        for name in ("a", "b"):
            await queue.put(Ticket(id=name, body=TOGETHER))
        first = await self.take_one(queue)
        await queue.nack(first, delay_seconds=3600, counted=False, reason="waits")
        places = [
            *(await queue.state("a"), await queue.wake("a", body=TOGETHER), await queue.state("a")),
        ]

        assert places == ["parked", True, "ready"]
        again = await self.take(queue, limit=2)
        assert [lease.id for lease in again] == ["a", "b"]
        # Where it cannot be found it is a second ticket, which was never handed out.
        assert (again[0].deliveries, again[0].handings) == (1, 1 + queue.capabilities.finds)

    async def test_q30_others_are_left_alone(self, queue: Queue, harness: QueueHarness) -> None:
        """Neither a back-off nor a schedule is cut short; what is leased stays with its owner."""
        for name in ("delayed", "leased", "done", "dead"):
            await queue.put(Ticket(id=name, body=b"1"))
        leases = {lease.id: lease for lease in await self.take(queue, limit=4)}
        await queue.nack(leases["delayed"], delay_seconds=3600, counted=True, reason="x")
        await queue.ack(leases["done"])
        await queue.dead_letter(leases["dead"], reason="x")
        later = leases["leased"].enqueued_at + 3600
        await queue.put(Ticket(id="scheduled", body=b"1", not_before=later))
        names = ("delayed", "leased", "done", "dead", "scheduled", "unknown")
        before = [await queue.state(name) for name in names]

        assert [await queue.wake(name) for name in names] == [False] * 6

        assert [await queue.state(name) for name in names] == before
        await queue.extend(leases["leased"], lease_seconds=self.lease_seconds)
        assert await self.take(queue, limit=9) == []

    async def test_q30_wakes_who_waits(self, queue: Queue, harness: QueueHarness) -> None:
        """A claim that waits gets the woken task, whoever woke it."""
        other = await self.open(harness)
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)
        await queue.nack(lease, delay_seconds=3600, counted=False, reason="waits")
        waiting = asyncio.create_task(self.take(queue, wait_seconds=PATIENCE_SECONDS))
        await asyncio.sleep(0)

        assert await other.wake("a", body=b"1") is True
        assert [lease.id for lease in await waiting] == ["a"]

    async def test_q30_afresh(self, queue: Queue, harness: QueueHarness) -> None:
        """Woken afresh, a task has waited since then, and no longer."""
        await queue.put(Ticket(id="a", body=TOGETHER))
        await self.park(queue, await self.take_one(queue))
        await harness.pass_time(self.lease_seconds)
        await queue.put(Ticket(id="b", body=TOGETHER))
        await harness.pass_time(self.lease_seconds * 0.5)

        assert await queue.wake("a", afresh=True, body=TOGETHER) is True

        assert [lease.id for lease in await self.take(queue, limit=1)] == ["b"]
        oldest = (await queue.depth()).oldest_ready_seconds
        if queue.capabilities.tells_oldest:
            assert oldest is not None and oldest < self.lease_seconds * 0.5
        assert [lease.id for lease in await self.take(queue, limit=2)] == ["a"]

    async def test_q30_one_of_many(self, queue: Queue) -> None:
        """Of a thousand parked tasks the one that is woken comes, and no other."""
        tickets = [Ticket(id=f"t{number}", body=b"1") for number in range(1000)]
        await for_each(queue.put, tickets)
        while leases := await self.take(queue, limit=200):
            await asyncio.gather(*[self.park(queue, lease) for lease in leases])
        assert (await queue.depth()).parked == 1000

        assert await queue.wake("t617", body=b"1") is True
        assert [lease.id for lease in await self.take(queue, limit=5)] == ["t617"]

    async def test_q31_wake_before_the_parking(self, queue: Queue, harness: QueueHarness) -> None:
        """A wake that comes while the task is leased keeps the parking from hiding it, once."""
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)
        await (await self.open(harness)).wake("a", body=b"1")
        await self.park(queue, lease)

        again = await self.take_one(queue)
        assert (again.id, again.deliveries) == ("a", 1)
        await self.park(queue, again)
        assert await self.take(queue) == []

    async def test_q31_wake_and_a_back_off(self, queue: Queue) -> None:
        """A wake does not cut a back-off short that the task gets afterwards."""
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)
        await queue.wake("a", body=b"1")
        await queue.nack(lease, delay_seconds=3600, counted=True, reason="x")

        assert await queue.state("a") == "delayed"
        assert await self.take(queue) == []

    async def test_q31_wake_and_a_new_owner(self, queue: Queue, harness: QueueHarness) -> None:
        """Whoever claims the task after the wake can have seen what it was woken for."""
        await queue.put(Ticket(id="a", body=b"1"))
        await self.take_one(queue)
        await queue.wake("a", body=b"1")
        await harness.pass_time(self.lease_seconds * 1.1)
        await self.park(queue, await self.take_one(queue, owner="w2"))

        assert await queue.state("a") == "parked"

    async def park(self, queue: Queue, lease: Lease) -> None:
        """Hand a task back uncounted, for longer than any test lasts."""
        await queue.nack(lease, delay_seconds=36_000, counted=False, reason="waits")

"""The part of the contract of a queue that is about where a task is, and why (Q34)."""

from __future__ import annotations

from worker.queues.port import Place, Queue, Ticket
from worker.testing.harness import QueueHarness
from worker.testing.queue_case import QueueCase

CLOSE = 5.0  # seconds that a real engine may need for a few calls


class QueueLooking(QueueCase):
    """What is told of a task, from its put to its end."""

    async def looked(self, queue: Queue, task_id: str) -> Place:
        """Where a task is, in agreement with `state`."""
        place = await queue.place(task_id)
        assert place is not None
        assert place.state == await queue.state(task_id)
        return place

    async def test_q34_ready_and_leased(self, queue: Queue, harness: QueueHarness) -> None:
        """Since when it is ready, and then who has it until when; a lease that ran out is told."""
        await queue.put(Ticket(id="a", body=b"1"))
        ready = await self.looked(queue, "a")
        lease = await self.take_one(queue)
        leased = await self.looked(queue, "a")
        await harness.pass_time(self.lease_seconds * 1.1)
        expired = await self.looked(queue, "a")

        assert (ready.state, ready.until, ready.note, ready.deliveries) == ("ready", None, "", 0)
        assert ready.since is not None and abs(ready.since - lease.enqueued_at) < CLOSE
        assert (leased.state, leased.owner, leased.since) == ("leased", "w1", None)
        until = lease.enqueued_at + self.lease_seconds
        assert leased.until is not None and abs(leased.until - until) < CLOSE
        assert (expired.state, expired.owner, expired.until) == ("ready", "", None)
        assert expired.since is not None and abs(expired.since - until) < CLOSE
        assert (expired.note, expired.deliveries) == ("the lease of w1 ran out", 1)

    async def test_q34_hidden(self, queue: Queue) -> None:
        """Until when it waits, and why it was handed back; one that is only scheduled has no why."""
        for name in ("parked", "delayed"):
            await queue.put(Ticket(id=name, body=b"1"))
        leases = {lease.id: lease for lease in await self.take(queue, limit=2)}
        now = leases["parked"].enqueued_at
        await queue.put(Ticket(id="scheduled", body=b"1", not_before=now + 3600))
        for name, counted, reason in (("parked", False, "session busy"), ("delayed", True, "a: b")):
            await queue.nack(leases[name], delay_seconds=600, counted=counted, reason=reason)

        found = {
            name: await self.looked(queue, name) for name in ("parked", "delayed", "scheduled")
        }
        told = {name: (one.state, one.note, one.deliveries) for name, one in found.items()}
        assert told == {
            "parked": ("parked", "session busy", 0),
            "delayed": ("delayed", "a: b", 1),
            "scheduled": ("delayed", "", 0),
        }
        for name, seconds in (("parked", 600), ("delayed", 600), ("scheduled", 3600)):
            until = found[name].until
            assert until is not None and abs(until - now - seconds) < CLOSE
            assert (found[name].owner, found[name].since) == ("", None)

    async def test_q34_handed_back_and_settled(self, queue: Queue) -> None:
        """What was said last stays while it waits again; what is settled has nothing more to say."""
        for name in ("again", "done", "dead"):
            await queue.put(Ticket(id=name, body=b"1"))
        leases = {lease.id: lease for lease in await self.take(queue, limit=3)}
        await queue.nack(leases["again"], delay_seconds=0, counted=False, reason="drain")
        await queue.ack(leases["done"])
        await queue.dead_letter(leases["dead"], reason="bad: worse")

        found = {name: await self.looked(queue, name) for name in leases}
        assert {name: (one.state, one.note) for name, one in found.items()} == {
            "again": ("ready", "drain"),
            "done": ("done", ""),
            "dead": ("dead", "bad: worse"),
        }
        assert await queue.place("unknown") is None
        assert await queue.sibling("other").place("again") is None

"""The first half of the contract of a queue: putting, leasing, settling, giving up (Q1–Q11, Q28, Q32, Q33)."""

from __future__ import annotations

import asyncio
import time

import pytest

from worker.awaiting import happened
from worker.core.errors import LeaseLost
from worker.queues.port import Lease, Queue, Ticket
from worker.testing.blocked import call_beside_blocked_loop
from worker.testing.harness import PATIENCE_SECONDS, QueueHarness
from worker.testing.queue_case import QueueCase


class QueueLeases(QueueCase):
    """What happens to one task between its put and its settlement."""

    async def test_q01_what_is_put_is_claimed(self, queue: Queue) -> None:
        """Id, bytes and priority come out as they went in, and so does the time of the put."""
        body = bytes(range(256)) * 4
        assert await queue.put(Ticket(id="käse-任务", body=body, priority=-7)) is True

        lease = await self.take_one(queue)

        assert (lease.id, lease.body, lease.priority) == ("käse-任务", body, -7)
        assert (lease.deliveries, lease.handings) == (1, 1)
        assert lease.enqueued_at > 0
        left = lease.expires_at - time.monotonic()
        assert self.lease_seconds - 5 < left <= self.lease_seconds

    async def test_q02_a_claim_hides(self, queue: Queue, harness: QueueHarness) -> None:
        """A claimed task is not handed out again while its lease runs, to anybody."""
        other = await self.open(harness)
        await queue.put(Ticket(id="a", body=b"1"))
        await self.take_one(queue)
        await harness.pass_time(self.lease_seconds * 0.6)

        assert await self.take(queue) == []
        assert await self.take(other, owner="w2") == []

    async def test_q03_extend_counts_from_now(self, queue: Queue, harness: QueueHarness) -> None:
        """A lease extended in time outlives its first end, by its length from the extension."""
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)
        await harness.pass_time(self.lease_seconds * 0.6)
        await queue.extend(lease, lease_seconds=self.lease_seconds)
        await harness.pass_time(self.lease_seconds * 0.6)

        assert await self.take(queue) == []
        await harness.pass_time(self.lease_seconds * 0.6)
        assert (await self.take_one(queue)).deliveries == 2

    async def test_q33_extended_from_another_thread(
        self, queue: Queue, harness: QueueHarness
    ) -> None:
        """Leases are kept while the loop is blocked; a lost one is told, and its owner not hurt."""
        await queue.put(Ticket(id="stale", body=b"1"))
        stale = await self.take_one(queue)
        await harness.pass_time(self.lease_seconds * 1.1)
        owner = await self.take_one(queue, owner="w2")
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)
        for _ in range(3):
            await harness.pass_time(self.lease_seconds * 0.6)
            lost = call_beside_blocked_loop(
                lambda: queue.extend_many([lease, stale, owner], lease_seconds=self.lease_seconds)
            )
            assert [one.token for one in lost] == [stale.token]

        assert await self.take(queue) == []
        await queue.ack(lease)
        await queue.ack(owner)

    async def test_q04_expiry(self, queue: Queue, harness: QueueHarness) -> None:
        """After the lease the task can be claimed again, with one delivery more."""
        await queue.put(Ticket(id="a", body=b"1"))
        first = await self.take_one(queue)
        await harness.pass_time(self.lease_seconds * 1.1)

        second = await self.take_one(queue, owner="w2")

        assert (second.id, second.body) == ("a", b"1")
        assert (second.deliveries, second.handings) == (2, 2)
        assert second.token != first.token

    async def test_q28_lapses(self, queue: Queue, harness: QueueHarness) -> None:
        """Leases that ran out are counted, and neither a hand-back nor a redrive forgets them."""
        await queue.put(Ticket(id="a", body=b"1"))
        for lapses in range(3):
            assert (await self.take_one(queue)).lapses == lapses
            await harness.pass_time(self.lease_seconds * 1.1)
        await queue.nack(await self.take_one(queue), delay_seconds=0, counted=False, reason="drain")
        lease = await self.take_one(queue)
        assert lease.lapses == 3
        await queue.dead_letter(lease, reason="x")
        await queue.redrive("a")

        assert (await self.take_one(queue)).lapses == 3

    async def test_q05_ack(self, queue: Queue, harness: QueueHarness) -> None:
        """A settled task never comes back, and settling it twice is harmless."""
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)

        await queue.ack(lease)
        await queue.ack(lease)

        await harness.pass_time(self.lease_seconds * 1.1)
        assert await self.take(queue) == []
        assert await self.take(await self.open(harness)) == []

    async def test_q06_lost_lease(self, queue: Queue, harness: QueueHarness) -> None:
        """Whoever lost the lease can neither settle nor extend, and hurts the new owner not."""
        await queue.put(Ticket(id="a", body=b"1"))
        stale = await self.take_one(queue)
        await harness.pass_time(self.lease_seconds * 1.1)
        lease = await self.take_one(queue, owner="w2")

        await self._is_over(queue, stale)
        assert await self.take(queue) == []
        assert (await queue.depth()).dead == 0
        await harness.pass_time(self.lease_seconds * 0.6)
        await queue.extend(lease, lease_seconds=self.lease_seconds)
        assert await queue.extend_many([stale], lease_seconds=1000 * self.lease_seconds) == [stale]
        await harness.pass_time(self.lease_seconds * 1.1)
        last = await self.take_one(queue, owner="w3")
        await queue.ack(last)
        with pytest.raises(LeaseLost):
            await queue.ack(lease)

    async def test_q06_a_lease_settles_once(self, queue: Queue) -> None:
        """What was handed back or given up is out of its owner's hands."""
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)
        await queue.nack(lease, delay_seconds=0, counted=False, reason="first")
        await self._is_over(queue, lease)
        assert (await queue.depth()).ready == 1
        lease = await self.take_one(queue)
        await queue.dead_letter(lease, reason="second")
        await self._is_over(queue, lease)

        assert [letter.reason for letter in await queue.dead()] == ["second"]

    async def _is_over(self, queue: Queue, lease: Lease) -> None:
        """Whatever is tried with a lease that is over changes nothing."""
        for settling in (
            queue.extend(lease, lease_seconds=1000 * self.lease_seconds),
            queue.ack(lease),
            queue.nack(lease, delay_seconds=0, counted=True, reason="stale"),
            queue.dead_letter(lease, reason="stale"),
        ):
            with pytest.raises(LeaseLost):
                await settling

    async def test_q07_nack_hides(self, queue: Queue, harness: QueueHarness) -> None:
        """A task handed back is not seen before the delay has passed, and then is, at once."""
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)
        await queue.nack(lease, delay_seconds=self.lease_seconds, counted=True, reason="later")

        await harness.pass_time(self.lease_seconds * 0.6)
        assert await self.take(queue) == []
        await harness.pass_time(self.lease_seconds * 0.6)
        again = await self.take_one(queue)
        assert (again.body, again.deliveries) == (b"1", 2)

    async def test_q08_uncounted_nack(self, queue: Queue) -> None:
        """A task handed back uncounted comes with the same delivery number and a new handing."""
        await queue.put(Ticket(id="a", body=b"1"))
        for handing in range(1, 8):  # more often than there are deliveries
            lease = await self.take_one(queue)
            assert (lease.deliveries, lease.handings) == (1, handing)
            await queue.nack(lease, delay_seconds=0, counted=False, reason="drain")

    async def test_q09_too_many_deliveries(self, harness: QueueHarness) -> None:
        """A task that was delivered to its limit is dead-lettered by the next claim."""
        queue = await self.open(harness, max_deliveries=2)
        await queue.put(Ticket(id="poison", body=b"boom"))
        for delivery in (1, 2):
            assert (await self.take_one(queue)).deliveries == delivery
            await harness.pass_time(self.lease_seconds * 1.1)
        await queue.put(Ticket(id="innocent", body=b"1"))

        assert (await self.take_one(queue)).id == "innocent"
        (letter,) = await queue.dead()
        assert (letter.id, letter.body, letter.deliveries) == ("poison", b"boom", 2)
        assert "delivered 2 times" in letter.reason

    async def test_q32_the_dead_are_told(self, harness: QueueHarness) -> None:
        """Who listens hears of what its own claims give up, at once, and of nothing else."""
        queue, other = [await self.open(harness, max_deliveries=1) for _ in range(2)]
        told: dict[str, list[str]] = {"queue": [], "other": []}
        heard = asyncio.Event()

        def hear(task_id: str) -> None:
            told["queue"].append(task_id)
            heard.set()

        queue.on_dead(hear)
        other.on_dead(told["other"].append)
        for name in ("poison", "by hand"):
            await queue.put(Ticket(id=name, body=b"1"))
            lease = await self.take_one(queue)
            if name == "by hand":
                await queue.dead_letter(lease, reason="x")
        await harness.pass_time(self.lease_seconds * 1.1)

        claim = asyncio.create_task(self.take(queue, wait_seconds=PATIENCE_SECONDS))
        assert await happened(heard, within=PATIENCE_SECONDS / 2)
        assert not claim.done()  # it goes on waiting for a task
        assert await queue.state("poison") == "dead"
        await other.put(Ticket(id="a", body=b"1"))
        assert [lease.id for lease in await claim] == ["a"]
        assert told == {"queue": ["poison"], "other": []}

    async def test_q10_dead_letters(self, queue: Queue) -> None:
        """A dead letter keeps bytes, reason and history; redriven, it starts afresh."""
        await queue.put(Ticket(id="a", body=b"\xff\x00"))
        lease = await self.take_one(queue)
        await queue.nack(lease, delay_seconds=0, counted=True, reason="model away")
        await queue.dead_letter(await self.take_one(queue), reason="bad \ud800 request")

        (letter,) = await queue.dead()
        assert (letter.id, letter.body, letter.deliveries) == ("a", b"\xff\x00", 2)
        assert letter.reason.startswith("bad ") and letter.reason.endswith(" request")
        assert letter.last_owner == "w1"
        assert any("model away" in line for line in letter.history)
        assert letter.died_at >= letter.enqueued_at > 0
        assert await self.take(queue) == []

        assert await queue.redrive("a") is True
        assert await queue.redrive("a") is False
        assert await queue.dead() == []
        again = await self.take_one(queue)
        assert (again.body, again.deliveries) == (b"\xff\x00", 1)

    async def test_q10_newest_first(self, queue: Queue, harness: QueueHarness) -> None:
        """Dead letters are listed from the newest on, as many as asked for."""
        for name in "abc":
            await queue.put(Ticket(id=name, body=b"1"))
            await queue.dead_letter(await self.take_one(queue), reason=name)
            await harness.pass_time(0.01)

        assert [letter.id for letter in await queue.dead()] == ["c", "b", "a"]
        assert [letter.id for letter in await queue.dead(limit=1)] == ["c"]

    async def test_q10_redrive_counts_afresh(self, harness: QueueHarness) -> None:
        """A task that died of too many deliveries gets all of them again when redriven."""
        queue = await self.open(harness, max_deliveries=1)
        await queue.put(Ticket(id="a", body=b"1"))
        for _ in range(2):
            lease = await self.take_one(queue)
            assert lease.deliveries == 1
            await queue.nack(lease, delay_seconds=0, counted=True, reason="x")
            assert await self.take(queue) == []
            assert await queue.redrive("a") is True

    @pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"{", b"null", b"\x00" * 100_000])
    async def test_q11_any_bytes(self, queue: Queue, body: bytes) -> None:
        """What no consumer can read still goes through the queue, and can be settled."""
        await queue.put(Ticket(id="a", body=body))

        lease = await self.take_one(queue)
        assert lease.body == body
        await queue.ack(lease)

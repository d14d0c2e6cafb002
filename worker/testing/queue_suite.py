"""The contract of a queue as tests, for any adapter.

Subclass `QueueSuite`, give it a `harness` fixture, and every numbered sentence of
`worker/queues/port.py` is run against your engine:

    class TestMyQueue(QueueSuite):
        @pytest.fixture
        async def harness(self):
            harness = MyHarness()
            yield harness
            await harness.close()

Set `duplicates = True` in a second subclass to run it all with every delivery made twice.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from worker.core.errors import QueueFull, QueueUnavailable
from worker.queues.port import AGEING_SECONDS, Depth, Queue, Ticket
from worker.testing.harness import PATIENCE_SECONDS, QueueHarness
from worker.testing.queue_case import TOGETHER, QueueCase
from worker.testing.queue_leases import QueueLeases
from worker.testing.queue_looking import QueueLooking
from worker.testing.queue_twins import QueueTwins
from worker.testing.queue_waking import QueueWaking


class QueueSuite(QueueLeases, QueueLooking, QueueWaking, QueueTwins):
    """Every sentence of the contract of a queue, as a test with its number."""

    async def test_q12_one_id_one_task(self, queue: Queue, harness: QueueHarness) -> None:
        """A known id is refused while it waits, is leased, and after it was settled."""
        if not queue.capabilities.deduplicates:
            return await self.twin_of_one_id(queue)
        assert await queue.put(Ticket(id="a", body=b"1")) is True
        assert await queue.put(Ticket(id="a", body=b"2")) is False
        lease = await self.take_one(queue)
        assert await queue.put(Ticket(id="a", body=b"3")) is False
        await queue.ack(lease)
        assert await (await self.open(harness)).put(Ticket(id="a", body=b"4")) is False

        assert lease.body == b"1"
        assert await self.take(queue) == []

    async def test_q12_racing_puts(self, queue: Queue) -> None:
        """Of twenty that put the same id at once, one is told that it did."""
        if not queue.capabilities.deduplicates:
            return await self.twin_of_racing_puts(queue)
        puts = [queue.put(Ticket(id="a", body=b"1")) for _ in range(20)]

        assert sum(await asyncio.gather(*puts)) == 1

    async def test_q13_not_before(self, queue: Queue, harness: QueueHarness) -> None:
        """A scheduled task is not claimable before its time, and is after it."""
        await queue.put(Ticket(id="now", body=b"1"))
        enqueued_at = (await self.take_one(queue)).enqueued_at
        await queue.put(
            Ticket(id="later", body=b"1", not_before=enqueued_at + self.lease_seconds * 0.5)
        )

        assert await self.take(queue) == []
        await harness.pass_time(self.lease_seconds * 0.6)
        assert (await self.take_one(queue)).id == "later"

    async def test_q14_order(self, queue: Queue) -> None:
        """Higher priority first; among equals, first in, first out."""
        for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5), ("e", -5)):
            await queue.put(Ticket(id=name, body=TOGETHER, priority=priority))

        assert [lease.id for lease in await self.take(queue, limit=3)] == ["b", "d", "a"]
        assert [lease.id for lease in await self.take(queue, limit=3)] == ["c", "e"]

    async def test_q15_depth(self, queue: Queue, harness: QueueHarness) -> None:
        """Ready, delayed, leased, parked and dead are counted apart, with their oldest ages."""
        assert await queue.depth() == Depth()
        for name in ("dead", "parked", "delayed", "leased", "done"):
            await queue.put(Ticket(id=name, body=b"1"))
        lease = {lease.id: lease for lease in await self.take(queue, limit=5)}
        for name in ("r1", "r2"):
            await queue.put(Ticket(id=name, body=b"1"))
        await queue.ack(lease["done"])
        await queue.dead_letter(lease["dead"], reason="x")
        delay = self.lease_seconds * 0.9
        await queue.nack(lease["parked"], delay_seconds=delay, counted=False, reason="x")
        await queue.nack(lease["delayed"], delay_seconds=delay, counted=True, reason="x")
        await harness.pass_time(self.lease_seconds * 0.5)

        depth = await queue.depth()
        counts = (depth.ready, depth.delayed, depth.leased, depth.parked, depth.dead)
        assert counts == (2, 1, 1, 1, 1)
        ages = [depth.oldest_ready_seconds, depth.oldest_leased_seconds]
        if not queue.capabilities.tells_oldest:  # then the lease tells since when it waited
            assert ages.pop(0) is None
            assert lease["done"].enqueued_at > 0
        for age in ages:
            assert age is not None
            assert self.lease_seconds * 0.5 <= age < self.lease_seconds * 0.5 + PATIENCE_SECONDS
        await harness.pass_time(self.lease_seconds * 0.6)
        assert (await queue.depth()).ready == 5  # what is due, and the lease that ran out

    async def test_q15_state(self, queue: Queue, harness: QueueHarness) -> None:
        """Each task can be asked where it is."""
        for name in ("dead", "parked", "delayed", "leased", "done"):
            await queue.put(Ticket(id=name, body=b"1"))
        lease = {lease.id: lease for lease in await self.take(queue, limit=5)}
        await queue.put(Ticket(id="ready", body=b"1"))
        delay = self.lease_seconds * 0.5
        await queue.ack(lease["done"])
        await queue.dead_letter(lease["dead"], reason="x")
        await queue.nack(lease["parked"], delay_seconds=delay, counted=False, reason="x")
        await queue.nack(lease["delayed"], delay_seconds=delay, counted=True, reason="x")

        for name in ("dead", "parked", "delayed", "leased", "done", "ready"):
            assert await queue.state(name) == name
        assert await queue.state("unknown") is None
        await harness.pass_time(self.lease_seconds * 1.1)
        assert [await queue.state(name) for name in ("leased", "parked")] == ["ready", "ready"]

    async def test_q29_body(self, queue: Queue, harness: QueueHarness) -> None:
        """What was put can be read for as long as the task is not settled."""
        for name in ("acked", "dead", "leased"):
            await queue.put(Ticket(id=name, body=name.encode() + b"\xff"))
        lease = {lease.id: lease for lease in await self.take(queue, limit=3)}
        for name in ("cancelled", "waiting"):
            await queue.put(Ticket(id=name, body=name.encode() + b"\xff"))
        await queue.ack(lease["acked"])
        await queue.dead_letter(lease["dead"], reason="x")
        await queue.cancel("cancelled")

        for name in ("dead", "leased", "waiting") if queue.capabilities.finds else ():
            assert await queue.body(name) == name.encode() + b"\xff"
        assert [await queue.body(name) for name in ("acked", "cancelled", "unknown")] == [None] * 3

    async def test_q16_cancelled_claims(self, queue: Queue, harness: QueueHarness) -> None:
        """However often a claim is cancelled, whenever: every task is claimed in the end."""
        names = {f"t{number}" for number in range(20)}
        for name in sorted(names):
            await queue.put(Ticket(id=name, body=b"1"))
        for turns in range(60):
            claim = asyncio.create_task(self.take(queue, limit=2, wait_seconds=1))
            for _ in range(turns % 12):
                await asyncio.sleep(0)
            claim.cancel()
            await asyncio.wait([claim])
            for lease in [] if claim.cancelled() else claim.result():
                await queue.nack(lease, delay_seconds=0, counted=False, reason="too late")
        await harness.pass_time(self.lease_seconds * 1.1)

        found: set[str] = set()
        while found < names:  # what a cancelled claim got comes back, if not at once
            leases = await self.take(queue, limit=30, wait_seconds=PATIENCE_SECONDS)
            assert leases
            found.update(lease.id for lease in leases)
        assert found == names

    async def test_q17_one_clock(self, queue: Queue, harness: QueueHarness) -> None:
        """When the engine's clock says that a lease is over, it is over for everybody."""
        other = await self.open(harness)
        await queue.put(Ticket(id="a", body=b"1"))
        await self.take_one(queue)

        assert await self.take(other, owner="w2") == []
        await harness.pass_time(self.lease_seconds * 1.1)
        assert (await self.take_one(other, owner="w2")).deliveries == 2

    async def test_q18_outage(self, queue: Queue, harness: QueueHarness) -> None:
        """An engine that is out raises QueueUnavailable; afterwards nothing is missing."""
        await queue.put(Ticket(id="a", body=TOGETHER))
        lease = await self.take_one(queue)
        await queue.put(Ticket(id="b", body=TOGETHER))
        async with harness.outage():
            for call in (
                queue.put(Ticket(id="c", body=TOGETHER)),
                self.take(queue),
                queue.ack(lease),
                queue.extend(lease, lease_seconds=self.lease_seconds),
            ):
                with pytest.raises(QueueUnavailable):
                    await call

        if queue.capabilities.extends:
            await queue.ack(lease)
        else:
            await self.twin_of_surviving_leases(queue, lease)
        assert await queue.put(Ticket(id="c", body=TOGETHER)) is True
        assert [lease.id for lease in await self.take(queue, limit=5)] == ["b", "c"]

    async def test_q19_close(self, queue: Queue, harness: QueueHarness) -> None:
        """Closing hands back what was not settled, at once and uncounted; twice is harmless."""
        for name in "abc":
            await queue.put(Ticket(id=name, body=TOGETHER))
        first, *_ = await self.take(queue, limit=2)
        await queue.ack(first)
        other = await self.open(harness)

        await queue.close()
        await queue.close()

        leases = await self.take(other, limit=5)
        assert [(lease.id, lease.deliveries) for lease in leases] == [("b", 1), ("c", 1)]

    async def test_q20_every_task_is_delivered(self, queue: Queue, harness: QueueHarness) -> None:
        """Of many tasks that many claim and settle, none is missing and none is held twice."""
        for number in range(60):
            await queue.put(Ticket(id=f"t{number}", body=b"%d" % number))
        done: list[str] = []

        async def work(owner: str) -> None:
            mine = await self.open(harness)
            while leases := await self.take(mine, owner=owner, limit=3):
                for lease in leases:
                    done.append(lease.id)
                    await mine.ack(lease)

        await asyncio.gather(*[work(f"w{number}") for number in range(4)])

        assert sorted(done) == sorted(f"t{number}" for number in range(60))

    async def test_q21_bounds_of_a_claim(self, queue: Queue) -> None:
        """A claim returns no more than asked for, and an empty one in time."""
        for name in "abc":
            await queue.put(Ticket(id=name, body=b"1"))
        assert len(await self.take(queue, limit=2)) == 2
        assert len(await self.take(queue, limit=2)) == 1

        began = time.monotonic()
        assert await self.take(queue, wait_seconds=0.3) == []
        assert 0.25 < time.monotonic() - began < 1.3

    async def test_q21_bounds_while_others_settle(
        self, queue: Queue, harness: QueueHarness
    ) -> None:
        """Nor while leases are settled at the same moment, here and in a queue beside it."""
        other = queue.sibling("results")
        await self.open(harness, name="results")  # so that the harness knows what to clear away
        for number in range(120):
            await queue.put(Ticket(id=f"t{number}", body=b"1"))
            await other.put(Ticket(id=f"r{number}", body=b"1"))
        held, beside = await self.take(queue, limit=4), await self.take(other, limit=8)
        for _ in range(10):
            claims = [self.take(queue, limit=3), self.take(other, limit=8)]
            settling = [queue.ack(lease) for lease in held] + [other.ack(each) for each in beside]
            (held, beside), _ = await asyncio.gather(
                asyncio.gather(*claims), asyncio.gather(*settling)
            )
            assert (len(held), len(beside)) == (3, 8)

    async def test_q21_a_waiting_claim_wakes(self, queue: Queue, harness: QueueHarness) -> None:
        """A claim that waits gets a task that another process puts, well before its time."""
        other = await self.open(harness)
        claim = asyncio.create_task(self.take(queue, wait_seconds=PATIENCE_SECONDS))
        await asyncio.sleep(0.05)

        began = time.monotonic()
        await other.put(Ticket(id="a", body=b"1"))
        assert [lease.id for lease in await claim] == ["a"]
        assert time.monotonic() - began < PATIENCE_SECONDS / 2

    async def test_q22_cancel(self, queue: Queue) -> None:
        """A waiting task can be removed, once; a leased or unknown one is left alone."""
        if not queue.capabilities.finds:
            return await self.twin_of_cancel(queue)
        await queue.put(Ticket(id="a", body=b"1"))
        lease = await self.take_one(queue)
        await queue.put(Ticket(id="b", body=b"1"))

        assert await queue.cancel("b") is True
        assert await queue.cancel("b") is False
        assert await queue.cancel("a") is False
        assert await queue.cancel("unknown") is False
        assert await self.take(queue) == []
        await queue.ack(lease)

    async def test_q23_extend_many(self, queue: Queue, harness: QueueHarness) -> None:
        """One heartbeat keeps every lease that is still held, and names the lost ones."""
        for name in "abc":
            await queue.put(Ticket(id=name, body=b"1"))
        leases = await self.take(queue, limit=3)
        acked = leases[1]
        await queue.ack(acked)
        await harness.pass_time(self.lease_seconds * 0.6)

        lost = await queue.extend_many(leases, lease_seconds=self.lease_seconds)

        assert [lease.id for lease in lost] == [acked.id]
        await harness.pass_time(self.lease_seconds * 0.6)
        assert await self.take(queue) == []
        assert await queue.extend_many([], lease_seconds=1) == []

    async def test_q24_names_are_apart(self, queue: Queue, harness: QueueHarness) -> None:
        """Queues of other names, opened or as a sibling, do not see each other's tasks."""
        other = queue.sibling("results")
        assert (other.name, other.system) == ("results", queue.system)
        await queue.put(Ticket(id="a", body=b"task"))
        assert await other.put(Ticket(id="a", body=b"result")) is True

        assert [lease.body for lease in await self.take(queue, limit=5)] == [b"task"]
        again = await self.open(harness, name="results")
        assert [lease.body for lease in await self.take(again, limit=5)] == [b"result"]

    async def test_q25_full(self, harness: QueueHarness) -> None:
        """A full queue refuses new ids until somebody works, and still knows the old ones."""
        queue = await self.open(harness, depth_max=3)
        for name in "abc":
            await queue.put(Ticket(id=name, body=TOGETHER))

        with pytest.raises(QueueFull):
            await queue.put(Ticket(id="d", body=TOGETHER))
        if queue.capabilities.deduplicates:
            assert await queue.put(Ticket(id="a", body=TOGETHER)) is False
        await queue.ack(await self.take_one(queue))
        assert await queue.put(Ticket(id="d", body=TOGETHER)) is True
        assert [lease.id for lease in await self.take(queue, limit=5)] == ["b", "c", "d"]

    async def test_q26_prune(self, queue: Queue, harness: QueueHarness) -> None:
        """Settled tasks are forgotten after the time asked for; no others ever are."""
        for name in ("done", "dead", "leased"):
            await queue.put(Ticket(id=name, body=b"1"))
        lease = {lease.id: lease for lease in await self.take(queue, limit=3)}
        await queue.put(Ticket(id="waiting", body=b"1"))
        await queue.ack(lease["done"])
        await queue.dead_letter(lease["dead"], reason="x")

        assert await queue.prune(older_than_seconds=self.lease_seconds * 0.5) == 0
        await harness.pass_time(self.lease_seconds * 0.6)
        known = int(queue.capabilities.deduplicates)  # else it was forgotten when it was settled
        assert await queue.prune(older_than_seconds=self.lease_seconds * 0.5) == known

        depth = await queue.depth()
        assert (depth.ready, depth.leased, depth.dead) == (1, 1, 1)
        assert await queue.put(Ticket(id="done", body=b"1")) is True
        assert await queue.put(Ticket(id="dead", body=b"1")) is not bool(known)


class QueueAgeing(QueueCase):
    """What can only be tried where the engine's clock can jump: add it beside the QueueSuite."""

    async def test_q14_no_starvation(self, queue: Queue, harness: QueueHarness) -> None:
        """A task of low priority that has waited long goes before fresh ones of higher."""
        await queue.put(Ticket(id="old", body=TOGETHER, priority=-10))
        await harness.pass_time(AGEING_SECONDS * 19)
        await queue.put(Ticket(id="fresh-1", body=TOGETHER, priority=10))
        first = await self.take_one(queue)
        assert first.id == "fresh-1"
        await queue.ack(first)
        await harness.pass_time(AGEING_SECONDS * 2)
        await queue.put(Ticket(id="fresh-2", body=TOGETHER, priority=10))

        assert (await self.take_one(queue)).id == "old"

"""What a task still needs is not forgotten, however short the retention."""

from __future__ import annotations

import pytest

from worker.consuming.housekeeping import Housekeeper
from worker.core.events import NoteAdded
from worker.core.task import Result
from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.queues.port import Ticket
from worker.store.memory import MemoryBase, MemoryStore
from worker.telemetry.tell import Telemetry
from worker.testing.harness import FakeClock


class Site:
    """A queue, a journal and the housekeeper of both, on one clock."""

    def __init__(self):
        self.clock = FakeClock()
        self.queue = MemoryQueue(MemoryBroker(clock=self.clock))
        self.store = MemoryStore(MemoryBase(clock=self.clock))
        self.keeper = Housekeeper(
            self.queue,
            self.store,
            Telemetry(),
            retention_seconds=0.0,
            prune_seconds=1.0,
            worker="w2",
            clock=self.clock,
            wall=self.clock,
        )

    async def finish_one(self, task_id="t"):
        """Claim a task and end its run in the journal alone, as if killed right after."""
        await self.queue.put(Ticket(id=task_id, body=b"hello"))
        (lease,) = await self.queue.claim(owner="w1", lease_seconds=30, wait_seconds=0)
        run = (await self.store.open(task_id, owner="w1", lease_seconds=30)).run
        await self.store.finish(run, [NoteAdded(1.0, "test", "x")], Result(task_id, "completed"))
        return lease

    async def sweep(self, seconds=5.0):
        """Let time pass and the housekeeper do what is due."""
        self.clock.now += seconds
        await self.keeper.once()

    async def remembers(self, task_id="t"):
        """Whether the journal still has the run."""
        return await self.store.view(task_id) is not None


@pytest.fixture
def site():
    """One site for each test."""
    return Site()


@pytest.mark.parametrize("seconds", [5.0, 100.0])
async def test_a_finished_run_outlives_its_lease(site, seconds):
    """A worker that died between journal and queue leaves a journal that the next one finds."""
    await site.finish_one()

    await site.sweep(seconds)  # still leased, or run out and ready to be delivered again

    opened = await site.store.open("t", owner="w2", lease_seconds=30)
    assert opened.result is not None


async def test_a_dead_letter_keeps_its_journal(site):
    """What a dead letter did before it died is known when it is redriven."""
    lease = await site.finish_one()
    await site.queue.dead_letter(lease, reason="test")

    await site.sweep(1e6)
    await site.store.reopen("t")
    await site.queue.redrive("t")
    await site.sweep(1e6)

    assert len((await site.store.open("t", owner="w2", lease_seconds=30)).events) == 1


async def test_a_settled_task_is_forgotten_at_once(site):
    """With no retention nothing of a settled task is left after one sweep."""
    for task_id in ("a", "b"):
        await site.queue.ack(await site.finish_one(task_id))

    await site.sweep()

    assert [await site.remembers(name) for name in ("a", "b")] == [False, False]
    assert await site.queue.state("a") is None


async def test_an_outage_of_the_queue_forgets_nothing(site):
    """While the queue cannot say what it has, every journal stays."""
    await site.queue.ack(await site.finish_one())
    await site.keeper.once()
    site.queue.broker.outage = True

    await site.sweep()

    assert await site.remembers()

"""What is told of a queue that is split: each shard under its name, and one that nobody reads."""

from __future__ import annotations

from tests.running.conftest import Ears
from worker.consuming.housekeeping import UNREAD_SECONDS, Housekeeper
from worker.core.sharding import Sharding, shard_name
from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.queues.port import Ticket
from worker.queues.sharded import ShardedQueue
from worker.queues.told import TelledQueue
from worker.store.memory import MemoryBase, MemoryStore
from worker.telemetry.signals import QueueFailed, QueueMeasured
from worker.telemetry.tell import Telemetry
from worker.testing.harness import FakeClock


class Site:
    """A split queue, a shard on each broker, and the housekeeper of a worker that reads a part."""

    def __init__(self, only=()):
        self.clock, self.ears = FakeClock(), Ears()
        self.brokers = [MemoryBroker(clock=self.clock) for _ in range(3)]
        shards = {
            n: MemoryQueue(b, name=shard_name("tasks", n)) for n, b in enumerate(self.brokers)
        }
        telemetry = Telemetry([self.ears])
        queue = ShardedQueue(shards, name="tasks", sharding=Sharding(3, only=only))
        self.queue = TelledQueue(queue, telemetry)
        self.keeper = Housekeeper(
            self.queue,
            MemoryStore(MemoryBase(clock=self.clock)),
            telemetry,
            retention_seconds=3600,
            prune_seconds=3600,
            worker="w",
            clock=self.clock,
            wall=self.clock,
            parts=self.queue.parts,
            others=self.queue.others,
        )

    async def told(self, kind=QueueMeasured):
        """What a round of the keeper says, by the queue's name."""
        self.ears.heard.clear()
        await self.keeper.once()
        return {signal.queue: signal for signal in self.ears.of(kind)}


async def test_each_shard_that_is_read_is_measured_by_its_name():
    """And the keeper goes by all of them."""
    site = Site()
    for number in range(30):
        await site.queue.put(Ticket(f"t{number}", b"?"))

    told = await site.told()

    assert sorted(told) == ["tasks", "tasks-shard-1", "tasks-shard-2"]
    assert sum(signal.ready for signal in told.values()) == 30
    assert min(signal.ready for signal in told.values()) > 0
    assert site.keeper.depth.ready == 30


async def test_a_shard_that_nobody_reads_is_told():
    """Once tasks wait there and none is in work; and from then on until it is empty."""
    site = Site(only=(0, 1))
    assert sorted(await site.told()) == ["tasks", "tasks-shard-1"]
    lost = MemoryQueue(site.brokers[2], name="tasks-shard-2")
    await lost.put(Ticket("lost", b"?"))
    site.clock.now += UNREAD_SECONDS

    assert (await site.told())["tasks-shard-2"].ready == 1
    (lease,) = await lost.claim(owner="w2", lease_seconds=600, wait_seconds=0)
    await lost.ack(lease)
    site.clock.now += UNREAD_SECONDS
    assert (await site.told())["tasks-shard-2"].ready == 0


async def test_a_shard_that_others_read_is_left_to_them():
    """It has tasks in work: two who measure it would disagree for a moment."""
    site = Site(only=(0, 1))
    read = MemoryQueue(site.brokers[2], name="tasks-shard-2")
    for name in "ab":
        await read.put(Ticket(name, b"?"))
    await read.claim(owner="w2", lease_seconds=600, wait_seconds=0)

    assert sorted(await site.told()) == ["tasks", "tasks-shard-1"]


async def test_a_shard_whose_server_is_away_is_told_by_its_name():
    """The others are measured all the same."""
    site = Site()
    site.brokers[1].outage = True

    assert sorted(await site.told()) == ["tasks", "tasks-shard-2"]
    assert "tasks-shard-1" in await site.told(QueueFailed)

"""A memory queue that closes hands back what is its own, and nothing else."""

from __future__ import annotations

from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.queues.port import Ticket
from worker.testing.harness import FakeClock


async def test_a_lapsed_lease_of_a_closed_queue_is_not_taken_from_its_next_owner():
    """The next owner has the task, and when it dies as well, a third one gets it."""
    clock = FakeClock()
    broker = MemoryBroker(clock=clock)
    first, second, third = (MemoryQueue(broker) for _ in range(3))
    await first.put(Ticket("t", b"text"))
    await first.claim(owner="first", lease_seconds=5, wait_seconds=0)
    clock.now += 6
    await second.claim(owner="second", lease_seconds=5, wait_seconds=0)
    await first.close()

    assert await third.claim(owner="third", lease_seconds=5, wait_seconds=0) == []

    clock.now += 6
    leases = await third.claim(owner="third", lease_seconds=5, wait_seconds=0)

    assert [lease.id for lease in leases] == ["t"]

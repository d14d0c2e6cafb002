"""The memory queue keeps the contract of a queue: a fake is an adapter, or does not exist."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.testing.harness import FakeClock
from worker.testing.queue_suite import QueueAgeing, QueueSuite


class MemoryHarness:
    """One broker with a clock that the tests move."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.broker = MemoryBroker(clock=self.clock)

    async def open(
        self, *, name: str = "tasks", max_deliveries: int = 5, depth_max: int | None = None
    ) -> MemoryQueue:
        """Open a queue on the broker."""
        return MemoryQueue(
            self.broker, name=name, max_deliveries=max_deliveries, depth_max=depth_max
        )

    async def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.now += seconds
        self.broker.clock_moved()

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Put the broker out of order."""
        self.broker.outage = True
        yield
        self.broker.outage = False


class TestMemoryQueue(QueueSuite, QueueAgeing):
    """The memory queue."""

    @pytest.fixture
    def harness(self) -> MemoryHarness:
        """An empty broker."""
        return MemoryHarness()


class TestMemoryQueueTwice(TestMemoryQueue):
    """The memory queue, delivering everything twice."""

    duplicates = True

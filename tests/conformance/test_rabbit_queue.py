"""The RabbitMQ queue keeps the contract of a queue, on a real server, but for what it cannot do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.conformance.atserver import BehindProxy
from tests.servers.proxy import Proxy
from worker.queues.port import Depth
from worker.queues.rabbit_address import address_of
from worker.queues.rabbit_link import RabbitLink
from worker.queues.rabbitmq import RabbitQueue
from worker.testing.queue_suite import QueueSuite

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


class RabbitHarness(BehindProxy):
    """A clock of leases that the tests move; every queue has its own connection.

    Quorum queues are costly to make: all tests use the same, and leave them empty.
    """

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(proxy)
        self.address = address_of(f"amqp://guest:guest@127.0.0.1:{proxy.port}/")

    async def open(
        self, *, name: str = "tasks", max_deliveries: int = 5, depth_max: int | None = None
    ) -> RabbitQueue:
        """Open a queue as another process would."""
        link = RabbitLink(self.address)
        queue = RabbitQueue(
            link,
            name=name,
            max_deliveries=max_deliveries,
            depth_max=depth_max,
            shift=lambda: self.moved,
        )
        self.opened.append(queue)
        return queue

    async def pass_time(self, seconds: float) -> None:
        """Move the clock of leases; that of the server cannot be moved, so what is hidden takes time."""
        depth = sum([await queue.depth() for queue in self.opened], Depth())
        if depth.delayed or depth.parked:
            await asyncio.sleep(seconds)
        else:
            self.moved += seconds
        for queue in self.opened:
            await queue.look_at_clock()

    async def close(self) -> None:
        """Close what was opened, and leave nothing behind."""
        names = {queue.name for queue in self.opened}
        await super().close()
        for name in names:
            last = await self.open(name=name)
            await last.empty()
            await last.close()


class TestRabbitQueue(QueueSuite):
    """The RabbitMQ queue."""

    # What the server hides takes real time: so long that a busy machine does not matter.
    lease_seconds = 4.5

    @pytest.fixture
    async def harness(self, rabbit_proxy: Proxy) -> AsyncIterator[RabbitHarness]:
        """An empty part of the server."""
        harness = RabbitHarness(rabbit_proxy)
        yield harness
        await harness.close()


class TestRabbitQueueTwice(TestRabbitQueue):
    """The RabbitMQ queue, delivering everything twice."""

    duplicates = True

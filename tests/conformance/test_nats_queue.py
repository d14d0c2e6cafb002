"""The NATS queue keeps the contract of a queue, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.atserver import BehindProxy
from tests.servers.natsserver import own_url
from tests.servers.proxy import Proxy
from worker.queues.nats import NatsQueue
from worker.queues.nats_address import address_of
from worker.queues.nats_link import NatsLink
from worker.testing.queue_suite import QueueAgeing, QueueSuite

pytestmark = pytest.mark.system


class NatsHarness(BehindProxy):
    """A prefix, and a clock that the tests move; every queue has a connection of its own."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(proxy)
        self.address = address_of(own_url(proxy.port))

    async def open(
        self, *, name: str = "tasks", max_deliveries: int = 5, depth_max: int | None = None
    ) -> NatsQueue:
        """Open a queue as another process would."""
        queue = NatsQueue(
            NatsLink(self.address),
            name=name,
            max_deliveries=max_deliveries,
            depth_max=depth_max,
            shift=lambda: self.moved,
        )
        self.opened.append(queue)
        return queue


class TestNatsQueue(QueueSuite, QueueAgeing):
    """The NATS queue."""

    @pytest.fixture
    async def harness(self, nats_proxy: Proxy) -> AsyncIterator[NatsHarness]:
        """An empty part of the server."""
        harness = NatsHarness(nats_proxy)
        yield harness
        await harness.close()


class TestNatsQueueTwice(TestNatsQueue):
    """The NATS queue, delivering everything twice."""

    duplicates = True

"""The Redis queue keeps the contract of a queue, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.oneserver import OneServer
from tests.servers.proxy import Proxy
from worker.core.errors import QueueUnavailable
from worker.queues.redis import RedisQueue
from worker.redislink import RedisLink
from worker.testing.queue_suite import QueueAgeing, QueueSuite

pytestmark = pytest.mark.system


class RedisHarness(OneServer):
    """A prefix; every queue has connections of its own."""

    async def open(
        self, *, name: str = "tasks", max_deliveries: int = 5, depth_max: int | None = None
    ) -> RedisQueue:
        """Open a queue as another process would."""
        link = RedisLink(self.settings, unavailable=QueueUnavailable)
        queue = RedisQueue(link, name=name, max_deliveries=max_deliveries, depth_max=depth_max)
        self.opened.append(queue)
        return queue


class TestRedisQueue(QueueSuite, QueueAgeing):
    """The Redis queue."""

    @pytest.fixture
    async def harness(self, redis_proxy: Proxy) -> AsyncIterator[RedisHarness]:
        """An empty part of the server."""
        harness = RedisHarness(redis_proxy)
        yield harness
        await harness.close()


class TestRedisQueueTwice(TestRedisQueue):
    """The Redis queue, delivering everything twice."""

    duplicates = True

"""The PostgreSQL queue keeps the contract of a queue, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.onecluster import OneCluster
from tests.servers.postgresserver import PostgresServer
from worker.core.errors import QueueUnavailable
from worker.postgres.link import PostgresLink
from worker.queues.postgres import PostgresQueue
from worker.queues.postgres_tables import QUEUE
from worker.testing.queue_suite import QueueAgeing, QueueSuite

pytestmark = pytest.mark.system


class PostgresHarness(OneCluster):
    """A schema; every queue has connections of its own."""

    async def open(
        self, *, name: str = "tasks", max_deliveries: int = 5, depth_max: int | None = None
    ) -> PostgresQueue:
        """Open a queue as another process would."""
        link = PostgresLink(self.settings, part=QUEUE, unavailable=QueueUnavailable)
        queue = PostgresQueue(link, name=name, max_deliveries=max_deliveries, depth_max=depth_max)
        self.opened.append(queue)
        return queue


class TestPostgresQueue(QueueSuite, QueueAgeing):
    """The PostgreSQL queue."""

    @pytest.fixture
    async def harness(self, postgres: PostgresServer) -> AsyncIterator[PostgresHarness]:
        """An empty part of the server."""
        harness = PostgresHarness(postgres)
        yield harness
        await harness.close()


class TestPostgresQueueTwice(TestPostgresQueue):
    """The PostgreSQL queue, delivering everything twice."""

    duplicates = True

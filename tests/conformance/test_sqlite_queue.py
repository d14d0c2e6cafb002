"""The SQLite queue keeps the contract of a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.onefile import OneFile
from worker.queues.sqlite import SqliteQueue
from worker.queues.sqlite_tables import QUEUE
from worker.sqlitefile import SqliteFile
from worker.testing.queue_suite import QueueAgeing, QueueSuite


class SqliteHarness(OneFile):
    """One file; every queue has connections of its own."""

    async def open(
        self, *, name: str = "tasks", max_deliveries: int = 5, depth_max: int | None = None
    ) -> SqliteQueue:
        """Open a queue as another process would."""
        queue = SqliteQueue(
            SqliteFile(self.settings, parts=[QUEUE]),
            name=name,
            max_deliveries=max_deliveries,
            depth_max=depth_max,
            clock=self.clock,
        )
        self.opened.append(queue)
        return queue


class TestSqliteQueue(QueueSuite, QueueAgeing):
    """The SQLite queue."""

    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[SqliteHarness]:
        """An empty file."""
        harness = SqliteHarness(tmp_path)
        yield harness
        await harness.close()


class TestSqliteQueueTwice(TestSqliteQueue):
    """The SQLite queue, delivering everything twice."""

    duplicates = True

"""The SQLite queue keeps the contract of a queue."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from worker.queues.sqlite import SqliteQueue
from worker.queues.sqlite_tables import QUEUE
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import FileSettings
from worker.testing.harness import FakeClock
from worker.testing.queue_suite import QueueAgeing, QueueSuite


class SqliteHarness:
    """One file with a clock that the tests move; every queue has connections of its own."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        # Nothing here tests a loss of power, so nothing waits for the disk.
        self.settings = FileSettings(str(folder / "queue.db"), synchronous="off", busy_seconds=0.2)
        self.opened: list[SqliteQueue] = []

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

    async def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.now += seconds

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Hold the write lock for longer than anybody waits for it."""
        rude = sqlite3.connect(self.settings.path, isolation_level=None)
        rude.execute("begin immediate")
        yield
        rude.execute("rollback")
        rude.close()

    async def close(self) -> None:
        """Close every queue."""
        for queue in self.opened:
            await queue.close()


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

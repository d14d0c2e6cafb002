"""A SQLite file for the suites: a clock that the tests move, an outage, and what to close."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from worker.sqliteopen import FileSettings
from worker.testing.harness import FakeClock


class OneFile:
    """What the harnesses of queue and store share; whatever they open has its own connections."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        # Nothing here tests a loss of power, so nothing waits for the disk.
        self.settings = FileSettings(str(folder / "file.db"), synchronous="off", busy_seconds=0.2)
        self.opened: list[Any] = []

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
        """Close whatever was opened."""
        for each in self.opened:
            await each.close()

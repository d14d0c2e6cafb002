"""A queue and a store in one SQLite file, for tests of that file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from worker.queues.sqlite import SqliteQueue
from worker.queues.sqlite_tables import QUEUE
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import FileSettings
from worker.store.sqlite import SqliteStore
from worker.store.sqlite_tables import STORE

PARTS = [QUEUE, STORE]


class Rig:
    """A queue and a store in one file, as `open_queue` and `open_store` share it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = str(folder / "tasks.db")
        self.file = SqliteFile(
            FileSettings(self.path, **({"synchronous": "off"} | settings)), parts=PARTS
        )
        self.queue = SqliteQueue(self.file)
        self.store = SqliteStore(self.file.again())

    async def close(self) -> None:
        """Close both."""
        await self.queue.close()
        await self.store.close()

    def wal_bytes(self) -> int:
        """The size of the write-ahead log."""
        return os.stat(self.path + "-wal").st_size

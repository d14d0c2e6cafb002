"""The last good values in the SQLite store: at hand at once, in the file within a second."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

from worker.sqlitefile import SqliteFile
from worker.store import sqlite_statements as sql
from worker.store.port import Remembered
from worker.store.sqlite_rows import ours, readable

LAST_GOOD_MAX = 10_000
FLUSH_SECONDS = 1.0  # how long a last good value may be in memory only


class LastGoodTable:
    """Every live read of a tool comes by here: it must cost neither a commit nor a thread.

    Beyond `values_max` the values that were stored longest ago are forgotten.
    """

    def __init__(self, file: SqliteFile, *, values_max: int = LAST_GOOD_MAX) -> None:
        self.values_max = values_max
        self._file = file
        self._fresh: dict[str, Remembered] = {}
        self._flushing: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"LastGoodTable({len(self._fresh)} not in the file yet)"

    def remember(self, key: str, value: str, at: float) -> None:
        """Keep a value, and write it soon."""
        self._fresh[readable(key)] = Remembered(value, at)
        if self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_later(FLUSH_SECONDS, self._begin_flush)

    async def recall(self, key: str) -> Remembered | None:
        """The value, however old."""
        key = readable(key)
        if key in self._fresh:
            return self._fresh[key]
        reading = self._file.read(lambda c: c.execute(sql.RECALL, (key,)).fetchall())
        rows = await ours(reading)
        return Remembered(*rows[0]) if rows else None

    async def flush(self) -> None:
        """Write what was remembered, and wait until it is written or has failed."""
        if self._flushing is not None:
            self._flushing.cancel()
        if (flushed := self._begin_flush()) is not None:
            await asyncio.wait([flushed])

    def _begin_flush(self) -> asyncio.Future[Any] | None:
        """Write what was remembered since the last time; it is at hand until it is written."""
        self._flushing = None
        if not self._fresh:
            return None
        writing = dict(self._fresh)

        def settled(done: asyncio.Future[Any]) -> None:
            if not done.cancelled():
                done.exception()  # a help that may be lost, not a fact
            for key, remembered in writing.items():
                if self._fresh.get(key) is remembered:
                    del self._fresh[key]

        rows = [(key, readable(kept.value), kept.at) for key, kept in writing.items()]
        flushed = self._file.write(self._remember, rows, synced=False)
        flushed.add_done_callback(settled)
        return flushed

    def _remember(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        for rows in wishes:
            connection.executemany(sql.REMEMBER, rows)
        connection.execute(sql.FORGET_OLDEST, (self.values_max,))
        return [None] * len(wishes)

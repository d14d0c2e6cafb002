"""The last good values in the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from worker.sqlitefile import SqliteFile
from worker.store import sqlite_statements as sql
from worker.store.port import Remembered
from worker.store.rows import readable
from worker.store.sqlite_rows import ours
from worker.store.unwritten import LAST_GOOD_MAX, Row, Unwritten


class LastGoodTable:
    """Beyond `values_max` the values that were stored longest ago are forgotten."""

    def __init__(self, file: SqliteFile, *, values_max: int = LAST_GOOD_MAX) -> None:
        self.values_max = values_max
        self._file = file
        self._unwritten = Unwritten(self._write)

    def __repr__(self) -> str:
        return f"LastGoodTable({len(self._unwritten)} not in the file yet)"

    def remember(self, key: str, value: str, at: float) -> None:
        """Keep a value, and write it soon."""
        self._unwritten.remember(key, value, at)

    async def recall(self, key: str) -> Remembered | None:
        """The value, however old."""
        key = readable(key)
        if (found := self._unwritten.recall(key)) is not None:
            return found
        reading = self._file.read(lambda c: c.execute(sql.RECALL, (key,)).fetchall())
        rows = await ours(reading)
        return Remembered(*rows[0]) if rows else None

    async def flush(self) -> None:
        """Write what was remembered, and wait until it is written or has failed."""
        await self._unwritten.flush()

    async def _write(self, rows: Sequence[Row]) -> None:
        await self._file.write(self._remember, rows, synced=False)

    def _remember(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        for rows in wishes:
            connection.executemany(sql.REMEMBER, rows)
        connection.execute(sql.FORGET_OLDEST, (self.values_max,))
        return [None] * len(wishes)

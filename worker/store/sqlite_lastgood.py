"""The last good values in the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from worker.sqlitefile import SqliteFile
from worker.store import sqlite_statements as sql
from worker.store.lastgood import LAST_GOOD_MAX, Row
from worker.store.port import Remembered
from worker.store.sqlite_rows import ours


class LastGoodTable:
    """The values in their table; nothing is synced."""

    def __init__(self, file: SqliteFile, *, values_max: int = LAST_GOOD_MAX) -> None:
        self.values_max = values_max
        self._file = file

    async def read(self, key: str) -> Remembered | None:
        """The value of a key, however old."""
        rows = await ours(self._file.read(lambda c: c.execute(sql.RECALL, (key,)).fetchall()))
        return Remembered(*rows[0]) if rows else None

    async def write(self, rows: Sequence[Row]) -> None:
        """Store some values in one go."""
        await self._file.write(self._remember, rows, synced=False)

    def _remember(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        for rows in wishes:
            connection.executemany(sql.REMEMBER, rows)
        connection.execute(sql.FORGET_OLDEST, (self.values_max,))
        return [None] * len(wishes)

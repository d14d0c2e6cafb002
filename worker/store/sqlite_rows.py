"""Between the SQLite store and its rows: what is read in one go, and errors in our words."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable
from typing import Any, TypeVar

from worker.core.errors import StoreUnavailable
from worker.store import sqlite_statements as sql
from worker.store.rows import EVENTS_MAX

T = TypeVar("T")


def read_view(
    connection: sqlite3.Connection, task_id: str, after_seq: int, now: float
) -> tuple[Any, list[Any]] | None:
    """The row of a run and its batches after a number, in one go; for `view_of`."""
    row = connection.execute(sql.VIEW, {"id": task_id, "now": now}).fetchone()
    if row is None:
        return None
    after = min(max(after_seq, -1) + 1, EVENTS_MAX)
    batches = connection.execute(sql.EVENTS_AFTER, {"run": row[-1], "after": after})
    return row, batches.fetchall()


async def ours(outcome: Awaitable[T]) -> T:
    """Wait for the file, its errors as ours."""
    try:
        return await outcome
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise StoreUnavailable("the disk or the file is full; nothing was written") from error
        raise StoreUnavailable(f"the store's file cannot be used: {error}") from error

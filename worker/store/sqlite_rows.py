"""Between the SQLite store and its rows: what they show, and errors in our words."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable
from typing import Any, TypeVar

from worker.core.errors import LeaseLost, StoreUnavailable
from worker.store import codec
from worker.store import sqlite_statements as sql
from worker.store.port import RunView

T = TypeVar("T")
EVENTS_MAX = (1 << 24) - 1  # what fits into the number of an event


def read_view(
    connection: sqlite3.Connection, task_id: str, after_seq: int
) -> tuple[Any, list[Any]] | None:
    """The row of a run and its batches after a number, in one go; for `view_of`."""
    row = connection.execute(sql.VIEW, (task_id,)).fetchone()
    if row is None:
        return None
    after = min(max(after_seq, -1) + 1, EVENTS_MAX)
    batches = connection.execute(sql.EVENTS_AFTER, {"run": row[-1], "after": after})
    return row, batches.fetchall()


def view_of(row: Any, batches: list[Any], after_seq: int) -> RunView:
    """A run as operators see it, from its row and its batches of events."""
    run_id, state, epoch, owner, created_at, updated_at, result, redrives, _ = row
    events = [
        {"seq": first + place, **envelope}
        for first, body in batches
        for place, envelope in enumerate(codec.load(body))
        if first + place > after_seq
    ]
    return RunView(
        id=run_id,
        state=state,
        epoch=epoch,
        owner=owner,
        created_at=created_at,
        updated_at=updated_at,
        events=tuple(events),
        result=None if result is None else codec.decode_result(result),
        redrives=redrives,
    )


def readable(text: str) -> str:
    """The text as SQLite takes it: without lone surrogates, which must not cost a write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def lost(run_id: str, epoch: int) -> LeaseLost:
    """What a write of an older owner meets."""
    return LeaseLost(f"epoch {epoch} of run {run_id} is over")


async def ours(outcome: Awaitable[T]) -> T:
    """Wait for the file, its errors as ours."""
    try:
        return await outcome
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise StoreUnavailable("the disk or the file is full; nothing was written") from error
        raise StoreUnavailable(f"the store's file cannot be used: {error}") from error

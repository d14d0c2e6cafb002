"""Looking at a long run again costs what is new, not the run."""

from __future__ import annotations

import sqlite3

from worker.core.events import NoteAdded
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import FileSettings
from worker.store.sqlite import SqliteStore
from worker.store.sqlite_rows import read_view
from worker.store.sqlite_tables import STORE


def work_of(connection: sqlite3.Connection, after_seq: int) -> tuple[int, int]:
    """The instructions that SQLite carries out for a view, and the batches that it returns."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    found = read_view(connection, "t", after_seq, 0.0)
    connection.set_progress_handler(None, 0)
    assert found is not None
    return steps, len(found[1])


async def test_a_poll_does_not_grow_with_the_run(tmp_path):
    """After 40 events or 4,000, the last three are found with the same work."""
    path = str(tmp_path / "store.db")
    file = SqliteFile(FileSettings(path, synchronous="off"), parts=[STORE])
    store, costs = SqliteStore(file), []
    run = (await store.open("t", owner="w", lease_seconds=60)).run
    for total in (40, 4_000):
        while run.next_seq < total:
            size = min(100, total - run.next_seq - 4)
            batch = [NoteAdded(1.0, "test", "x" * 50)] * max(1, size)
            await store.append(run, batch)
        connection = sqlite3.connect(path)
        costs.append([work_of(connection, after) for after in (total - 4, total - 1, 2**53)])
        connection.close()
    await store.close()

    assert costs[0] == costs[1]
    assert [batches for _, batches in costs[1]] == [3, 0, 0]

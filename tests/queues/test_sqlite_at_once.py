"""Small writes that the caller's thread does at once, and which writes wait for the disk."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.queues.sqliterig import Rig
from worker import sqlitefile

LEVELS = {"off": 0, "normal": 1, "full": 2, "extra": 3}


def note(connection: sqlite3.Connection, arguments: list[Any]) -> list[Any]:
    """Tell for each argument in which thread it was, and how the commit will be synced."""
    level = connection.execute("pragma synchronous").fetchone()[0]
    return [(threading.current_thread().name, level) for _ in arguments]


def put_row(connection: sqlite3.Connection, names: list[str]) -> list[Any]:
    """Put bare rows."""
    return [
        connection.execute("insert into task (id, queue, payload) values (?, 'q', 'x')", (name,))
        for name in names
    ]


async def at_once(rig: Rig, work: Any = note, argument: Any = None) -> Any:
    """Ask for a small write that need not be synced."""
    return await rig.file.write(work, argument, synced=False, at_once=True)


def rows(rig: Rig) -> int:
    """What another connection sees."""
    with sqlite3.connect(rig.path) as connection:
        (count,) = connection.execute("select count(*) from task").fetchone()
    connection.close()
    return int(count)


async def test_a_small_write_is_over_when_it_returns(rig: Rig) -> None:
    """Its future is done, and other connections see it, without a turn of the event loop."""
    writing = rig.file.write(put_row, "a", synced=False, at_once=True)

    assert writing.done()
    assert rows(rig) == 1
    assert (await at_once(rig))[0] == "MainThread"


async def test_what_fails_at_once_is_undone(rig: Rig) -> None:
    """Its error is the caller's, nothing of it is written, and the next write works."""

    def fail(connection: sqlite3.Connection, arguments: list[Any]) -> list[Any]:
        put_row(connection, ["a"])
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await at_once(rig, fail)
    assert rows(rig) == 0
    await at_once(rig, put_row, "b")
    assert rows(rig) == 1


@pytest.mark.parametrize("opened", ["off", "normal", "full", "extra"])
async def test_a_commit_waits_for_the_disk_where_a_write_asks_for_it(
    tmp_path: Path, opened: str
) -> None:
    """Synced writes have the level that the file is opened with, others at most `normal`."""
    rig = Rig(tmp_path, synchronous=opened)
    own, relaxed = LEVELS[opened], min(LEVELS[opened], LEVELS["normal"])
    levels = []
    for _ in range(2):  # each level after the other, in both directions
        levels.append((await rig.file.write(note, None))[1])
        levels.append((await at_once(rig))[1])
        levels.append((await rig.file.write(note, None, synced=False))[1])
    mixed = await asyncio.gather(
        rig.file.write(note, None, synced=False), rig.file.write(note, None)
    )

    assert levels == [own, relaxed, relaxed] * 2
    assert [level for _, level in mixed] == [own, own]
    await rig.close()


async def test_the_file_locked_by_another_process(rig: Rig) -> None:
    """A small write does not stop the event loop for the lock; the writer thread waits for it."""
    rude = sqlite3.connect(rig.path, isolation_level=None)
    rude.execute("begin immediate")
    writing = rig.file.write(note, None, synced=False, at_once=True)
    await asyncio.sleep(0)
    assert not writing.done()

    rude.execute("rollback")
    rude.close()
    assert (await writing)[0] == "sqlite-writer"


async def test_none_overtakes_a_write_that_waits(rig: Rig) -> None:
    """While the writer thread is at work, a small write goes behind what was asked for before."""
    entered, go_on, order = threading.Event(), threading.Event(), []

    def halt(connection: sqlite3.Connection, arguments: list[Any]) -> list[Any]:
        entered.set()
        go_on.wait(10)
        return [None]

    def mark(connection: sqlite3.Connection, names: list[str]) -> list[Any]:
        order.extend(names)
        return names

    halted = rig.file.write(halt, None)
    await asyncio.to_thread(entered.wait, 10)
    waiting = rig.file.write(mark, "first")
    small = rig.file.write(mark, "second", synced=False, at_once=True)
    assert not small.done()
    go_on.set()
    await asyncio.gather(halted, waiting, small)

    assert order == ["first", "second"]


async def test_the_log_is_tended_in_between(rig: Rig) -> None:
    """After so many writes in callers' threads one goes to the writer, which makes checkpoints."""
    threads = [(await at_once(rig))[0] for _ in range(3 * sqlitefile.AT_ONCE_MAX)]

    runs = [(name, len(list(group))) for name, group in itertools.groupby(threads)]
    assert max(runs) == ("sqlite-writer", 1)
    assert max(length for _, length in runs) == sqlitefile.AT_ONCE_MAX


async def test_a_slow_disk_is_left_to_the_thread(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write at once that took too long was the last for a while, and not for ever."""

    def slow(connection: sqlite3.Connection, arguments: list[Any]) -> list[Any]:
        time.sleep(2 * sqlitefile.SLOW_SECONDS)
        return [None]

    await at_once(rig, slow)
    assert (await at_once(rig))[0] == "sqlite-writer"

    monkeypatch.setattr(sqlitefile, "REST_SECONDS", 0.0)
    monkeypatch.setattr(rig.file, "_rest_until", 0.0)
    await at_once(rig, slow)
    assert (await at_once(rig))[0] == "MainThread"


async def test_an_idle_file_has_no_log(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when all that was written was written in the callers' threads."""
    monkeypatch.setattr(sqlitefile, "IDLE_SECONDS", 0.02)
    await rig.file.version()  # the thread waits for so long from now on
    for name in ("a", "b"):
        await at_once(rig, put_row, name)
        assert rig.wal_bytes() > 0
        async with asyncio.timeout(10):
            while rig.wal_bytes() > 0:  # noqa: ASYNC110  (a file's size has no event)
                await asyncio.sleep(0.01)
    assert rows(rig) == 2

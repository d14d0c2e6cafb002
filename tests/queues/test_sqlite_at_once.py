"""Small writes that the caller's thread does at once, and which writes wait for the disk."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.queues.sqliterig import Rig
from worker import sqlitefile, sqlitesync
from worker.core.events import NoteAdded
from worker.sqlitesync import LogSync
from worker.store.sqlite import OPEN_AT_ONCE_EVENTS

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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is called slow, however busy this machine is."""
    monkeypatch.setattr(sqlitefile, "SLOW_SECONDS", 60.0)


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
    both_there = threading.Event()
    held = rig.file.write(lambda _, wishes: [both_there.wait(10) for _ in wishes], None)
    writes = [rig.file.write(note, None, synced=synced) for synced in (False, True)]
    both_there.set()
    await held
    mixed = await asyncio.gather(*writes)

    assert levels == [own, relaxed, relaxed] * 2
    assert [level for _, level in mixed] == [own, own]
    await rig.close()


class Disk:
    """Stands for the waiting for the disk, which takes until it may go on."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.go_on, self.times = threading.Event(), threading.Event(), 0
        self.error: Exception | None = None
        monkeypatch.setattr(rig.file._log, "wait", self.wait)

    def wait(self) -> None:
        """Be slow, and then fail or not."""
        self.times += 1
        self.asked.set()
        assert self.go_on.wait(10)
        if self.error is not None:
            raise self.error


async def test_a_synced_write_at_once_waits_for_the_disk_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is committed in the caller's thread, and over when the disk has it; others go on."""
    rig = Rig(tmp_path, synchronous="full")
    disk = Disk(rig, monkeypatch)
    synced = [rig.file.write(put_row, "a", at_once=True)]
    assert rows(rig) == 1
    await asyncio.to_thread(disk.asked.wait, 10)
    assert (await at_once(rig))[0] == "MainThread"
    synced += [rig.file.write(put_row, name, at_once=True) for name in "b"]
    assert not any(write.done() for write in synced)

    disk.go_on.set()
    await asyncio.gather(*synced)
    assert rows(rig) == 2 and disk.times == 2
    await rig.close()


async def test_a_disk_that_fails_is_the_error_of_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told that a write would outlive the machine if the disk did not take it."""
    rig = Rig(tmp_path, synchronous="full")
    disk = Disk(rig, monkeypatch)
    disk.error = sqlite3.OperationalError("disk I/O error")
    disk.go_on.set()

    with pytest.raises(sqlite3.OperationalError, match="disk"):
        await rig.file.write(put_row, "a", at_once=True)
    disk.error = None
    await rig.file.write(put_row, "b", at_once=True)
    await rig.close()


async def test_the_log_is_synced_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is waited for is the log that SQLite writes; the folder, once."""
    synced: list[str] = []

    def note_name(descriptor: int) -> None:
        synced.append(os.path.realpath(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(sqlitesync, "_sync", note_name)
    monkeypatch.setattr(sqlitesync.os, "fsync", note_name)
    rig = Rig(tmp_path, synchronous="full")
    for name in ("a", "b"):
        await rig.file.write(put_row, name, at_once=True)
    await rig.close()

    log = rig.path + "-wal"
    assert synced == [str(tmp_path), log, log]


def test_a_log_that_cannot_be_synced(tmp_path: Path) -> None:
    """An error of the operating system comes as the error that a commit would raise."""
    with pytest.raises(sqlite3.OperationalError, match="No such file"):
        LogSync(str(tmp_path / "none.db")).wait()


@pytest.mark.parametrize("opened", ["off", "normal"])
async def test_a_file_that_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: str
) -> None:
    """Opened to outlive the process only, a synced write at once is over when it returns."""
    rig = Rig(tmp_path, synchronous=opened)
    disk = Disk(rig, monkeypatch)

    assert rig.file.write(put_row, "a", at_once=True).done()
    assert disk.times == 0
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


@pytest.mark.usefixtures("quick")
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


@pytest.mark.usefixtures("quick")
async def test_a_long_journal_is_not_read_in_the_event_loop(rig: Rig) -> None:
    """A run with many facts is opened by the writer thread, and by nobody before that."""
    run = (await rig.store.open("t", owner="w", lease_seconds=30)).run
    assert run is not None
    facts = [NoteAdded(float(number), "test", "x") for number in range(OPEN_AT_ONCE_EVENTS)]
    await rig.store.append(run, facts)
    short = await rig.store.open("t", owner="w", lease_seconds=30)
    threads = watched(rig)
    assert short.run is not None
    await rig.store.append(short.run, facts[:1])

    opened = await rig.store.open("t", owner="w", lease_seconds=30)
    assert opened.run is not None
    assert (opened.run.epoch, len(opened.events)) == (3, OPEN_AT_ONCE_EVENTS + 1)
    assert threads == ["MainThread", "MainThread", "sqlite-writer"]  # append, a look, open


def watched(rig: Rig) -> list[str]:
    """The names of the threads in which transactions are made from now on."""
    threads, begin = [], rig.file._begin

    def noting(manner: sqlitefile.Manner) -> None:
        threads.append(threading.current_thread().name)
        begin(manner)

    rig.file._begin = noting  # type: ignore[method-assign]
    return threads

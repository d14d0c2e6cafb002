"""Opening a SQLite file: what a URL may say, what an error tells to do, and the clock."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from tests.queues.sqliterig import Rig
from worker import sqliteopen
from worker.core.errors import ConfigError
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.queues.sqlite import SqliteQueue
from worker.sqliteopen import FileSettings, GuardedClock, connect_writer, settings_of
from worker.store import open_store


@pytest.mark.parametrize(
    "url, path, synchronous",
    [
        ("sqlite:///a.db", "{cwd}/a.db", "full"),
        ("sqlite:////data/a%20b.db", "/data/a b.db", "full"),
        ("sqlite:///a.db?synchronous=NORMAL", "{cwd}/a.db", "normal"),
    ],
)
def test_urls(url: str, path: str, synchronous: str) -> None:
    """Three slashes make a relative path, four an absolute one; full is the default."""
    settings = settings_of(url)

    assert (settings.path, settings.synchronous) == (path.format(cwd=os.getcwd()), synchronous)


@pytest.mark.parametrize(
    "url, said",
    [
        ("sqlite://host/a.db", "sqlite:////data/file.db"),
        ("sqlite://", "sqlite:///file.db"),
        ("sqlite:///a.db?sync=full", "synchronous=full|normal"),
        ("sqlite:///a.db?synchronous=maybe", "synchronous=full|normal"),
        ("sqlite:///{tmp}/missing/a.db", "does not exist; create it"),
        ("sqlite:///{tmp}", "cannot be opened for writing"),
        ("sqlite:///{tmp}/text.db", "no SQLite database"),
        ("a.db", "write sqlite:///file.db"),
    ],
)
def test_wrong_urls(tmp_path: Path, url: str, said: str) -> None:
    """What cannot be opened says what to do, for the queue and for the store."""
    (tmp_path / "text.db").write_text("this is no database, but long enough to look at" * 100)
    for opener in (open_queue, open_store):
        with pytest.raises(ConfigError) as caught:
            opener(url.format(tmp=tmp_path))
        assert said in str(caught.value)


@pytest.mark.parametrize("url", ["redsi://:hidden@localhost/0", "redis://:a/hidden@localhost:x/"])
def test_a_wrong_url_is_told_without_its_password(url: str) -> None:
    """A typing error in an address is no reason to print a secret."""
    for opener in (open_queue, open_store):
        with pytest.raises(ConfigError) as caught:
            opener(url)
        assert "hidden" not in str(caught.value)


def test_opening_waits_for_whoever_is_at_it(tmp_path: Path) -> None:
    """A file that another process is just about to set up is opened when it is done."""
    rude = sqlite3.connect(tmp_path / "a.db", isolation_level=None, check_same_thread=False)
    rude.execute("begin exclusive")
    threading.Timer(0.3, lambda: rude.execute("rollback")).start()

    connect_writer(FileSettings(str(tmp_path / "a.db"))).close()
    rude.close()


def test_a_file_that_stays_locked(tmp_path: Path) -> None:
    """A file that another program does not let go of is named, after a while."""
    rude = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    rude.execute("begin exclusive")

    with pytest.raises(ConfigError, match="keeps the file locked"):
        connect_writer(FileSettings(str(tmp_path / "a.db"), busy_seconds=0.1))
    rude.close()


def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    """A database whose table `task` is not ours is refused, and let go of."""
    other = sqlite3.connect(tmp_path / "a.db")
    other.execute("create table task (title text)")
    other.close()

    with pytest.raises(ConfigError, match="is not as loopworker has it"):
        open_queue(f"sqlite:///{tmp_path}/a.db")
    assert "sqlite-writer" not in [thread.name for thread in threading.enumerate()]


# --- the clock ---------------------------------------------------------------------------------


class Clocks:
    """A wall clock and a monotonic one, moved by hand."""

    def __init__(self) -> None:
        self.wall = 1000.0
        self.monotonic = 50.0
        self.guarded = GuardedClock(wall=lambda: self.wall, monotonic=lambda: self.monotonic)

    def pass_time(self, seconds: float, *, jump: float = 0.0) -> float:
        """Let time pass, move the wall clock besides, and tell the guarded time."""
        self.wall += seconds + jump
        self.monotonic += seconds
        return self.guarded()


def test_a_file_that_cannot_be_read_beside_writing(tmp_path: Path, monkeypatch) -> None:
    """It is told at the start, in one line; nobody waits for a reader that is not there."""
    connect = sqliteopen.connect

    def writers_only(settings: FileSettings) -> sqlite3.Connection:
        if sys._getframe(1).f_code.co_name == "connect_reader":
            raise sqlite3.OperationalError("unable to open database file")
        return connect(settings)

    monkeypatch.setattr(sqliteopen, "connect", writers_only)

    with pytest.raises(ConfigError, match=r"file\.db: cannot be opened for reading"):
        open_queue(f"sqlite:///{tmp_path}/file.db")
    assert not {"sqlite-reader", "sqlite-writer"} & {each.name for each in threading.enumerate()}


async def test_a_file_whose_name_goes_at_once(tmp_path: Path) -> None:
    """What was open before the name went is still read, and can be closed."""
    rig = Rig(tmp_path)
    os.unlink(rig.path)

    tables = await rig.file.read(lambda c: c.execute("select count(*) from sqlite_master"))
    assert tables.fetchone()[0] > 0
    async with asyncio.timeout(10):
        await rig.close()


def test_a_clock_that_is_set_back() -> None:
    """Set back by an hour, the guarded clock goes on, until the wall clock has caught up."""
    clocks = Clocks()
    assert clocks.pass_time(10) == 1010
    assert clocks.pass_time(10, jump=-3600) == 1020
    assert clocks.pass_time(3000) == 4020
    assert clocks.pass_time(10, jump=+3600) == 4030


def test_a_clock_that_is_set_forward() -> None:
    """A jump forward is believed, and so is a small step back."""
    clocks = Clocks()

    assert clocks.pass_time(10, jump=500) == 1510
    assert clocks.pass_time(10, jump=-0.5) == 1519.5


async def test_a_clock_that_is_set_back_delays_nobody(tmp_path):
    """What was due when it was put is claimed at once, though its time is in the future by now."""
    now = 1_000_000.0
    rig = Rig(tmp_path)
    queue = SqliteQueue(rig.file.again(), clock=lambda: now)
    await queue.put(Ticket("at once", b"{}"))
    await queue.put(Ticket("later", b"{}", not_before=now + 60))
    now -= 3_600
    leases = await queue.claim(owner="w", lease_seconds=10, wait_seconds=0, limit=10)
    await queue.close()
    await rig.close()

    assert [lease.id for lease in leases] == ["at once"]

"""Files of older and of newer versions: lifted as a whole, or left alone with a clear word."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.queues.conftest import Start
from tests.queues.oldfile import old_file
from worker.cli import main
from worker.core.errors import ConfigError, FileTooNew
from worker.queues import open_queue
from worker.queues.sqlite_tables import QUEUE
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import FileSettings, connect
from worker.sqliteschema import Part, bring_up
from worker.store import open_store
from worker.store.sqlite_tables import STORE

PRESENT = {"queue": QUEUE.version, "store": STORE.version}


def versions(path: Path) -> dict[str, int]:
    """What the file says of itself; nothing before there were versions."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        try:
            return dict(connection.execute("select part, version from schema_versions"))
        except sqlite3.OperationalError:
            return {}


def form(path: Path) -> tuple[Any, ...]:
    """Every table with its columns, in whatever order, and every index as it was written."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select type, name, sql from sqlite_schema").fetchall()
        tables = {
            name: {row[1:] for row in connection.execute(f"pragma table_xinfo({name})")}
            for kind, name, _ in rows
            if kind == "table"
        }
        indexes = {
            name: " ".join((sql or "").split()) for kind, name, sql in rows if kind == "index"
        }
        return tables, indexes


async def test_an_older_file_goes_on_where_it_was(tmp_path: Path) -> None:
    """Tasks, leases, dead letters, journals and results of an older file are all still there."""
    url = old_file(tmp_path / "a.db")
    queue, store = open_queue(url), open_store(url)
    leases = await queue.claim(owner="w1", lease_seconds=30, wait_seconds=1, limit=9)
    letters = await queue.dead()
    opened = await store.open("leased", owner="w1", lease_seconds=30)
    result = await store.result("over")
    await queue.close()
    await store.close()

    assert [(one.id, one.deliveries, one.lapses) for one in leases] == [
        ("leased", 2, 1),
        ("ready", 1, 0),
    ]
    assert [(one.id, one.reason, one.body) for one in letters] == [
        ("dead", "boom", b'{"input": "c"}')
    ]
    assert opened.run is not None
    assert (opened.run.epoch, len(opened.events)) == (4, 1)
    assert result is not None
    assert (result.id, result.answer) == ("over/result", "42")
    assert versions(tmp_path / "a.db") == PRESENT


def test_lifted_and_new_files_are_the_same(tmp_path: Path) -> None:
    """The steps lead to the form that a new file is given, column by column, index by index."""
    old_file(tmp_path / "old.db")
    for name in ("old.db", "new.db"):
        file = SqliteFile(FileSettings(str(tmp_path / name)), parts=[QUEUE, STORE])
        asyncio.run(file.close())

    assert form(tmp_path / "old.db") == form(tmp_path / "new.db")


def test_every_version_on_the_way_is_lifted(tmp_path: Path) -> None:
    """A file that stopped at any version goes the rest of the way."""
    old_file(tmp_path / "whole.db")
    asyncio.run(SqliteFile(FileSettings(str(tmp_path / "whole.db")), parts=[QUEUE, STORE]).close())
    for part in (QUEUE, STORE):
        for stop in range(part.version):
            path = tmp_path / f"{part.name}-{stop}.db"
            old_file(path)
            with contextlib.closing(connect(FileSettings(str(path)))) as connection:
                halted = replace(part, schema="", steps=part.steps[:stop])
                bring_up(connection, halted, path=str(path))
            asyncio.run(SqliteFile(FileSettings(str(path)), parts=[QUEUE, STORE]).close())

            assert (versions(path), form(path)) == (PRESENT, form(tmp_path / "whole.db"))


def test_a_column_that_is_there_already_is_left(tmp_path: Path) -> None:
    """Some files without a version have got a later column: it stays, with what is in it."""
    path = tmp_path / "between.db"
    old_file(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("alter table task add column lapses integer not null default 0")
        connection.execute("update task set lapses = 3")
        connection.commit()
    for name in ("between.db", "new.db"):
        asyncio.run(SqliteFile(FileSettings(str(tmp_path / name)), parts=[QUEUE, STORE]).close())
    with contextlib.closing(sqlite3.connect(path)) as connection:
        lapses = connection.execute("select distinct lapses from task").fetchall()

    assert (versions(path), form(path)) == (PRESENT, form(tmp_path / "new.db"))
    assert lapses == [(3,)]


async def test_a_file_for_each_part(tmp_path: Path) -> None:
    """A queue's file and a store's have one version each, lifted or new."""
    old_file(tmp_path / "tasks.db", store=False)
    queue = open_queue(f"sqlite:///{tmp_path}/tasks.db")
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    await queue.close()
    await store.close()

    assert versions(tmp_path / "tasks.db") == {"queue": QUEUE.version}
    assert versions(tmp_path / "runs.db") == {"store": STORE.version}


async def test_the_version_before_may_still_be_at_work(tmp_path: Path) -> None:
    """What a running worker of the older version writes is read like the rest."""
    url = old_file(tmp_path / "a.db")
    queue = open_queue(url)
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as older:
        older.execute("insert into task (id, queue, payload) values ('late', 'tasks', 'x')")
        older.commit()
    leases = await queue.claim(owner="w1", lease_seconds=30, wait_seconds=1, limit=9)
    await queue.close()

    assert {lease.id for lease in leases} == {"leased", "ready", "late"}


# --- newer files, and those of others ------------------------------------------------------------


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A file that a loopworker of the future has used as its queue."""
    path = tmp_path / "newer.db"
    asyncio.run(SqliteFile(FileSettings(str(path)), parts=[QUEUE, STORE]).close())
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("alter table task add column colour text")
        connection.execute("update schema_versions set version = 99 where part = 'queue'")
        connection.commit()
    return path


def test_a_newer_file_is_refused(newer: Path) -> None:
    """The error names file, both versions and what to do, and the file stays as it was."""
    before = form(newer)
    with pytest.raises(FileTooNew) as caught:
        open_queue(f"sqlite:///{newer}")

    said = str(caught.value)
    assert str(newer) in said
    assert "have version 99" in said and f"up to version {QUEUE.version}" in said
    assert "run that version or a later one" in said
    assert (form(newer), versions(newer)["queue"]) == (before, 99)
    assert "sqlite-writer" not in [thread.name for thread in threading.enumerate()]


async def test_a_newer_queue_is_no_newer_store(newer: Path) -> None:
    """The part of the file that is as we know it can be used."""
    store = open_store(f"sqlite:///{newer}")

    assert await store.result("t") is None
    await store.close()


@pytest.mark.parametrize("command", ["run", "submit x", "status x"])
def test_commands_cannot_use_a_newer_file(
    newer: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the command line it is one line, named by the setting, and exit code 4."""
    for name, value in {
        "QUEUE_URL": f"sqlite:///{newer}",
        "MODEL_URL": "http://127.0.0.1:9/v1",
        "TOOLS": "tools.clock",
        "ADMIN": "off",
        "HTTP": "off",
    }.items():
        monkeypatch.setenv(f"LOOPWORKER_{name}", value)
    code = main(command.split())
    said = capsys.readouterr().err

    assert code == 4
    assert said.startswith(f"loopworker: LOOPWORKER_QUEUE_URL: {newer}: the tables of the queue")
    assert said.count("\n") == 1


def test_doctor_tells_of_a_newer_file(
    newer: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is something that cannot be reached, which is graver than what is set up wrong."""
    monkeypatch.setenv("LOOPWORKER_QUEUE_URL", f"sqlite:///{newer}")
    code = main(["doctor", "--no-probe"])
    said = capsys.readouterr().out

    assert code == 4
    assert f"FAIL  queue     {newer}: the tables of the queue in this file have version 99" in said


def test_another_programs_table_is_named(tmp_path: Path) -> None:
    """A table with one of our names and without our columns is refused, and not touched."""
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as other:
        other.executescript("pragma journal_mode=wal; create table run (id text, miles real)")
    before = form(tmp_path / "a.db")

    with pytest.raises(ConfigError, match="the table 'run' in this file is not as loopworker"):
        open_store(f"sqlite:///{tmp_path}/a.db")
    assert form(tmp_path / "a.db") == before


# --- what may go wrong on the way ------------------------------------------------------------------


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """Nothing of the steps before it stands, and the next attempt does them all."""
    url, before = old_file(tmp_path / "a.db"), form(tmp_path / "a.db")
    failing = replace(QUEUE, steps=(*QUEUE.steps, "alter table nowhere add column x"))

    with pytest.raises(ConfigError, match="cannot be set up"):
        SqliteFile(FileSettings(str(tmp_path / "a.db")), parts=[failing])
    assert (form(tmp_path / "a.db"), versions(tmp_path / "a.db")) == (before, {})

    asyncio.run(open_queue(url).close())
    assert versions(tmp_path / "a.db") == {"queue": QUEUE.version}


async def test_killed_in_the_middle_of_a_lift(url: str, start: Start, tmp_path: Path) -> None:
    """Kill -9 after the last step and before the commit: nothing happened, and the next one lifts."""
    old_file(tmp_path / "tasks.db")
    before = form(tmp_path / "tasks.db")
    child = await start("lift-and-die")
    said, _ = await child.communicate()
    left = form(tmp_path / "tasks.db")
    queue = open_queue(url)
    depth = await queue.depth()
    await queue.close()

    assert (child.returncode, said) == (-9, b"taken\n")
    assert left == before
    assert (depth.ready, depth.dead) == (2, 1)
    assert versions(tmp_path / "tasks.db") == {"queue": QUEUE.version}


async def test_many_processes_lift_one_file(url: str, start: Start, tmp_path: Path) -> None:
    """Processes that open an older file at the same moment all get to work in it."""
    old_file(tmp_path / "tasks.db")
    children = [await start("put-one", f"t{number}") for number in range(6)]
    said = await asyncio.gather(*[child.communicate() for child in children])
    queue = open_queue(url)
    depth = await queue.depth()
    await queue.close()

    assert said == [(b"True\n", b"")] * 6
    assert (depth.ready, depth.dead) == (8, 1)


def test_a_file_that_is_up_to_date_is_not_locked(tmp_path: Path) -> None:
    """Whoever finds the present version does not wait for a writer."""
    settings = FileSettings(str(tmp_path / "a.db"), busy_seconds=0.01)
    asyncio.run(SqliteFile(settings, parts=[QUEUE]).close())
    with (
        contextlib.closing(connect(settings)) as rude,
        contextlib.closing(connect(settings)) as connection,
    ):
        rude.execute("begin immediate")
        bring_up(connection, QUEUE, path=settings.path)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            bring_up(connection, replace(QUEUE, steps=(*QUEUE.steps, "")), path=settings.path)


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that a user without rights may enter, and be that user for the test."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        user = os.geteuid()
        yield Path(name)
        if user == 0:
            os.seteuid(0)
        Path(name).chmod(0o755)


def test_a_file_that_may_only_be_read(shelf: Path) -> None:
    """It is not lifted in part: the error says what is needed, and the file is as it was."""
    url, before = old_file(shelf / "a.db"), form(shelf / "a.db")
    (shelf / "a.db").chmod(0o444)
    shelf.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)  # root may write everything

    for opener in (open_queue, open_store):
        with pytest.raises(ConfigError, match="a file that this user may write"):
            opener(url)

    if os.getuid() == 0:
        os.seteuid(0)
    assert (form(shelf / "a.db"), versions(shelf / "a.db")) == (before, {})


def test_versions_only_grow() -> None:
    """Steps are added at the end; these are the forms that files in the field have by now."""
    known: dict[Part, int] = {QUEUE: 2, STORE: 1}

    assert {part.name: part.version >= least for part, least in known.items()} == {
        "queue": True,
        "store": True,
    }

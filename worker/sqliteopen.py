"""How a SQLite file is opened: its URL, its settings, its pragmas, and the clock of its leases."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from worker.core.errors import ConfigError

_SYNCHRONOUS = ("full", "normal", "off", "extra")


@dataclass(frozen=True, slots=True)
class FileSettings:
    """How a file is opened. `synchronous=full` survives a loss of power, `normal` a crash."""

    path: str
    synchronous: str = "full"
    busy_seconds: float = 10.0  # how long to wait for another process's write
    page_max: int | None = None  # the size at which the file counts as full, for tests


def settings_of(url: str) -> FileSettings:
    """Read `sqlite:///relative.db`, `sqlite:////absolute.db`, with `?synchronous=normal`.

    Raises ConfigError that says what is allowed.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)[1:]
    if parts.scheme != "sqlite" or parts.netloc or not path:
        raise ConfigError(
            f"{url}: not a SQLite URL; write sqlite:///file.db for a path relative to the working"
            " directory, sqlite:////data/file.db for an absolute one"
        )
    if path == ":memory:" or "\0" in path:
        raise ConfigError(f"{url}: names no file; a queue in memory is memory://")
    try:
        values: dict[str, Any] = {"path": os.path.abspath(path)}
    except FileNotFoundError:
        raise ConfigError(
            f"{url}: the working folder is gone; go to another, or write sqlite:////data/file.db"
        ) from None
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "synchronous" and value.lower() in _SYNCHRONOUS:
            values[name] = value.lower()
        elif name == "busy_seconds" and _positive(value) is not None:
            values[name] = _positive(value)
        else:
            raise ConfigError(
                f"{url}: {name}={value} is not known; allowed are"
                f" synchronous={'|'.join(_SYNCHRONOUS)} and busy_seconds=<seconds>"
            )
    return FileSettings(**values)


def _positive(text: str) -> float | None:
    try:
        return float(text) if 0 < float(text) < 3600 else None
    except ValueError:
        return None


class GuardedClock:
    """Wall clock seconds that do not fall back.

    Leases in the file are wall clock times. When the clock is set back by more than a second we go
    on with the monotonic one until the wall clock has caught up; else every lease would last
    longer by the difference. A jump forward is believed: after a suspension it is the truth.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last = (wall(), monotonic())

    def __call__(self) -> float:
        """The time now."""
        wall, monotonic = self._wall(), self._monotonic()
        last, at = self._last
        expected = last + (monotonic - at)
        now = wall if wall >= expected - 1.0 else expected
        self._last = (now, monotonic)
        return now


def connect(settings: FileSettings) -> sqlite3.Connection:
    """Open a connection with our pragmas. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        settings.path,
        isolation_level=None,  # transactions are begun and ended by hand
        check_same_thread=False,  # used by several, one at a time
        cached_statements=256,
    )
    connection.text_factory = _text
    page_max = f"pragma max_page_count={settings.page_max};" if settings.page_max else ""
    try:
        connection.executescript(
            f"pragma busy_timeout={int(settings.busy_seconds * 1000)};"
            f"pragma synchronous={settings.synchronous};"
            "pragma foreign_keys=on;"
            "pragma journal_size_limit=67108864;"
            "pragma wal_autocheckpoint=1000;" + page_max
        )
    except sqlite3.Error:
        connection.close()
        raise
    except UnicodeDecodeError:  # SQLite's own complaint, with what it found in the file
        connection.close()
        raise sqlite3.DatabaseError("the file is damaged") from None
    return connection


def identity_of(path: str) -> tuple[int, int] | None:
    """Which file is at a path now: device and number; None when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _text(stored: bytes) -> str:
    # Whoever inserts a row from a shell may store a text that is not UTF-8. Read strictly, it would
    # fail every claim that meets it.
    return stored.decode("utf-8", "backslashreplace")


def connect_reader(settings: FileSettings) -> sqlite3.Connection:
    """Open a file that is there for reading. Raises ConfigError."""
    try:
        return connect(settings)
    except sqlite3.Error as error:
        raise ConfigError(f"{settings.path}: cannot be opened for reading ({error})") from error


def connect_writer(settings: FileSettings) -> sqlite3.Connection:
    """Open, and if need be create, the file for writing. Raises ConfigError: what to do."""
    path = Path(settings.path)
    if not path.parent.is_dir():
        raise ConfigError(
            f"{path}: the folder {path.parent} does not exist; create it, or name another"
        )
    try:
        connection = connect(settings)
        try:
            mode = _write_ahead(connection, settings.busy_seconds)
            connection.execute("begin immediate")
            connection.execute("rollback")
        except sqlite3.Error:
            connection.close()
            raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise ConfigError(
                f"{path}: is no SQLite database, or a damaged one ({error}); move it away, and put"
                " a copy in its place if there is one"
            ) from error
        if code == sqlite3.SQLITE_BUSY:
            raise ConfigError(f"{path}: another program keeps the file locked") from error
        raise ConfigError(
            f"{path}: cannot be opened for writing ({error}); it must be a file that this"
            " user may write, in a folder and on a disk where that is allowed"
        ) from error
    if mode != "wal":
        connection.close()
        raise ConfigError(f"{path}: this file system cannot keep a write-ahead log ({mode})")
    return connection


def _write_ahead(connection: sqlite3.Connection, patience_seconds: float) -> str:
    # SQLite does not wait by itself where several processes make this change at once.
    give_up_at = time.monotonic() + patience_seconds
    while True:
        try:
            return str(connection.execute("pragma journal_mode=wal").fetchone()[0])
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)

"""Wait until the log of a SQLite file is on the disk, without the connection that wrote it."""

from __future__ import annotations

import contextlib
import os
import sqlite3

# Where there is no fdatasync there is fsync, which does more.
_sync = getattr(os, "fdatasync", os.fsync)


class LogSync:
    """The write-ahead log of the file at `path`; for one thread.

    What has been committed before `wait` outlives the machine after it. A commit that a checkpoint
    has moved into the file meanwhile was synced by that.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._log: int | None = None

    def __repr__(self) -> str:
        return f"LogSync({self._path!r})"

    def wait(self) -> None:
        """Wait for the disk. Raises sqlite3.OperationalError, as a commit that waits would."""
        try:
            if self._log is None:
                self._log = self._open()
            _sync(self._log)
        except OSError as error:
            raise sqlite3.OperationalError(f"disk I/O error: {error.strerror}") from error

    def size(self) -> int:
        """How many bytes it is long; 0 where there is none."""
        try:
            return os.stat(self._path + "-wal").st_size
        except OSError:
            return 0

    def close(self) -> None:
        """Let go of the log. SQLite's locks are on other files, so none is lost by that."""
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def _open(self) -> int:
        log = os.open(self._path + "-wal", os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.ExitStack() as stack:
            folder = os.open(os.path.dirname(self._path) or ".", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            os.fsync(folder)  # its name has to be there as well
        return log

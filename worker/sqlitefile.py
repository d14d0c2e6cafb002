"""One SQLite file, opened once in this process: whole transactions, many callers, one fsync.

Both SQLite adapters (queue and store) work through this. Writes go to **one writer thread**. While
it commits, further writes gather; it takes them all into the next transaction, so that a hundred
loops that journal a step at the same time cost one fsync and not a hundred (group commit). Nobody
ever waits for company: a lone write is committed at once.

A write is a function of the connection, run as a whole in the thread. So a cancelled caller leaves
no transaction open, and its write is there wholly or not at all. Several writes of one kind can be
done by one function for all of them (see `write`). If one of a batch fails, it is undone alone.

Driver errors leave this room as they are; the adapters turn them into ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from worker.core.errors import ConfigError
from worker.sqliteopen import FileSettings, connect, connect_writer
from worker.sqliteschema import Part, bring_up

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
# Outcomes in the order of the arguments; an exception among them is the outcome of that one, and
# promises that nothing was written for it. With more than one argument the function may also
# raise: then it is undone and called again for each argument alone.
Bulk = Callable[[sqlite3.Connection, list[Any]], list[Any]]

BATCH_MAX = 256  # jobs in one transaction: bounds how long other processes wait for the lock
IDLE_SECONDS = 1.0  # after so long without a write the log is folded into the file
WAL_BYTES_MAX = 16 * 1024 * 1024  # beyond it we ask for a truncation even under load


class _Job:
    __slots__ = ("argument", "future", "loop", "orphaned", "work")

    def __init__(
        self, work: Any, argument: Any, orphaned: Callable[[Any], None] | None = None
    ) -> None:
        self.work = work
        self.argument = argument
        self.orphaned = orphaned
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()


class _End(_Job):
    """The last job of a thread; its future is done when the connection is closed."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None)


class Bell:
    """Somebody who waits for a name to be rung; only for its own event loop."""

    def __init__(self, bells: set[Bell]) -> None:
        self._bells = bells
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        bells.add(self)

    def ring(self) -> None:
        """Wake the waiter, from any thread."""
        _call_in(self._loop, self._rung.set)

    async def wait(self, seconds: float) -> bool:
        """Wait for the ring, at most so long; tells whether it came."""
        try:
            await asyncio.wait_for(self._rung.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def put_away(self) -> None:
        """Stop listening."""
        self._bells.discard(self)


class SqliteFile:
    """A file and its two threads. Use `SqliteFile.shared` so that a process opens it once."""

    _open: dict[FileSettings, SqliteFile] = {}  # noqa: RUF012  (the process's own)
    _lock = threading.Lock()

    def __init__(self, settings: FileSettings, *, parts: Iterable[Part] = ()) -> None:
        self.settings = settings
        self.users = 1
        self.commits = 0
        self._shared = False
        self._bells: dict[str, set[Bell]] = {}
        self._rung: set[str] = set()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._dirty_since_checkpoint = False
        self._quiet_since = time.monotonic()
        self._writer_connection = connect_writer(settings)
        try:
            for part in parts:
                self.bring_up(part)
        except ConfigError:
            self._writer_connection.close()
            raise
        self._threads = [
            threading.Thread(target=self._write_forever, name="sqlite-writer", daemon=True),
            threading.Thread(target=self._read_forever, name="sqlite-reader", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @classmethod
    def shared(cls, settings: FileSettings, *, part: Part) -> SqliteFile:
        """The file as this process has it open, or newly opened. Raises ConfigError."""
        with cls._lock:
            file = cls._open.get(settings)
            if file is None:
                file = cls._open[settings] = cls(settings, parts=[part])
                file._shared = True
            else:
                file.bring_up(part)
                file.users += 1
            return file

    def __repr__(self) -> str:
        waiting = self._jobs.qsize()
        return f"SqliteFile({self.settings.path!r}, {self.commits} commits, {waiting} waiting)"

    def again(self) -> SqliteFile:
        """The same file for one user more; every user closes it."""
        with self._lock:
            self.users += 1
        return self

    def bring_up(self, part: Part) -> None:
        """Create or lift the tables of a part, on a connection of its own. Blocks for a moment.

        Raises ConfigError, and has changed nothing then.
        """
        try:
            with contextlib.closing(connect(self.settings)) as connection:
                bring_up(connection, part, path=self.settings.path)
        except sqlite3.Error as error:
            raise ConfigError(f"{self.settings.path}: cannot be set up ({error})") from error

    def write(
        self, work: Bulk, argument: Any, *, orphaned: Callable[[Any], None] | None = None
    ) -> asyncio.Future[Any]:
        """Have `work` done for `argument` in the next transaction; the future is its outcome.

        Arguments of all that wait for the same `work` are given to it together. Durable when the
        future is done. Cancelled: done or not done, never half; if it was done, `orphaned` is
        called with the outcome that nobody waited for.
        """
        job = _Job(work, argument, orphaned)
        self._jobs.put(job)
        return job.future

    def read(self, work: Work[T]) -> asyncio.Future[T]:
        """Have `work` done on the reading connection, in a thread. It must not write."""
        job = _Job(work, None)
        self._reads.put(job)
        return job.future

    def version(self) -> asyncio.Future[int]:
        """A number that changes when another process has written. Costs no transaction."""
        job = _Job(None, None)
        self._jobs.put(job)
        return job.future

    def listen(self, name: str) -> Bell:
        """A bell that rings when a write of this process has rung `name`."""
        return Bell(self._bells.setdefault(name, set()))

    def ring(self, name: str) -> None:
        """Wake the listeners of a name once the present transaction is committed."""
        self._rung.add(name)

    async def close(self) -> None:
        """Let go; the last user waits for what was asked for and closes the file."""
        with self._lock:
            self.users -= 1
            if self.users != 0:
                return
            if self._shared:
                del self._open[self.settings]
        last_read, last_write = _End(), _End()
        self._reads.put(last_read)
        self._jobs.put(last_write)
        await asyncio.shield(asyncio.gather(last_read.future, last_write.future))
        for thread in self._threads:
            thread.join()  # it has nothing left to do but to end

    # --- the writer thread ---------------------------------------------------------------------

    def _write_forever(self) -> None:
        end: _Job | None = None
        while end is None:
            jobs, end = self._gather()
            writes = [job for job in jobs if job.work is not None and not job.future.cancelled()]
            probes = [job for job in jobs if job.work is None]
            if writes:
                _settle(writes, self._transact(writes))
                self._quiet_since = time.monotonic()
            if probes:
                _settle(probes, self._probe(len(probes)))
            self._fold_log(stopping=end is not None)
        self._writer_connection.close()
        _settle([end], [None])

    def _gather(self) -> tuple[list[_Job], _End | None]:
        """Wait for work, then take what there is, with the end if it has come."""
        jobs: list[_Job] = []
        try:
            timeout = IDLE_SECONDS if self._dirty_since_checkpoint else None
            job = self._jobs.get(timeout=timeout)
            while not isinstance(job, _End):
                jobs.append(job)
                if len(jobs) == BATCH_MAX:
                    return jobs, None
                job = self._jobs.get_nowait()
        except queue.Empty:
            return jobs, None
        return jobs, job

    def _probe(self, count: int) -> list[Any]:
        try:
            version = self._writer_connection.execute("pragma data_version").fetchone()[0]
        except sqlite3.Error as error:
            return [error] * count
        return [version] * count

    def _transact(self, jobs: list[_Job]) -> list[Any]:
        """Do the jobs in one transaction; where that cannot be, each in its own."""
        connection = self._writer_connection
        self._rung.clear()
        try:
            connection.execute("begin immediate")
        except sqlite3.Error as error:
            return [error] * len(jobs)
        try:
            outcomes = self._perform(connection, jobs)
            connection.execute("commit")
        except Exception as error:  # whatever it is belongs to a caller; this thread must go on
            if connection.in_transaction:
                connection.execute("rollback")
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._transact([job])]
            return [error]
        self.commits += 1
        self._dirty_since_checkpoint = True
        for name in self._rung:
            for bell in list(self._bells.get(name, ())):
                bell.ring()
        return outcomes

    def _perform(self, connection: sqlite3.Connection, jobs: list[_Job]) -> list[Any]:
        kinds: dict[Any, list[int]] = {}
        for number, job in enumerate(jobs):
            kinds.setdefault(job.work, []).append(number)
        if len(kinds) == 1:  # the transaction is savepoint enough
            return list(jobs[0].work(connection, [job.argument for job in jobs]))
        outcomes: list[Any] = [None] * len(jobs)
        for work, numbers in kinds.items():
            done = self._isolated(connection, work, [jobs[number].argument for number in numbers])
            for number, outcome in zip(numbers, done, strict=True):
                outcomes[number] = outcome
        return outcomes

    def _isolated(self, connection: sqlite3.Connection, work: Bulk, arguments: list[Any]) -> Any:
        connection.execute("savepoint job")
        try:
            outcomes = work(connection, arguments)
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite has undone the whole transaction by itself (a full disk does that)
            connection.execute("rollback to job")
            connection.execute("release job")
            if len(arguments) == 1:
                return [error]
            return [self._isolated(connection, work, [argument])[0] for argument in arguments]
        connection.execute("release job")
        return outcomes

    def _fold_log(self, *, stopping: bool) -> None:
        """Fold the log into the file and cut it off: when idle, at the end, and when it is big."""
        if not self._dirty_since_checkpoint:
            return
        idle = time.monotonic() - self._quiet_since >= IDLE_SECONDS
        if not (stopping or idle or (self.commits % 256 == 0 and self._log_is_big())):
            return
        connection = self._writer_connection
        try:
            # A reader or writer elsewhere makes it impossible for now: then later, not waiting.
            connection.execute("pragma busy_timeout=0")
            busy = connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
            self._dirty_since_checkpoint = bool(busy)
        except sqlite3.Error:
            pass
        finally:
            connection.execute(f"pragma busy_timeout={int(self.settings.busy_seconds * 1000)}")
        self._quiet_since = time.monotonic()

    def _log_is_big(self) -> bool:
        try:
            return os.stat(self.settings.path + "-wal").st_size > WAL_BYTES_MAX
        except OSError:
            return False

    # --- the reader thread ---------------------------------------------------------------------

    def _read_forever(self) -> None:
        connection = connect(self.settings)
        while not isinstance(job := self._reads.get(), _End):
            if job.future.cancelled():
                continue
            outcome: Any
            try:
                outcome = job.work(connection)
            except Exception as error:
                outcome = error
            _settle([job], [outcome])
        connection.close()
        _settle([job], [None])


def _settle(jobs: list[_Job], outcomes: list[Any]) -> None:
    """Hand the outcomes to the callers: one wake-up for each event loop, not for each job."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Job, Any]]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job, outcome))
    for loop, settled in by_loop.items():
        _call_in(loop, _resolve, settled)


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *values: Any) -> None:
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:
        pass  # that loop is closed: nobody waits there any more


def _resolve(settled: list[tuple[_Job, Any]]) -> None:
    for job, outcome in settled:
        failed = isinstance(outcome, BaseException)
        if job.future.done():  # the caller was cancelled meanwhile
            if job.orphaned is not None and not failed:
                job.orphaned(outcome)
        elif failed:
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)

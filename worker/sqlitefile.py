"""One SQLite file, opened once in this process: whole transactions, many callers, one fsync.

Both SQLite adapters (queue and store) work through this. Writes go to **one writer thread**. While
it commits, further writes gather; it takes them all into the next transaction, so that a hundred
loops that journal a step at the same time cost one fsync and not a hundred (group commit). Nobody
ever waits for company: a lone write is committed at once.

A commit waits for the disk if one of its writes asks for that. What does not ask (a claim, an ack,
a step that can be repeated) outlives the process, not the machine; but it is never lost where a
later write is kept: SQLite's log has an order. Small writes are done **at once**, in the thread of
the caller, if nobody else is at the file: to wake another thread and to be woken by it costs
several times as much as the write. Nothing waits there, neither for the disk nor for another
process: where that is needed, the writer thread does it, the waiting alone if need be.

A write is a function of the connection, run as a whole. So a cancelled caller leaves no transaction
open, and its write is there wholly or not at all. Several writes of one kind can be done by one
function for all of them (see `write`). If one of a batch fails, it is undone alone.

Driver errors leave this room as they are; the adapters turn them into ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from worker.awaiting import Bell
from worker.core.errors import ConfigError
from worker.sqlitejobs import NOT_YET, End, Job, settle
from worker.sqliteopen import FileSettings, connect, connect_reader, connect_writer, identity_of
from worker.sqliteschema import Part, bring_up
from worker.sqlitesync import LogSync

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
# Outcomes in the order of the arguments; an exception among them is the outcome of that one, and
# promises that nothing was written for it. With more than one argument the function may also
# raise: then it is undone and called again for each argument alone.
Bulk = Callable[[sqlite3.Connection, list[Any]], list[Any]]

# How a transaction is made: its synchronous level, how many milliseconds it waits for another
# process, and beyond how many pages of the log it makes a checkpoint.
Manner = tuple[str, int, int]

BATCH_MAX = 256  # jobs in one transaction: bounds how long other processes wait for the lock
IDLE_SECONDS = 1.0  # after so long without a write the log is folded into the file
WAL_BYTES_MAX = 16 * 1024 * 1024  # beyond it we ask for a truncation even under load
AT_ONCE_MAX = 256  # writes in callers' threads between two of the writer's, which tends the log
SLOW_SECONDS = 0.05  # a write at once that takes longer has met a busy disk, and not a busy machine
REST_SECONDS = 1.0  # for which the writer thread does everything then
CHECKPOINT_PAGES = 1000  # so long a log the writer thread folds into the file after its commit


class SqliteFile:
    """A file and its two threads. Use `SqliteFile.shared` so that a process opens it once."""

    _open: dict[FileSettings, SqliteFile] = {}  # noqa: RUF012  (the process's own)
    _lock = threading.Lock()

    def __init__(self, settings: FileSettings, *, parts: Iterable[Part] = ()) -> None:
        self.settings = settings
        self.users = 1
        self.commits = 0
        self.at_once = True  # whether callers may do small writes themselves
        self._shared = False
        self._bells: dict[str, set[Bell]] = {}
        self._rung: set[str] = set()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._dirty_since_checkpoint = False
        self._quiet_since = time.monotonic()
        self._turn = threading.Lock()  # who has it may use the writing connection
        busy_ms = int(settings.busy_seconds * 1000)
        relaxed = "normal" if settings.synchronous in ("full", "extra") else settings.synchronous
        self._synced: Manner = settings.synchronous, busy_ms, CHECKPOINT_PAGES
        self._unsynced: Manner = relaxed, busy_ms, CHECKPOINT_PAGES
        self._waiting_for_nobody: Manner = relaxed, 0, 0
        self._manner: Manner | None = None  # how the connection is set now
        self._done_at_once = 0
        self._rest_until = 0.0
        self._look_again_at = 0  # so many commits, for how long the log is
        self._log = LogSync(settings.path)
        self._writer_connection = connect_writer(settings)
        self._identity = identity_of(settings.path)
        try:
            for part in parts:
                self.bring_up(part)
            self._reader_connection = connect_reader(settings)
        except ConfigError:
            self._writer_connection.close()
            raise
        self._threads = [
            threading.Thread(target=self._read_forever, name="sqlite-reader", daemon=True),
            threading.Thread(target=self._write_forever, name="sqlite-writer", daemon=True),
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
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter: a damaged schema
            raise ConfigError(f"{self.settings.path}: cannot be set up ({error})") from error

    def write(
        self,
        work: Bulk,
        argument: Any,
        *,
        synced: bool = True,
        at_once: bool = False,
    ) -> asyncio.Future[Any]:
        """Have `work` done for `argument` in the next transaction; the future is its outcome.

        Arguments of all that wait for the same `work` are given to it together. When the future is
        done, the write outlives this process, and the machine if it is `synced` (and the file is
        opened so). Cancelled: done or not done, never half; `kept` is for who must know. `at_once`:
        it is small, so it may be committed before this returns; then others see it before it is
        synced.
        """
        job = Job(work, argument, synced=synced)
        if not (at_once and self._do_at_once(job)):
            self._jobs.put(job)
        return job.future

    def read(self, work: Work[T]) -> asyncio.Future[T]:
        """Have `work` done on the reading connection, in a thread. It must not write."""
        job = Job(work, None)
        self._reads.put(job)
        return job.future

    def version(self) -> asyncio.Future[int]:
        """A number that changes when another process has written. Costs no transaction."""
        job = Job(None, None)
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
        await asyncio.shield(self._end())

    async def _end(self) -> None:
        # The writer goes last: who closes the last connection folds the log.
        for jobs, thread in zip((self._reads, self._jobs), self._threads, strict=True):
            end = End()
            jobs.put(end)
            await end.future
            thread.join()  # it has nothing left to do but to end

    # --- in the caller's thread ------------------------------------------------------------------

    def _do_at_once(self, job: Job) -> bool:
        """Do a job here and now, if that needs no waiting for anybody; else the thread has to."""
        began = time.monotonic()
        is_due = self._done_at_once >= AT_ONCE_MAX or self._jobs.qsize()
        if is_due or not self.at_once or began < self._rest_until:
            return False
        if not self._turn.acquire(blocking=False):
            return False
        try:
            try:
                self._begin(self._waiting_for_nobody)
            except sqlite3.Error:
                return False  # another process is writing, most likely: the thread waits for it
            (outcome,) = self._complete([job])
            self._done_at_once += 1
        finally:
            self._turn.release()
        done = not isinstance(outcome, BaseException)
        if done and job.synced and self._synced != self._unsynced:
            job.committed = outcome
            self._jobs.put(job)
        else:
            job.settle(outcome)
        self._quiet_since = time.monotonic()
        if self._quiet_since - began > SLOW_SECONDS:
            self._rest_until = self._quiet_since + REST_SECONDS
        return True

    # --- the writer thread ---------------------------------------------------------------------

    def _write_forever(self) -> None:
        end: Job | None = None
        while end is None:
            jobs, end = self._gather()
            committed = [job for job in jobs if job.committed is not NOT_YET]
            if committed:
                settle(committed, self._synced_outcomes(committed))
            writes = [job for job in jobs if job.is_wanted]
            probes = [job for job in jobs if job.work is None]
            # Who learns of an outcome may want the file at once: the turn is over by then.
            if writes:
                with self._turn:
                    outcomes = self._transact(writes)
                    self._done_at_once = 0
                settle(writes, outcomes)
                self._quiet_since = time.monotonic()
            if probes:
                with self._turn:
                    outcomes = self._probe(len(probes))
                settle(probes, outcomes)
            self._fold_log(stopping=end is not None)
        self._log.close()
        self._writer_connection.close()
        settle([end], [None])

    def _synced_outcomes(self, jobs: list[Job]) -> list[Any]:
        try:
            self._log.wait()
        except sqlite3.Error as error:
            return [error] * len(jobs)
        return [job.committed for job in jobs]

    def _gather(self) -> tuple[list[Job], End | None]:
        """Wait for work, then take what there is, with the end if it has come."""
        jobs: list[Job] = []
        try:
            job = self._jobs.get(timeout=IDLE_SECONDS)
            while not isinstance(job, End):
                jobs.append(job)
                if len(jobs) == BATCH_MAX:
                    return jobs, None
                job = self._jobs.get_nowait()
        except queue.Empty:
            return jobs, None
        return jobs, job

    def _probe(self, count: int) -> list[Any]:
        try:
            self._require_file()
            self._adopt(self._unsynced)
            version = self._writer_connection.execute("pragma data_version").fetchone()[0]
        except sqlite3.Error as error:
            return [error] * count
        return [version] * count

    def _transact(self, jobs: list[Job]) -> list[Any]:
        """Do the jobs in one transaction; where that cannot be, each in its own."""
        try:
            self._begin(self._synced if any(job.synced for job in jobs) else self._unsynced)
        except sqlite3.Error as error:
            return [error] * len(jobs)
        return self._complete(jobs)

    # --- with the turn ---------------------------------------------------------------------------

    def _require_file(self) -> None:
        # SQLite goes on with a file that has no name any more, and everybody else with another one:
        # what is written here would be lost, and what others submit would never be seen.
        if identity_of(self.settings.path) != self._identity:
            raise sqlite3.OperationalError(
                f"{self.settings.path} was deleted or replaced while it was open; restart the worker"
            )

    def _begin(self, manner: Manner) -> None:
        self._require_file()
        self._adopt(manner)
        self._writer_connection.execute("begin immediate")

    def _adopt(self, manner: Manner) -> None:
        if manner != self._manner:
            synchronous, busy_ms, pages = manner
            self._manner = None
            self._writer_connection.executescript(
                f"pragma synchronous={synchronous}; pragma busy_timeout={busy_ms};"
                f"pragma wal_autocheckpoint={pages};"
            )
            self._manner = manner

    def _complete(self, jobs: list[Job]) -> list[Any]:
        """Do the jobs in the transaction that has begun, and commit."""
        connection = self._writer_connection
        self._rung.clear()
        try:
            outcomes = self._perform(connection, jobs)
            connection.execute("commit")
        except Exception as error:  # whatever it is belongs to a caller; this thread must go on
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self._transact([job])]
            return [error]
        self.commits += 1
        self._dirty_since_checkpoint = True
        for name in self._rung:
            for bell in list(self._bells.get(name, ())):
                bell.ring()
        return outcomes

    def _perform(self, connection: sqlite3.Connection, jobs: list[Job]) -> list[Any]:
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
        if not (stopping or idle or self._log_is_big()):
            return
        with self._turn, contextlib.suppress(sqlite3.Error):
            # A reader or writer elsewhere makes it impossible for now: then later, not waiting.
            self._adopt(self._waiting_for_nobody)
            folding = self._writer_connection.execute("pragma wal_checkpoint(truncate)")
            self._dirty_since_checkpoint = bool(folding.fetchone()[0])
        self._quiet_since = time.monotonic()

    def _log_is_big(self) -> bool:
        if self.commits < self._look_again_at:
            return False
        self._look_again_at = self.commits + 256
        return self._log.size() > WAL_BYTES_MAX

    # --- the reader thread ---------------------------------------------------------------------

    def _read_forever(self) -> None:
        while not isinstance(job := self._reads.get(), End):
            if job.future.cancelled():
                continue
            try:
                outcome = job.work(self._reader_connection)
            except Exception as error:
                outcome = error
            settle([job], [outcome])
        self._reader_connection.close()
        settle([job], [None])

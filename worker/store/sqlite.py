"""Journal, results and last good values in the same file as the queue, if you like."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from worker.core.errors import IllegalEvent, LeaseLost, RunBusy, StoreUnavailable
from worker.core.events import Event
from worker.core.task import Result
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import GuardedClock
from worker.store import codec
from worker.store import sqlite_statements as sql
from worker.store.mailbox import Mailbox
from worker.store.port import Keeper, Opened, Remembered, Run, RunView
from worker.store.sqlite_mail import SqliteMailbox

T = TypeVar("T")
LAST_GOOD_MAX = 10_000
FLUSH_SECONDS = 1.0  # how long a last good value may be in memory only
DECODE_HERE_BYTES = 64 * 1024  # a longer journal is decoded in a thread, beside the event loop
PRUNE_BATCH = 200  # runs in one transaction, so that nobody waits long for the lock


class SqliteStore:
    """A store in a SQLite file; see the port for what each method promises.

    Takes over one use of `file` and closes it. `clock` gives wall clock seconds.
    """

    system = "sqlite"

    def __init__(
        self,
        file: SqliteFile,
        *,
        clock: Callable[[], float] | None = None,
        last_good_max: int = LAST_GOOD_MAX,
    ) -> None:
        self.last_good_max = last_good_max
        self._file = file
        self._clock = clock or GuardedClock()
        self.mail: Mailbox = SqliteMailbox(file, clock=self._clock)
        self._closed = False
        self._fresh: dict[str, Remembered] = {}
        self._flushing: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"SqliteStore({self._file!r})"

    async def open(self, run_id: str, *, owner: str, lease_seconds: float) -> Opened:
        """See the port: become the owner, fencing older ones."""
        found = await _ours(
            self._file.write(
                self._open, (_text(run_id), owner, lease_seconds), orphaned=self._release_orphan
            )
        )
        opened, bodies = found
        if bodies is None:
            return Opened(run=None, result=codec.decode_result(opened))
        run, taken_over = opened
        try:
            events = await self._decode(bodies)
        except IllegalEvent:
            # Written by a newer worker, perhaps: one that can read it must not wait for our lease.
            await self.release(run)
            raise
        return Opened(run=run, events=events, taken_over=taken_over)

    async def append(self, run: Run, events: Sequence[Event]) -> None:
        """See the port: all of the events, or none."""
        wish = (run.id, run.epoch, len(events), codec.encode(events))
        run.next_seq, run.cancel_requested = await self._write(self._append, wish)

    async def renew(self, run: Run, *, lease_seconds: float) -> None:
        """See the port: stay the owner from now."""
        if await self.renew_many([run], lease_seconds=lease_seconds):
            raise _lost(run.id, run.epoch)

    async def renew_many(self, runs: Sequence[Run], *, lease_seconds: float) -> Sequence[Run]:
        """See the port: stay the owner of many; returns the lost ones."""
        if not runs:
            return []
        keys = [(run.id, run.epoch) for run in runs]
        cancels = await self._write(self._renew, (keys, lease_seconds))
        lost = []
        for run, cancel in zip(runs, cancels, strict=True):
            if cancel is None:
                lost.append(run)
            else:
                run.cancel_requested = bool(cancel)
        return lost

    async def release(self, run: Run) -> None:
        """See the port: let go without ending the run."""
        if not await self._write(self._release, (run.id, run.epoch)):
            raise _lost(run.id, run.epoch)

    async def finish(self, run: Run, events: Sequence[Event], result: Result) -> None:
        """See the port: the last events and the result at once."""
        body = codec.encode(events) if events else None
        wish = (run.id, run.epoch, len(events), body, codec.encode_result(result))
        await self._write(self._finish, wish)

    async def put_result(self, result: Result) -> bool:
        """See the port: the result of a task that never ran."""
        wish = (_text(result.task_id), codec.encode_result(result))
        return bool(await self._write(self._put_result, wish))

    async def result(self, task_id: str) -> Result | None:
        """See the port: the result, or None."""
        rows = await self._read(sql.RESULT, (_text(task_id),))
        return codec.decode_result(rows[0][0]) if rows and rows[0][0] is not None else None

    async def request_cancel(self, task_id: str) -> bool:
        """See the port: note that a task should stop."""
        return bool(await self._write(self._cancel, _text(task_id)))

    async def cancel_requested(self, task_id: str) -> bool:
        """See the port: whether it should stop."""
        rows = await self._read(sql.CANCEL_REQUESTED, (_text(task_id),))
        return bool(rows and rows[0][0])

    async def reopen(self, task_id: str) -> None:
        """See the port: forget the result, keep the events."""
        await self._write(self._reopen, _text(task_id))

    async def view(self, task_id: str, *, after_seq: int = -1) -> RunView | None:
        """See the port: a run for operators."""

        def look(connection: sqlite3.Connection) -> tuple[Any, list[Any]] | None:
            row = connection.execute(sql.VIEW, (_text(task_id),)).fetchone()
            if row is None:
                return None
            after = min(after_seq, 2**62) + 1
            return row, connection.execute(
                sql.EVENTS_AFTER, {"run": row[-1], "after": after}
            ).fetchall()

        found = await _ours(self._file.read(look))
        return None if found is None else _view(found[0], found[1], after_seq)

    async def recent(self, *, limit: int = 50) -> Sequence[RunView]:
        """See the port: the runs that changed last."""
        rows = await self._read(sql.RECENT_LIVE, ())
        rows += await self._read(sql.RECENT_FINISHED, (limit,))
        latest = {row[0]: row for row in rows}.values()  # it may have finished in between
        rows = sorted(latest, key=lambda row: row[5], reverse=True)
        return [_view(row, [], -1) for row in rows[:limit]]

    async def prune(self, *, older_than_seconds: float, kept: Keeper | None = None) -> int:
        """See the port: forget finished runs, and cancels of tasks that never came."""
        before, total = self._clock() - older_than_seconds, 0
        values: dict[str, Any] = {"before": before, "after": 0.0, "number": 0, "limit": PRUNE_BATCH}
        while old := await self._read(sql.PRUNABLE, values):
            spared = set(await kept([row[2] for row in old])) if kept else ()
            total += await self._write(self._prune, [row for row in old if row[2] not in spared])
            values["after"], values["number"], _ = old[-1]
        return total

    async def remember(self, key: str, value: str, *, at: float) -> None:
        """See the port: keep the last good value; it is in the file within a second.

        Every live read of a tool comes by here: it must cost neither a commit nor a thread.
        """
        self._fresh[_text(key)] = Remembered(value, at)
        if self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_later(FLUSH_SECONDS, self._flush_last_good)

    async def recall(self, key: str) -> Remembered | None:
        """See the port: the value, however old."""
        key = _text(key)
        if key in self._fresh:
            return self._fresh[key]
        rows = await self._read(sql.RECALL, (key,))
        return Remembered(*rows[0]) if rows else None

    async def close(self) -> None:
        """See the port: let go of the file."""
        if self._closed:
            return
        self._closed = True
        if self._flushing is not None:
            self._flushing.cancel()
        if (flushed := self._flush_last_good()) is not None:
            await asyncio.wait([flushed])
        await self._file.close()

    # --- between the caller and the writer thread ------------------------------------------------

    async def _write(self, work: Any, argument: Any) -> Any:
        return await _ours(self._file.write(work, argument))

    async def _read(self, statement: str, values: Any) -> list[Any]:
        return await _ours(self._file.read(lambda c: c.execute(statement, values).fetchall()))

    async def _decode(self, bodies: list[bytes]) -> tuple[Event, ...]:
        if sum(map(len, bodies)) < DECODE_HERE_BYTES:
            return codec.decode_all(bodies)
        return await _ours(self._file.read(lambda _: codec.decode_all(bodies)))

    def _flush_last_good(self) -> asyncio.Future[Any] | None:
        """Write what was remembered since the last time; it is at hand until it is written."""
        self._flushing = None
        if not self._fresh:
            return None
        writing = dict(self._fresh)

        def settled(done: asyncio.Future[Any]) -> None:
            if not done.cancelled():
                done.exception()  # a help that may be lost, not a fact
            for key, remembered in writing.items():
                if self._fresh.get(key) is remembered:
                    del self._fresh[key]

        rows = [(key, _text(kept.value), kept.at) for key, kept in writing.items()]
        flushed = self._file.write(self._remember, rows)
        flushed.add_done_callback(settled)
        return flushed

    def _release_orphan(self, outcome: Any) -> None:
        # Opened for a caller that was cancelled meanwhile: nobody should wait for that lease.
        opened, bodies = outcome
        if bodies is not None:
            run = opened[0]
            back = self._file.write(self._release, (run.id, run.epoch))
            back.add_done_callback(lambda done: done.cancelled() or done.exception())

    # --- in the writer thread --------------------------------------------------------------------

    def _open(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        return [self._open_one(connection, wish, now) for wish in wishes]

    def _open_one(self, connection: sqlite3.Connection, wish: Any, now: float) -> Any:
        run_id, owner, lease_seconds = wish
        row = connection.execute(sql.FIND, (run_id,)).fetchone()
        if row is None:  # as most are: one statement
            connection.execute(sql.BEGIN, (run_id, owner, now + lease_seconds, now, now))
            return (Run(run_id, 1, owner, 0), False), []
        number, state, epoch, holder, lease_until, cancel, next_seq, result, redrives = row
        if state == "finished":
            return result, None
        if state == "open" and lease_until > now and holder != owner:
            return RunBusy(f"{holder} runs {run_id}", retry_after_seconds=lease_until - now)
        connection.execute(sql.OWN, (owner, now + lease_seconds, now, number))
        bodies = [body for (body,) in connection.execute(sql.EVENTS, {"run": number})]
        run = Run(run_id, epoch + 1, owner, next_seq, bool(cancel), redrives)
        return (run, state == "open"), bodies

    def _append(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        return [self._append_one(connection, wish, now) for wish in wishes]

    def _append_one(self, connection: sqlite3.Connection, wish: Any, now: float) -> Any:
        run_id, epoch, count, body = wish
        row = connection.execute(sql.APPEND, (count, now, run_id, epoch)).fetchone()
        if row is None:
            return _lost(run_id, epoch)
        number, next_seq, cancel = row
        if count:
            connection.execute(sql.ADD_EVENTS, (number, next_seq - count, count, body))
        return next_seq, bool(cancel)

    def _renew(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        return [
            [
                (connection.execute(sql.RENEW, (now + seconds, now, *key)).fetchone() or [None])[0]
                for key in keys
            ]
            for keys, seconds in wishes
        ]

    def _release(self, connection: sqlite3.Connection, keys: list[Any]) -> list[Any]:
        now = self._clock()
        return [connection.execute(sql.RELEASE, (now, *key)).rowcount for key in keys]

    def _finish(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        return [self._finish_one(connection, wish, now) for wish in wishes]

    def _finish_one(self, connection: sqlite3.Connection, wish: Any, now: float) -> Any:
        run_id, epoch, count, body, result = wish
        row = connection.execute(sql.APPEND, (count, now, run_id, epoch)).fetchone()
        if row is None:
            done = connection.execute(sql.IS_FINISHED_BY, (run_id, epoch)).fetchone()
            return None if done else _lost(run_id, epoch)
        number, next_seq, _ = row
        if count:
            connection.execute(sql.ADD_EVENTS, (number, next_seq - count, count, body))
        connection.execute(sql.FINISH, (result, number))
        return None

    def _put_result(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now, outcomes = self._clock(), []
        for task_id, result in wishes:
            connection.execute(sql.CREATE, (task_id, now, now))
            outcomes.append(connection.execute(sql.PUT_RESULT, (result, now, task_id)).rowcount)
        return outcomes

    def _cancel(self, connection: sqlite3.Connection, ids: list[str]) -> list[Any]:
        now, outcomes = self._clock(), []
        for task_id in ids:
            connection.execute(sql.CREATE, (task_id, now, now))
            outcomes.append(connection.execute(sql.CANCEL, (task_id,)).rowcount)
        return outcomes

    def _reopen(self, connection: sqlite3.Connection, ids: list[str]) -> list[Any]:
        now = self._clock()
        return [connection.execute(sql.REOPEN, (now, task_id)).rowcount for task_id in ids]

    def _prune(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        return [self._prune_some(connection, rows) for rows in wishes]

    def _prune_some(self, connection: sqlite3.Connection, rows: list[Any]) -> int:
        finished = 0
        for row in rows:
            # The row as it was read: a run that has been written to since then stays.
            gone = connection.execute(sql.FORGET_RUN, row).fetchone()
            if gone is not None:
                connection.execute(sql.FORGET_EVENTS, {"run": row[1]})
                finished += gone[0] == "finished"
        return finished

    def _remember(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        for rows in wishes:
            connection.executemany(sql.REMEMBER, rows)
        connection.execute(sql.FORGET_OLDEST, (self.last_good_max,))
        return [None] * len(wishes)


def _view(row: Any, batches: list[Any], after_seq: int) -> RunView:
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


def _text(text: str) -> str:
    # SQLite takes no lone surrogate; an id or a value that has one must not cost the write.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _lost(run_id: str, epoch: int) -> LeaseLost:
    return LeaseLost(f"epoch {epoch} of run {run_id} is over")


async def _ours(outcome: Awaitable[T]) -> T:
    try:
        return await outcome
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise StoreUnavailable("the disk or the file is full; nothing was written") from error
        raise StoreUnavailable(f"the store's file cannot be used: {error}") from error

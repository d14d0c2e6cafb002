"""Journal, results and last good values in the same file as the queue, if you like."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from worker.awaiting import kept
from worker.core.errors import (
    IllegalEvent,
    LeaseLost,
    SessionBusy,
    StoreUnavailable,
)
from worker.core.events import Event
from worker.core.history import RawMessage
from worker.core.task import Result
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import GuardedClock
from worker.store import codec, sqlite_sessions
from worker.store import sqlite_statements as sql
from worker.store.lastgood import LAST_GOOD_MAX, LastGood
from worker.store.mailbox import Mailbox
from worker.store.port import (
    Keeper,
    Opened,
    Remembered,
    Run,
    RunView,
    SessionClaim,
    SessionWait,
    Turn,
)
from worker.store.rows import lost, note_freed, readable, readable_claim, turn_row, view_of
from worker.store.sqlite_lastgood import LastGoodTable
from worker.store.sqlite_mail import SqliteMailbox
from worker.store.sqlite_peers import PeerTable
from worker.store.sqlite_rows import ours, read_view
from worker.store.sqlite_runs import LONG, Runs

AT_ONCE_BYTES = 64 * 1024  # an append of more pages is left to the writer thread
FEW = 16  # so many runs are renewed in the caller's thread
OPEN_AT_ONCE_EVENTS = 200
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
        self.last_good = LastGood(LastGoodTable(file, values_max=last_good_max))
        self._file = file
        self._clock = clock or GuardedClock()
        self.mail: Mailbox = SqliteMailbox(file, clock=self._clock)
        self.peers = PeerTable(file, clock=self._clock)
        self._runs = Runs(self._clock)
        self._closed = False

    def __repr__(self) -> str:
        return f"SqliteStore({self._file!r})"

    async def open(
        self, run_id: str, *, owner: str, lease_seconds: float, session: SessionClaim | None = None
    ) -> Opened:
        """See the port: become the owner, fencing older ones."""
        claim = None if session is None else readable_claim(session)
        wish = (readable(run_id), owner, lease_seconds, claim)
        found = await self._begin_open(wish, events_max=OPEN_AT_ONCE_EVENTS)
        if found is LONG:
            found = await self._begin_open(wish, events_max=None)
        if isinstance(found, SessionBusy):
            raise found
        opened, bodies, turns = found
        if bodies is None:
            return Opened(run=None, result=codec.decode_result(opened, run_id))
        run, taken_over = opened
        try:
            events = await self._decode(bodies)
        except (IllegalEvent, asyncio.CancelledError):
            # Written by a newer worker, perhaps: one that can read it must not wait for our lease.
            await self._let_go(found)
            raise
        history, unreadable = codec.load_turns(turns)
        return Opened(run, events, None, taken_over, history, unreadable)

    def _begin_open(self, wish: Any, *, events_max: int | None) -> Awaitable[Any]:
        # A long journal is read in the thread: the event loop has better things to do.
        at_once = events_max is not None
        opening = self._file.write(
            self._runs.open, (*wish, events_max), synced=False, at_once=at_once
        )
        return ours(kept(opening, undo=self._let_go))

    async def append(self, run: Run, events: Sequence[Event], *, synced: bool = True) -> None:
        """See the port: all of the events, or none."""
        body = codec.encode(events)
        wish = (run.id, run.epoch, len(events), body)
        small = len(body) <= AT_ONCE_BYTES
        appending = self._file.write(self._runs.append, wish, synced=synced, at_once=small)
        run.next_seq, run.cancel_requested = await ours(appending)

    async def renew(self, run: Run, *, lease_seconds: float) -> None:
        """See the port: stay the owner from now."""
        if await self.renew_many([run], lease_seconds=lease_seconds):
            raise lost(run.id, run.epoch)

    async def renew_many(self, runs: Sequence[Run], *, lease_seconds: float) -> Sequence[Run]:
        """See the port: stay the owner of many; returns the lost ones."""
        if not runs:
            return []
        keys = [(run.id, run.epoch) for run in runs]
        wish, few = (keys, lease_seconds), len(keys) <= FEW
        cancels = await ours(self._file.write(self._runs.renew, wish, synced=False, at_once=few))
        lost = []
        for run, cancel in zip(runs, cancels, strict=True):
            if cancel is None:
                lost.append(run)
            else:
                run.cancel_requested = bool(cancel)
        return lost

    async def release(
        self, run: Run, *, hold_seconds: float | None = None, turn: Turn | None = None
    ) -> None:
        """See the port: let go without ending the run."""
        run.closing = True
        wish = (run.id, run.epoch, run.session, hold_seconds, turn_row(turn))
        saves = turn is not None
        releasing = self._file.write(self._runs.release, wish, synced=saves, at_once=not saves)
        note_freed(run, await ours(releasing))

    async def finish(
        self, run: Run, events: Sequence[Event], result: Result, *, turn: Turn | None = None
    ) -> None:
        """See the port: the last events, the result and the turn at once."""
        run.closing = True
        body = codec.encode(events) if events else None
        ending = (len(events), body, codec.encode_result(result))
        wish = (run.id, run.epoch, run.session, ending, turn_row(turn))
        small = turn is None and len(body or b"") + len(ending[-1]) <= AT_ONCE_BYTES
        finishing = self._file.write(self._runs.finish, wish, at_once=small)
        note_freed(run, await ours(finishing))

    async def put_result(self, result: Result) -> bool:
        """See the port: the result of a task that never ran."""
        wish = (readable(result.task_id), codec.encode_result(result))
        return bool(await self._write(self._runs.put_result, wish))

    async def result(self, task_id: str) -> Result | None:
        """See the port: the result, or None."""
        rows = await self._read(sql.RESULT, (readable(task_id),))
        body = rows[0][0] if rows else None
        return None if body is None else codec.decode_result(body, task_id)

    async def request_cancel(self, task_id: str) -> bool:
        """See the port: note that a task should stop."""
        return bool(await self._write(self._runs.cancel, readable(task_id)))

    async def cancel_requested(self, task_id: str) -> bool:
        """See the port: whether it should stop."""
        rows = await self._read(sql.CANCEL_REQUESTED, (readable(task_id),))
        return bool(rows and rows[0][0])

    async def cancelled_among(self, task_ids: Sequence[str]) -> Collection[str]:
        """See the port: those that should stop."""
        names = {readable(task_id): task_id for task_id in task_ids}
        rows = await self._read(sql.CANCELLED_AMONG, (json.dumps([*names]),))
        return [names[task_id] for (task_id,) in rows]

    async def reopen(self, task_id: str, *, redrives: int | None = None) -> None:
        """See the port: forget the result, keep the events."""
        await self._write(self._runs.reopen, (readable(task_id), redrives, redrives))

    async def view(self, task_id: str, *, after_seq: int = -1) -> RunView | None:
        """See the port: a run for operators."""
        wish = (readable(task_id), after_seq, self._clock())
        found = await ours(self._file.read(lambda c: read_view(c, *wish)))
        return None if found is None else view_of(*found, after_seq)

    async def recent(self, *, limit: int = 50) -> Sequence[RunView]:
        """See the port: the runs that changed last."""
        values = {"now": self._clock(), "limit": limit}
        rows = await self._read(sql.RECENT_LIVE, values)
        rows += await self._read(sql.RECENT_FINISHED, values)
        latest = {row[0]: row for row in rows}.values()  # it may have finished in between
        rows = sorted(latest, key=lambda row: row[5], reverse=True)
        return [view_of(row, [], -1) for row in rows[:limit]]

    async def prune(self, *, older_than_seconds: float, kept: Keeper | None = None) -> int:
        """See the port: forget finished runs, and cancels of tasks that never came."""
        before, total = self._clock() - older_than_seconds, 0
        values: dict[str, Any] = {"before": before, "after": 0.0, "number": 0, "limit": PRUNE_BATCH}
        while old := await self._read(sql.PRUNABLE, values):
            spared = set(await kept([row[2] for row in old])) if kept else ()
            total += await self._write(
                self._runs.prune, [row for row in old if row[2] not in spared]
            )
            values["after"], values["number"], _ = old[-1]
        while await self._write(self._runs.forget_sessions, None) == sqlite_sessions.SESSIONS_BATCH:
            pass
        return total

    async def enlist(self, run_id: str, session: SessionClaim) -> None:
        """See the port: a place in the line for a run that will come."""
        await self._write(self._runs.enlist, (readable(run_id), readable_claim(session)))

    async def waits(self, run_id: str) -> SessionWait | None:
        """See the port: the session that a run waits for."""
        run, now = readable(run_id), self._clock()
        return await ours(self._file.read(lambda c: sqlite_sessions.waits(c, run, now)))

    async def conversation(self, session_id: str, *, tenant: str = "") -> Sequence[RawMessage]:
        """See the port: the messages of a session."""
        values = (readable(tenant), readable(session_id), self._clock())
        rows = await self._read(sql.CONVERSATION, values)
        return codec.load_turns(body for (body,) in rows)[0]

    async def remember(self, key: str, value: str, *, at: float) -> None:
        """See the port: keep the last good value; it is in the file within a second."""
        self.last_good.remember(key, value, at)

    async def recall(self, key: str) -> Remembered | None:
        """See the port: the value, however old."""
        return await self.last_good.recall(key)

    async def close(self) -> None:
        """See the port: let go of the file."""
        if self._closed:
            return
        self._closed = True
        await self.last_good.flush()
        await self._file.close()

    # --- between the caller and the writer thread ------------------------------------------------

    async def _write(self, work: Any, argument: Any) -> Any:
        return await ours(self._file.write(work, argument))

    async def _read(self, statement: str, values: Any) -> list[Any]:
        return await ours(self._file.read(lambda c: c.execute(statement, values).fetchall()))

    async def _decode(self, bodies: list[bytes]) -> tuple[Event, ...]:
        if sum(map(len, bodies)) < DECODE_HERE_BYTES:
            return codec.decode_all(bodies)
        return await ours(self._file.read(lambda _: codec.decode_all(bodies)))

    async def _let_go(self, found: Any) -> None:
        # Opened for a caller that has no use for it: nobody should wait for that lease.
        if isinstance(found, tuple) and found[1] is not None:
            with contextlib.suppress(LeaseLost, StoreUnavailable):  # then the lease runs out
                await self.release(found[0][0], hold_seconds=0.0)

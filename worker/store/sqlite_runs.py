"""The changes to the runs of the SQLite store, made for many callers at once.

Each public method is the work of a transaction (`Bulk` of the file): it takes the wishes of all who
wait for the same, and returns their outcomes in that order. What is to be raised is returned.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from worker.core.errors import RunBusy, SessionBusy, SessionConflict
from worker.store import sqlite_sessions as sessions
from worker.store import sqlite_statements as sql
from worker.store.port import Run
from worker.store.rows import lost

LONG = "the journal is too long to be read at once"
_NEW_RUN = (None, "released", 0, "", 0.0, False, 0, None, 0)  # what FIND would tell of one


class Runs:
    """The runs of a file. `clock` gives wall clock seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def open(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Make runs their callers', or say why not; a journal longer than wished is not read (LONG)."""
        now = self._clock()
        return [self._open_one(connection, wish, now) for wish in wishes]

    def _open_one(self, connection: sqlite3.Connection, wish: Any, now: float) -> Any:
        run_id, owner, lease_seconds, claim, events_max = wish
        row = connection.execute(sql.FIND, (run_id,)).fetchone() or _NEW_RUN
        number, state, epoch, holder, lease_until, cancel, next_seq, result, redrives = row
        if state == "finished":
            return result, None, ()
        if state == "open" and lease_until > now and holder != owner:
            return RunBusy(f"{holder} runs {run_id}", retry_after_seconds=lease_until - now)
        if events_max is not None and next_seq > events_max:
            return LONG
        hold, turns = None, []
        if claim is not None:
            taken = sessions.take(connection, claim, run_id, now, fresh=not next_seq)
            if isinstance(taken, SessionBusy):
                return taken
            hold, turns = taken.hold, taken.bodies
        if number is None:  # as most are: one statement
            connection.execute(sql.BEGIN, (run_id, owner, now + lease_seconds, now, now))
            return (Run(run_id, 1, owner, 0, session=hold), False), [], turns
        connection.execute(sql.OWN, (owner, now + lease_seconds, now, number))
        bodies = [body for (body,) in connection.execute(sql.EVENTS, {"run": number})]
        run = Run(run_id, epoch + 1, owner, next_seq, bool(cancel), redrives, session=hold)
        return (run, state == "open"), bodies, turns

    def append(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Add events; what the next number is, and whether the run is to stop."""
        now = self._clock()
        return [self._append_one(connection, wish, now) for wish in wishes]

    def _append_one(self, connection: sqlite3.Connection, wish: Any, now: float) -> Any:
        run_id, epoch, count, body = wish
        row = connection.execute(sql.APPEND, (count, now, run_id, epoch)).fetchone()
        if row is None:
            return lost(run_id, epoch)
        number, next_seq, cancel = row
        if count:
            connection.execute(sql.ADD_EVENTS, (number, next_seq - count, count, body))
        return next_seq, bool(cancel)

    def renew(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Keep runs; for each whether it is to stop, None for one that is lost."""
        now = self._clock()
        return [
            [
                (connection.execute(sql.RENEW, (now + seconds, now, *key)).fetchone() or [None])[0]
                for key in keys
            ]
            for keys, seconds in wishes
        ]

    def release(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Let go of runs, and of their sessions or not."""
        now = self._clock()
        return [self._release_one(connection, wish, now) for wish in wishes]

    def _release_one(self, connection: sqlite3.Connection, wish: Any, now: float) -> Any:
        run_id, epoch, hold, hold_seconds, turn = wish
        if hold is not None and not connection.execute(sql.IS_OWNED, (run_id, epoch)).fetchone():
            return lost(run_id, epoch)
        freed = None
        if hold is not None and hold_seconds is not None:
            sessions.keep(connection, run_id, hold_seconds, now)
        elif hold is not None:
            freed = sessions.free(connection, hold, run_id, turn, now)
            if isinstance(freed, SessionConflict):
                return freed
        gone = connection.execute(sql.RELEASE, (now, run_id, epoch)).rowcount
        return freed if gone else lost(run_id, epoch)

    def finish(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """End runs, with their last events, results and turns."""
        now = self._clock()
        return [self._finish_one(connection, wish, now) for wish in wishes]

    def _finish_one(self, connection: sqlite3.Connection, wish: Any, now: float) -> Any:
        run_id, epoch, hold, (count, body, result), turn = wish
        freed = None
        if hold is not None and connection.execute(sql.IS_OWNED, (run_id, epoch)).fetchone():
            freed = sessions.free(connection, hold, run_id, turn, now)
            if isinstance(freed, SessionConflict):
                return freed
        row = connection.execute(sql.APPEND, (count, now, run_id, epoch)).fetchone()
        if row is None:
            done = connection.execute(sql.IS_FINISHED_BY, (run_id, epoch)).fetchone()
            return None if done else lost(run_id, epoch)
        number, next_seq, _ = row
        if count:
            connection.execute(sql.ADD_EVENTS, (number, next_seq - count, count, body))
        connection.execute(sql.FINISH, (result, number))
        return freed

    def put_result(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """End runs that never began; 0 for one that has ended before."""
        now, outcomes = self._clock(), []
        for task_id, result in wishes:
            connection.execute(sql.CREATE, (task_id, now, now))
            is_new = connection.execute(sql.PUT_RESULT, (result, now, task_id)).rowcount
            if is_new:
                sessions.let_go(connection, task_id, now)
            outcomes.append(is_new)
        return outcomes

    def cancel(self, connection: sqlite3.Connection, ids: list[str]) -> list[Any]:
        """Note that runs should stop; 0 for one that has ended."""
        now, outcomes = self._clock(), []
        for task_id in ids:
            connection.execute(sql.CREATE, (task_id, now, now))
            outcomes.append(connection.execute(sql.CANCEL, (task_id,)).rowcount)
        return outcomes

    def reopen(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Forget results, and keep the events."""
        now = self._clock()
        return [connection.execute(sql.REOPEN, (now, *wish)).rowcount for wish in wishes]

    def prune(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Forget runs, if they are still as they were read; how many had ended."""
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

    def enlist(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Put runs that will come into the lines of their sessions."""
        for run_id, claim in wishes:
            sessions.enlist(connection, claim, run_id, self._clock())
        return [None] * len(wishes)

    def forget_sessions(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Forget some sessions that are over; how many."""
        return [sessions.forget_some(connection, self._clock()) for _ in wishes]

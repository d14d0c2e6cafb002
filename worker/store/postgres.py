"""Journal, sessions, results and last good values in a PostgreSQL database.

Every write of a run asks for its epoch in the statement that writes; what needs several statements
(a run with a session, a post) does so in one transaction, in which the row that is asked is locked.
The clock is the server's, so workers need not agree on the time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from worker.awaiting import kept
from worker.core.errors import (
    IllegalEvent,
    LeaseLost,
    RunBusy,
    SessionBusy,
    SessionConflict,
    StoreUnavailable,
)
from worker.core.events import Event
from worker.core.history import RawMessage
from worker.core.task import Result
from worker.postgres.link import PostgresLink
from worker.postgres.text import storable
from worker.store import codec
from worker.store import postgres_runs as changes
from worker.store import postgres_session_statements as session_sql
from worker.store import postgres_sessions as sessions
from worker.store import postgres_statements as sql
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
from worker.store.postgres_lastgood import LastGoodTable
from worker.store.postgres_mail import PostgresMailbox
from worker.store.postgres_peers import PeerTable
from worker.store.rows import Freed, lost, note_freed, turn_row, view_of

PRUNE_BATCH = 200  # runs in one transaction, so that it stays short
OPEN_TRIES_MAX = 5  # each means that another has begun and let go of the run within a moment
DECODE_HERE_BYTES = 64 * 1024  # a longer journal is decoded in a thread, beside the event loop


class PostgresStore:
    """A store in a PostgreSQL database; see the port for what each method promises.

    Takes over one use of `link` and closes it.
    """

    system = "postgresql"

    def __init__(self, link: PostgresLink, *, last_good_max: int = LAST_GOOD_MAX) -> None:
        self.last_good = LastGood(LastGoodTable(link, values_max=last_good_max))
        self.mail: Mailbox = PostgresMailbox(link)
        self.peers = PeerTable(link)
        self._link = link
        self._opens: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"PostgresStore({self._link!r})"

    async def open(
        self, run_id: str, *, owner: str, lease_seconds: float, session: SessionClaim | None = None
    ) -> Opened:
        """See the port: become the owner, fencing older ones."""
        values = {"run": storable(run_id), "owner": storable(owner), "seconds": lease_seconds}
        claim = None if session is None else sessions.storable_claim(session)
        opening = asyncio.create_task(self._begin(values, claim))
        self._opens.add(opening)
        opening.add_done_callback(self._opens.discard)
        begun = await kept(opening, undo=self._let_go)
        if isinstance(begun, SessionBusy | RunBusy):
            raise begun
        if isinstance(begun, bytes):
            return Opened(run=None, result=codec.decode_result(begun, run_id))
        try:
            events = await self._events(begun)
        except (IllegalEvent, StoreUnavailable, asyncio.CancelledError):
            # Written by a newer worker, perhaps: one that can read it must not wait for our lease.
            await self._let_go(begun)
            raise
        history, unreadable = codec.load_turns(begun.turns)
        return Opened(begun.run, events, None, begun.taken_over, history, unreadable)

    async def append(self, run: Run, events: Sequence[Event], *, synced: bool = True) -> None:
        """See the port: all of the events, or none."""
        values = {**changes.owned(run), "count": len(events), "body": codec.encode(events)}
        statement = sql.APPEND if synced else sql.APPEND_UNSYNCED
        await self._link.run(
            lambda on: changes.append(on, run, statement, values), in_turn=changes.turn_of(run)
        )

    async def renew(self, run: Run, *, lease_seconds: float) -> None:
        """See the port: stay the owner from now."""
        if await self.renew_many([run], lease_seconds=lease_seconds):
            raise lost(run.id, run.epoch)

    async def renew_many(self, runs: Sequence[Run], *, lease_seconds: float) -> Sequence[Run]:
        """See the port: stay the owner of many; returns the lost ones."""
        if not runs:
            return []
        keys = [(storable(run.id), run.epoch) for run in runs]
        ids, epochs = zip(*keys, strict=True)
        values = {"runs": list(ids), "epochs": list(epochs), "seconds": lease_seconds}
        rows = await self._link.rows(sql.RENEW, values)
        cancels = {(run_id, epoch): cancel for run_id, epoch, cancel in rows}
        lost_runs = []
        for run, key in zip(runs, keys, strict=True):
            if key in cancels:
                run.cancel_requested = cancels[key]
            else:
                lost_runs.append(run)
        return lost_runs

    async def release(
        self, run: Run, *, hold_seconds: float | None = None, turn: Turn | None = None
    ) -> None:
        """See the port: let go without ending the run."""
        run.closing = True
        values, hold, row = changes.owned(run), run.session, turn_row(turn)
        if hold is None:
            freed: Any = await self._link.count(
                sql.RELEASE_UNSYNCED, values, in_turn=changes.turn_of(run)
            )
        else:
            freed = await self._link.transact(
                lambda tx: changes.release(tx, values, hold, hold_seconds, row),
                in_turn=changes.turn_of(run),
            )
        if not freed:
            raise lost(run.id, run.epoch)
        if isinstance(freed, SessionConflict):
            raise freed
        note_freed(run, freed if isinstance(freed, Freed) else None)

    async def finish(
        self, run: Run, events: Sequence[Event], result: Result, *, turn: Turn | None = None
    ) -> None:
        """See the port: the last events, the result and the turn at once."""
        run.closing = True
        hold, row = run.session, turn_row(turn)
        values = {
            **changes.owned(run),
            "count": len(events),
            "body": codec.encode(events),
            "result": codec.encode_result(result),
        }
        if hold is None:
            freed: Any = await self._link.rows(sql.FINISH, values, in_turn=changes.turn_of(run))
        else:
            freed = await self._link.transact(
                lambda tx: changes.finish(tx, values, hold, row), in_turn=changes.turn_of(run)
            )
        if isinstance(freed, SessionConflict):
            raise freed
        if not freed and not await self._link.rows(sql.IS_FINISHED_BY, values):
            raise lost(run.id, run.epoch)
        note_freed(run, freed if isinstance(freed, Freed) else None)

    async def put_result(self, result: Result) -> bool:
        """See the port: the result of a task that never ran."""
        values = {"run": storable(result.task_id), "result": codec.encode_result(result)}
        return bool(await self._link.rows(sql.PUT_RESULT, values))

    async def result(self, task_id: str) -> Result | None:
        """See the port: the result, or None."""
        rows = await self._link.rows(sql.RESULT, {"run": storable(task_id)})
        return codec.decode_result(rows[0][0], task_id) if rows else None

    async def request_cancel(self, task_id: str) -> bool:
        """See the port: note that a task should stop."""
        return bool(await self._link.count(sql.CANCEL, {"run": storable(task_id)}))

    async def cancel_requested(self, task_id: str) -> bool:
        """See the port: whether it should stop."""
        return bool(await self.cancelled_among([task_id]))

    async def cancelled_among(self, task_ids: Sequence[str]) -> Collection[str]:
        """See the port: those that should stop."""
        if not task_ids:
            return []
        names = {storable(task_id): task_id for task_id in task_ids}
        rows = await self._link.rows(sql.CANCELLED_AMONG, {"runs": [*names]})
        return [names[task_id] for (task_id,) in rows]

    async def reopen(self, task_id: str, *, redrives: int | None = None) -> None:
        """See the port: forget the result, keep the events."""
        await self._link.count(sql.REOPEN, {"run": storable(task_id), "redrives": redrives})

    async def view(self, task_id: str, *, after_seq: int = -1) -> RunView | None:
        """See the port: a run for operators."""
        rows = await self._link.rows(sql.VIEW, {"run": storable(task_id)})
        if not rows:
            return None
        *row, number, next_seq = rows[0]
        first = max(after_seq, -1) + 1
        if first >= next_seq:
            return view_of(row, [], after_seq)
        # Events are only ever added, so up to this number they are those of the moment of the row.
        values = {"run": number, "next_seq": next_seq, "first": first}
        return view_of(row, await self._link.rows(sql.EVENTS_AFTER, values), after_seq)

    async def recent(self, *, limit: int = 50) -> Sequence[RunView]:
        """See the port: the runs that changed last."""
        rows = await self._link.rows(sql.RECENT, {"limit": limit})
        return [view_of(row, [], -1) for row in rows]

    async def prune(self, *, older_than_seconds: float, kept: Keeper | None = None) -> int:
        """See the port: forget finished runs, and cancels of tasks that never came."""
        [(now,)] = await self._link.rows(sql.NOW, {})
        values = {"before": now - older_than_seconds, "limit": PRUNE_BATCH}
        values |= {"after": 0.0, "number": 0}
        total = 0
        while old := await self._link.rows(sql.PRUNABLE, values):
            spared = set(await kept([row[2] for row in old])) if kept else ()
            going = [row for row in old if row[2] not in spared]
            wish = {"ats": [row[0] for row in going], "numbers": [row[1] for row in going]}
            total += (await self._link.rows(sql.FORGET_RUNS, wish))[0][0] if going else 0
            values["after"], values["number"], _ = old[-1]
        while await self._link.transact(sessions.forget_some) == sessions.SESSIONS_BATCH:
            pass
        return total

    async def enlist(self, run_id: str, session: SessionClaim) -> None:
        """See the port: a place in the line for a run that will come."""
        claim = sessions.storable_claim(session)
        await self._link.transact(lambda tx: sessions.enlist(tx, claim, storable(run_id)))

    async def waits(self, run_id: str) -> SessionWait | None:
        """See the port: the session that a run waits for."""
        return await self._link.transact(lambda tx: sessions.waits(tx, storable(run_id)))

    async def conversation(self, session_id: str, *, tenant: str = "") -> Sequence[RawMessage]:
        """See the port: the messages of a session."""
        values = {"tenant": storable(tenant), "id": storable(session_id)}
        rows = await self._link.rows(session_sql.CONVERSATION, values)
        return codec.load_turns(body for (body,) in rows)[0]

    async def remember(self, key: str, value: str, *, at: float) -> None:
        """See the port: keep the last good value; it is in the table within a second."""
        self.last_good.remember(key, value, at)

    async def recall(self, key: str) -> Remembered | None:
        """See the port: the value, however old."""
        return await self.last_good.recall(key)

    async def close(self) -> None:
        """See the port: let go of the connections."""
        if self._closed:
            return
        self._closed = True
        if self._opens:
            await asyncio.wait(self._opens)
        await self.last_good.flush()
        await self._link.close()

    # --- opening ---------------------------------------------------------------------------------

    async def _begin(
        self, values: dict[str, Any], claim: SessionClaim | None
    ) -> changes.Begun | RunBusy | SessionBusy | bytes:
        """Make the run the caller's, unless it has ended (its result) or cannot be had now."""
        if claim is not None:
            return await self._link.transact(lambda tx: changes.begin_with(tx, values, claim))
        for _ in range(OPEN_TRIES_MAX):
            [row] = await self._link.rows(sql.OPEN, values)
            if (begun := changes.begun_of(row, values)) is not None:
                return begun
        return RunBusy(f"{values['run']} is being opened by others", retry_after_seconds=1.0)

    async def _events(self, begun: changes.Begun) -> tuple[Event, ...]:
        if not begun.run.next_seq:
            return ()
        values = {"run": begun.number, "next_seq": begun.run.next_seq}
        bodies = [body for (body,) in await self._link.rows(sql.EVENTS, values)]
        if sum(map(len, bodies)) < DECODE_HERE_BYTES:
            return codec.decode_all(bodies)
        return await asyncio.to_thread(codec.decode_all, bodies)

    async def _let_go(self, begun: Any) -> None:
        # Opened for a caller that has no use for it: nobody should wait for that lease.
        if isinstance(begun, changes.Begun):
            with contextlib.suppress(LeaseLost, StoreUnavailable):  # then the lease runs out
                await self.release(begun.run, hold_seconds=0.0)

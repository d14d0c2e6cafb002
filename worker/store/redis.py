"""Journal, results, conversations and last good values on a Redis or Valkey server.

A run is a hash and a stream; every change of it is one script, which looks at the epoch first. The
clock is the server's. What a write survives is the server's to say: its `appendfsync`.

A write whose answer got lost has had its effect or not. The next one of the same run finds out: it
says where it belongs, and is told when that place is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any
from weakref import WeakSet, WeakValueDictionary

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
from worker.redislink import RedisLink
from worker.redistalk import Script
from worker.store import codec
from worker.store import redis_journal as lua
from worker.store import redis_sessions as lines
from worker.store.lastgood import LAST_GOOD_MAX, LastGood
from worker.store.mailbox import Mailbox
from worker.store.port import (
    Keeper,
    Opened,
    Remembered,
    Run,
    RunView,
    SessionClaim,
    SessionHold,
    SessionWait,
    Turn,
)
from worker.store.redis_lastgood import LastGoodHash
from worker.store.redis_lua import PAGE
from worker.store.redis_mail import RedisMailbox
from worker.store.redis_peers import PeerHash
from worker.store.rows import (
    EVENTS_MAX,
    Freed,
    lost,
    note_freed,
    readable,
    readable_claim,
    turn_row,
    view_of,
)

DECODE_HERE_BYTES = 64 * 1024  # a longer journal is decoded in a thread, beside the event loop
TRIES_MAX = 10  # of a write that finds its place taken; each earlier one can take it once

Batch = tuple[int, bytes]


class RedisStore:
    """A store on a Redis or Valkey server; see the port for what each method promises.

    Takes over one use of `link` and closes it.
    """

    system = "redis"

    def __init__(self, link: RedisLink, *, last_good_max: int = LAST_GOOD_MAX) -> None:
        self._link = link
        self.keys = ("{" + link.settings.prefix + "store}",)
        self.last_good = LastGood(LastGoodHash(link, self.keys, values_max=last_good_max))
        self.mail: Mailbox = RedisMailbox(link, self.keys)
        self.peers = PeerHash(link, self.keys)
        self._in_turn: WeakValueDictionary[tuple[str, int], asyncio.Lock] = WeakValueDictionary()
        self._abandoned: WeakSet[asyncio.Future[Any]] = WeakSet()  # openings that nobody awaits
        self._closed = False

    def __repr__(self) -> str:
        return f"RedisStore({self._link!r})"

    async def open(
        self, run_id: str, *, owner: str, lease_seconds: float, session: SessionClaim | None = None
    ) -> Opened:
        """See the port: become the owner, fencing older ones.

        Cancelled while it is under way: what it opens is let go of.
        """
        wish = (readable(run_id), readable(owner), lease_seconds, *_claim(session))
        opening = self._link.begin(lua.OPEN, self.keys, *wish)
        try:
            found = await kept(
                opening, undo=lambda told: self._let_go(_run_of(told, run_id, owner))
            )
        except asyncio.CancelledError:
            self._abandoned.add(opening)
            raise
        kind = found[0].decode()
        if kind == "ended":
            return Opened(run=None, result=codec.decode_result(found[1], run_id))
        if kind == "busy":
            holder, left = found[1].decode(), float(found[2])
            raise RunBusy(f"{holder} runs {run_id}", retry_after_seconds=left)
        if kind == "waits":
            named = session.id if session is not None else ""
            raise SessionBusy(f"session {named!r} is busy", ahead=found[1])
        run = _run_of(found, run_id, owner, session)
        assert run is not None
        try:
            events = await self._decode(await self._all(run.id, run.next_seq, found[-1]))
        except (IllegalEvent, asyncio.CancelledError, StoreUnavailable):
            # Written by a newer worker, perhaps: one that can read it must not wait for our lease.
            await self._let_go(run)
            raise
        history, unreadable = codec.load_turns(found[7])
        return Opened(run, events, None, bool(found[5]), history, unreadable)

    async def append(self, run: Run, events: Sequence[Event], *, synced: bool = True) -> None:
        """See the port: all of the events, or none."""
        body, count = codec.encode(events), len(events)
        async with self._turn_of(run):
            for _ in range(TRIES_MAX):
                wish = (readable(run.id), run.epoch, run.next_seq, count, body)
                found = await self._run(lua.APPEND, *wish)
                if found is None:
                    raise lost(run.id, run.epoch)
                run.next_seq, run.cancel_requested = found[0], bool(found[2])
                if found[1]:
                    return
        raise _contested(run)

    async def renew(self, run: Run, *, lease_seconds: float) -> None:
        """See the port: stay the owner from now."""
        if await self.renew_many([run], lease_seconds=lease_seconds):
            raise lost(run.id, run.epoch)

    async def renew_many(self, runs: Sequence[Run], *, lease_seconds: float) -> Sequence[Run]:
        """See the port: stay the owner of many; returns the lost ones."""
        if not runs:
            return []
        pairs = [word for run in runs for word in (readable(run.id), run.epoch)]
        told = await self._run(lua.RENEW, lease_seconds, *pairs)
        gone = []
        for run, found in zip(runs, told, strict=True):
            if found:
                run.cancel_requested = found > 1
            else:
                gone.append(run)
        return gone

    async def release(
        self, run: Run, *, hold_seconds: float | None = None, turn: Turn | None = None
    ) -> None:
        """See the port: let go without ending the run."""
        run.closing = True
        kept_for = "" if hold_seconds is None else hold_seconds
        has_session = int(run.session is not None)
        wish = (readable(run.id), run.epoch, has_session, kept_for, *_saved(run, turn))
        self._note(run, await self._run(lua.RELEASE, *wish))

    async def finish(
        self, run: Run, events: Sequence[Event], result: Result, *, turn: Turn | None = None
    ) -> None:
        """See the port: the last events, the result and the turn at once."""
        run.closing = True
        ending = (len(events), codec.encode(events), codec.encode_result(result))
        saved = (int(run.session is not None), *_saved(run, turn))
        async with self._turn_of(run):
            for _ in range(TRIES_MAX):
                wish = (readable(run.id), run.epoch, run.next_seq, *ending, *saved)
                found = await self._run(lua.FINISH, *wish)
                if found[0] != b"elsewhere":
                    return self._note(run, found)
                run.next_seq = found[1]
        raise _contested(run)

    async def put_result(self, result: Result) -> bool:
        """See the port: the result of a task that never ran."""
        wish = (readable(result.task_id), codec.encode_result(result))
        return bool(await self._run(lua.PUT_RESULT, *wish))

    async def result(self, task_id: str) -> Result | None:
        """See the port: the result, or None."""
        found = await self._run(lua.RESULT, readable(task_id))
        return None if found is None else codec.decode_result(found, task_id)

    async def request_cancel(self, task_id: str) -> bool:
        """See the port: note that a task should stop."""
        return bool(await self._run(lua.CANCEL, readable(task_id)))

    async def cancel_requested(self, task_id: str) -> bool:
        """See the port: whether it should stop."""
        return bool(await self.cancelled_among([task_id]))

    async def cancelled_among(self, task_ids: Sequence[str]) -> Collection[str]:
        """See the port: those that should stop."""
        if not task_ids:
            return []
        places = await self._run(lua.CANCELLED, *map(readable, task_ids))
        return [task_ids[place] for place in places]

    async def reopen(self, task_id: str, *, redrives: int | None = None) -> None:
        """See the port: forget the result, keep the events."""
        await self._run(lua.REOPEN, readable(task_id), "" if redrives is None else redrives)

    async def view(self, task_id: str, *, after_seq: int = -1) -> RunView | None:
        """See the port: a run for operators."""
        name, wanted = readable(task_id), min(max(after_seq, -1) + 1, EVENTS_MAX)
        found = await self._run(lua.VIEW, name, wanted)
        if not found:
            return None
        row, page = found
        # More pages are there, if this one is full: written by now, if not when the row was read.
        batches = await self._all(name, EVENTS_MAX, page)
        return view_of(_shown(row), batches, after_seq)

    async def recent(self, *, limit: int = 50) -> Sequence[RunView]:
        """See the port: the runs that changed last."""
        if limit <= 0:
            return []
        rows = [_shown(row) for row in await self._run(lua.RECENT, limit)]
        rows.sort(key=lambda row: row[5], reverse=True)
        return [view_of(row, [], -1) for row in rows[:limit]]

    async def prune(self, *, older_than_seconds: float, kept: Keeper | None = None) -> int:
        """See the port: forget finished runs, and cancels of tasks that never came."""
        total = await self._prune("ended", older_than_seconds, kept)
        await self._prune("early", older_than_seconds, kept)
        spared, looked = 0, PAGE
        while looked == PAGE:
            looked, gone = await self._run(lines.FORGET_SESSIONS, spared)
            spared += looked - gone
        return total

    async def enlist(self, run_id: str, session: SessionClaim) -> None:
        """See the port: a place in the line for a run that will come."""
        claim = readable_claim(session)
        wish = (readable(run_id), claim.tenant, claim.id, repr(float(claim.place)))
        await self._run(lines.ENLIST, *wish)

    async def waits(self, run_id: str) -> SessionWait | None:
        """See the port: the session that a run waits for."""
        found = await self._run(lines.WAITS, readable(run_id))
        if not found:
            return None
        session, holder, ahead = found
        return SessionWait(session.decode(), holder.decode() if holder else None, ahead)

    async def conversation(self, session_id: str, *, tenant: str = "") -> Sequence[RawMessage]:
        """See the port: the messages of a session."""
        wish = (readable(tenant), readable(session_id))
        return codec.load_turns(await self._run(lines.CONVERSATION, *wish))[0]

    async def remember(self, key: str, value: str, *, at: float) -> None:
        """See the port: a last good value."""
        self.last_good.remember(key, value, at)

    async def recall(self, key: str) -> Remembered | None:
        """See the port: the value, however old."""
        return await self.last_good.recall(key)

    async def close(self) -> None:
        """See the port: write the last values, let go of the connections."""
        if self._closed:
            return
        self._closed = True
        if self._abandoned:
            await asyncio.wait(self._abandoned)
        await self.last_good.flush()
        await self._link.close()

    async def _run(self, script: Script, *values: Any) -> Any:
        return await self._link.run(script, self.keys, *values)

    def _turn_of(self, run: Run) -> asyncio.Lock:
        """One write of a run after the other: each has to know where the last one has ended."""
        return self._in_turn.setdefault((run.id, run.epoch), asyncio.Lock())

    async def _all(self, run_id: str, next_seq: int, page: list[list[Any]]) -> list[Batch]:
        """The batches of a page, and of those that follow it."""
        batches = [(first, body) for first, body in page]
        while len(page) == lua.EVENTS_PAGE and batches[-1][0] + 1 < next_seq:
            page = await self._run(lua.EVENTS, readable(run_id), batches[-1][0] + 1)
            batches += [(first, body) for first, body in page]
        return batches

    async def _decode(self, batches: list[Batch]) -> tuple[Event, ...]:
        bodies = [body for _, body in batches]
        if sum(map(len, bodies)) < DECODE_HERE_BYTES:
            return codec.decode_all(bodies)
        return await asyncio.to_thread(codec.decode_all, bodies)

    async def _let_go(self, run: Run | None) -> None:
        # Opened for a caller that has no use for it: nobody should wait for that lease.
        if run is not None:
            with contextlib.suppress(LeaseLost, StoreUnavailable):  # then the lease runs out
                await self.release(run, hold_seconds=0.0)

    async def _prune(self, kind: str, seconds: float, kept: Keeper | None) -> int:
        total = spared = 0
        while old := await self._run(lua.PRUNABLE, kind, seconds, spared):
            names = {row[0].decode(): row for row in old}
            stays = set(await kept(list(names))) if kept else ()
            rows = [word for name, row in names.items() if name not in stays for word in row]
            gone = await self._run(lua.PRUNE, kind, *rows) if rows else 0
            total, spared = total + gone, spared + len(old) - gone
        return total

    def _note(self, run: Run, found: list[Any]) -> None:
        """Make what a release or finish came to known."""
        kind = found[0].decode()
        if kind == "lost":
            raise lost(run.id, run.epoch)
        if kind == "conflict":
            named = run.session.id if run.session is not None else ""
            raise SessionConflict(f"session {named!r} has been saved", version=found[1])
        if kind == "done":
            note_freed(run, Freed(found[1].decode() if found[1] else None, found[2]))


def _claim(session: SessionClaim | None) -> tuple[Any, ...]:
    if session is None:
        return (0,)
    claim = readable_claim(session)
    return (1, claim.tenant, claim.id, repr(float(claim.place)), int(claim.or_without))


def _saved(run: Run, turn: Turn | None) -> tuple[Any, ...]:
    """What the scripts need to know of the session of a run, and of what it adds."""
    hold, row = run.session, turn_row(turn)
    if hold is None:
        return ("", "", 0, 0)
    named = (readable(hold.tenant), readable(hold.id), hold.version)
    return (*named, 0) if row is None else (*named, 1, row.body, row.ttl_seconds, row.bytes_max)


def _run_of(
    found: list[Any], run_id: str, owner: str, session: SessionClaim | None = None
) -> Run | None:
    """The run that was opened; None when it was not."""
    if found[0] != b"open":
        return None
    _, epoch, next_seq, cancel, redrives, _, version, *_ = found
    run = Run(readable(run_id), epoch, owner, next_seq, bool(cancel), redrives)
    if session is not None and version is not None:
        claim = readable_claim(session)
        run.session = SessionHold(claim.id, claim.tenant, int(version))
    return run


def _shown(row: list[Any]) -> tuple[Any, ...]:
    run_id, state, epoch, owner, created_at, updated_at, result, redrives, left = row
    return (
        *(run_id.decode(), state.decode(), int(epoch), (owner or b"").decode()),
        *(float(created_at), float(updated_at), result, int(redrives or 0)),
        float(left),
    )


def _contested(run: Run) -> StoreUnavailable:
    return StoreUnavailable(f"the journal of {run.id} changes faster than it can be written")

"""Lives in this process; for tests and simulation.

`MemoryBase` is the engine: what it holds survives the stores that are opened on it, and it can be
out of order (`base.outage = True`). Events go through the codec, as everywhere: what cannot be
written must not work here either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from worker.core.errors import LeaseLost, RunBusy, StoreUnavailable
from worker.core.events import Event
from worker.core.history import RawMessage
from worker.core.task import Result
from worker.store import codec
from worker.store.lastgood import LAST_GOOD_MAX
from worker.store.mailbox import Mailbox
from worker.store.memory_mail import Mail, MemoryMailbox
from worker.store.memory_peers import MemoryPeers
from worker.store.memory_sessions import SessionShelf
from worker.store.port import (
    HOLD_PATIENCE_SECONDS,
    Keeper,
    Opened,
    Remembered,
    Run,
    RunView,
    SessionClaim,
    SessionWait,
    Turn,
)


@dataclass(slots=True)
class _Record:
    id: str
    created_at: float
    updated_at: float
    state: str = "released"
    epoch: int = 0
    owner: str = ""
    lease_until: float = 0.0
    cancel: bool = False
    events: list[bytes] = field(default_factory=list)  # one event each
    result: bytes | None = None
    redrives: int = 0


class MemoryBase:
    """The engine behind any number of memory stores; `clock` gives wall clock seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.outage = False
        self.records: dict[str, _Record] = {}
        self.last_good: dict[str, Remembered] = {}
        self.peers: dict[str, tuple[str, float]] = {}
        self.mail = Mail()
        self.sessions = SessionShelf(self._has, self._fence)

    def _has(self, run_id: str, hold_until: float, now: float) -> bool:
        """Whether a run may still have a session that it took."""
        record = self.records.get(run_id)
        if record is not None and record.state == "open":
            return record.lease_until + HOLD_PATIENCE_SECONDS > now
        return record is not None and record.state == "released" and hold_until > now

    def _fence(self, run_id: str) -> None:
        record = self.records.get(run_id)
        if record is not None and record.state == "open":
            record.state = "released"

    def __repr__(self) -> str:
        return f"MemoryBase({len(self.records)} runs{', out of order' if self.outage else ''})"


class MemoryStore:
    """A store on a `MemoryBase`; see the port for what each method promises."""

    system = "memory"

    def __init__(
        self, base: MemoryBase | None = None, *, last_good_max: int = LAST_GOOD_MAX
    ) -> None:
        self.base = base or MemoryBase()
        self.last_good_max = last_good_max
        self.mail: Mailbox = MemoryMailbox(
            self.base.mail, now=self._now, is_finished=self._is_finished
        )
        self.peers = MemoryPeers(self.base.peers, now=self._now)

    def __repr__(self) -> str:
        return f"MemoryStore({self.base!r})"

    async def open(
        self, run_id: str, *, owner: str, lease_seconds: float, session: SessionClaim | None = None
    ) -> Opened:
        """See the port: become the owner, fencing older ones."""
        now = self._now()
        record = self.base.records.get(run_id) or _Record(run_id, now, now)
        if record.state == "finished":
            return Opened(run=None, result=_result(record))
        alive = record.state == "open"
        left = record.lease_until - now
        if alive and left > 0 and record.owner != owner:
            raise RunBusy(f"{record.owner} runs {run_id}", retry_after_seconds=left)
        events = codec.decode_all(record.events)
        hold = None if session is None else self.base.sessions.take(session, run_id, now)
        has_history = session is not None and hold is not None and not events
        history = self.base.sessions.read(session) if session and has_history else ()
        self.base.records[run_id] = record
        record.state, record.owner, record.lease_until = "open", owner, now + lease_seconds
        record.epoch += 1
        record.updated_at = now
        run = Run(
            run_id, record.epoch, owner, len(events), record.cancel, record.redrives, session=hold
        )
        return Opened(run=run, events=events, taken_over=alive, history=history)

    async def append(self, run: Run, events: Sequence[Event], *, synced: bool = True) -> None:
        """See the port: all of the events, or none."""
        self._write(run, events)

    async def renew(self, run: Run, *, lease_seconds: float) -> None:
        """See the port: stay the owner from now."""
        now = self._now()
        record = self._owned(run)  # and no write: it may be called beside one of another thread
        record.updated_at, record.lease_until = now, now + lease_seconds
        run.cancel_requested = record.cancel

    async def renew_many(self, runs: Sequence[Run], *, lease_seconds: float) -> Sequence[Run]:
        """See the port: stay the owner of many; returns the lost ones."""
        self._now()
        lost = []
        for run in runs:
            try:
                await self.renew(run, lease_seconds=lease_seconds)
            except LeaseLost:
                lost.append(run)
        return lost

    async def release(
        self, run: Run, *, hold_seconds: float | None = None, turn: Turn | None = None
    ) -> None:
        """See the port: let go without ending the run."""
        run.closing = True
        self._owned(run)
        if run.session is not None and hold_seconds is not None:
            self.base.sessions.keep(run.id, self._now() + hold_seconds + HOLD_PATIENCE_SECONDS)
        elif run.session is not None:
            self.base.sessions.free(run.session, run.id, turn, self._now())
        self._write(run, ()).state = "released"

    async def finish(
        self, run: Run, events: Sequence[Event], result: Result, *, turn: Turn | None = None
    ) -> None:
        """See the port: the last events, the result and the turn at once."""
        run.closing = True
        record = self.base.records.get(run.id)
        self._now()
        if record is not None and record.state == "finished" and record.epoch == run.epoch:
            return
        raw, _ = codec.encode_result(result), [codec.encode([event]) for event in events]
        self._owned(run)
        if run.session is not None:
            self.base.sessions.free(run.session, run.id, turn, self._now())
        record = self._write(run, events)
        record.state, record.result = "finished", raw

    async def put_result(self, result: Result) -> bool:
        """See the port: the result of a task that never ran."""
        now = self._now()
        raw = codec.encode_result(result)
        record = self._record(result.task_id, now)
        if record.state == "finished":
            return False
        record.state, record.result, record.updated_at = "finished", raw, now
        record.epoch += 1
        self.base.sessions.let_go(result.task_id)
        return True

    async def result(self, task_id: str) -> Result | None:
        """See the port: the result, or None."""
        self._now()
        record = self.base.records.get(task_id)
        return None if record is None else _result(record)

    async def request_cancel(self, task_id: str) -> bool:
        """See the port: note that a task should stop."""
        record = self._record(task_id, self._now())
        if record.state == "finished":
            return False
        record.cancel = True
        return True

    async def cancel_requested(self, task_id: str) -> bool:
        """See the port: whether it should stop."""
        self._now()
        record = self.base.records.get(task_id)
        return record is not None and record.cancel

    async def cancelled_among(self, task_ids: Sequence[str]) -> Collection[str]:
        """See the port: those that should stop."""
        self._now()
        records = self.base.records
        return [i for i in task_ids if (record := records.get(i)) is not None and record.cancel]

    async def reopen(self, task_id: str, *, redrives: int | None = None) -> None:
        """See the port: forget the result, keep the events."""
        now = self._now()
        record = self.base.records.get(task_id)
        is_meant = record is not None and redrives in (None, record.redrives)
        if record is not None and is_meant and record.state == "finished":
            record.state, record.result, record.cancel = "released", None, False
            record.redrives += 1
            record.updated_at = now

    async def view(self, task_id: str, *, after_seq: int = -1) -> RunView | None:
        """See the port: a run for operators."""
        now = self._now()
        record = self.base.records.get(task_id)
        if record is None or record.epoch == 0:
            return None
        return _view(record, record.events, after_seq, now)

    async def recent(self, *, limit: int = 50) -> Sequence[RunView]:
        """See the port: the runs that changed last."""
        now = self._now()
        known = [record for record in self.base.records.values() if record.epoch]
        known.sort(key=lambda record: record.updated_at, reverse=True)
        return [_view(record, (), -1, now) for record in known[:limit]]

    async def prune(self, *, older_than_seconds: float, kept: Keeper | None = None) -> int:
        """See the port: forget finished runs, and cancels of tasks that never came."""
        before = self._now() - older_than_seconds
        ids = [r.id for r in self.base.records.values() if _prunable(r, before)]
        spared = set(await kept(ids)) if kept and ids else set()
        gone = 0
        for run_id in ids:
            record = self.base.records.get(run_id)
            if record is not None and run_id not in spared and _prunable(record, before):
                del self.base.records[run_id]
                gone += record.state == "finished"
        self.base.sessions.forget_old(self._now())
        return gone

    async def enlist(self, run_id: str, session: SessionClaim) -> None:
        """See the port: a place in the line for a run that will come."""
        now = self._now()
        if run_id not in self.base.records:
            self.base.sessions.enlist(session, run_id, now)

    async def waits(self, run_id: str) -> SessionWait | None:
        """See the port: the session that a run waits for."""
        now = self._now()
        return self.base.sessions.waits(run_id, now)

    async def conversation(self, session_id: str, *, tenant: str = "") -> Sequence[RawMessage]:
        """See the port: the messages of a session."""
        now = self._now()
        return self.base.sessions.read(SessionClaim(session_id, tenant), now=now)

    async def remember(self, key: str, value: str, *, at: float) -> None:
        """See the port: keep the last good value."""
        kept = self.base.last_good
        kept.pop(key, None)  # to the end: the oldest is in front
        kept[key] = Remembered(value, at)
        while len(kept) > self.last_good_max:
            del kept[next(iter(kept))]

    async def recall(self, key: str) -> Remembered | None:
        """See the port: the value, however old."""
        self._now()
        return self.base.last_good.get(key)

    async def close(self) -> None:
        """See the port: nothing to let go of here."""

    def _now(self) -> float:
        if self.base.outage:
            raise StoreUnavailable("the memory store is out of order")
        return self.base.clock()

    def _is_finished(self, run_id: str) -> bool:
        record = self.base.records.get(run_id)
        return record is None or record.state == "finished"

    def _record(self, run_id: str, now: float) -> _Record:
        return self.base.records.setdefault(run_id, _Record(run_id, now, now))

    def _owned(self, run: Run) -> _Record:
        record = self.base.records.get(run.id)
        if record is None or record.epoch != run.epoch or record.state != "open":
            raise LeaseLost(f"epoch {run.epoch} of run {run.id} is over")
        return record

    def _write(self, run: Run, events: Sequence[Event]) -> _Record:
        now = self._now()
        record = self._owned(run)
        encoded = [codec.encode([event]) for event in events]
        record.events += encoded
        record.updated_at = now
        run.next_seq = len(record.events)
        run.cancel_requested = record.cancel
        return record


def _prunable(record: _Record, before: float) -> bool:
    return record.updated_at <= before and (record.state == "finished" or record.epoch == 0)


def _result(record: _Record) -> Result | None:
    return None if record.result is None else codec.decode_result(record.result, record.id)


def _view(record: _Record, events: Sequence[bytes], after_seq: int, now: float) -> RunView:
    shown: list[dict[str, Any]] = [
        {"seq": seq, **codec.envelopes(raw)[0]} for seq, raw in enumerate(events) if seq > after_seq
    ]
    return RunView(
        id=record.id,
        state=record.state,
        epoch=record.epoch,
        owner=record.owner,
        created_at=record.created_at,
        updated_at=record.updated_at,
        events=tuple(shown),
        result=_result(record),
        redrives=record.redrives,
        lease_left=max(0.0, record.lease_until - now) if record.state == "open" else 0.0,
    )

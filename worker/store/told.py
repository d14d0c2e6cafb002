"""A store that tells telemetry about every call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from worker.core.errors import (
    LeaseLost,
    RunBusy,
    SessionBusy,
    SessionConflict,
    StoreUnavailable,
)
from worker.core.events import Event
from worker.core.history import RawMessage
from worker.core.task import Result
from worker.store.mailbox import Mailbox
from worker.store.peers import Peers
from worker.store.port import (
    Keeper,
    Opened,
    Remembered,
    Run,
    RunView,
    SessionClaim,
    SessionWait,
    Store,
    Turn,
)
from worker.store.told_mail import TelledMailbox
from worker.telemetry.signals import RunTakenOver, StepUpdated, StoreCall, WriteFenced
from worker.telemetry.tell import Telemetry


class TelledStore:
    """Wrap any store. Writes of a run are operations; what operators look at is not told.

    A write that an epoch refused is told as `WriteFenced`, a run that was taken from an owner who
    had not let go as `RunTakenOver`.
    """

    def __init__(self, store: Store, telemetry: Telemetry) -> None:
        self.inner = store
        self.system = store.system
        self._telemetry = telemetry
        self.mail: Mailbox = TelledMailbox(store.mail, self._watch)
        self.peers: Peers = store.peers

    def __repr__(self) -> str:
        return f"TelledStore({self.inner!r})"

    async def open(
        self, run_id: str, *, owner: str, lease_seconds: float, session: SessionClaim | None = None
    ) -> Opened:
        """See the port; told as `open`, with how many events it found.

        With a session it is told as `load_session`, and as `lock_session` when that is busy.
        """
        with self._watch("open" if session is None else "load_session") as call:
            opened = await self.inner.open(
                run_id, owner=owner, lease_seconds=lease_seconds, session=session
            )
            call.events = len(opened.events)
            is_new = session is not None and not opened.events and opened.result is None
            call.answer = "miss" if is_new and not opened.history else None
            if opened.unreadable:
                call.error_type = "other"
                call.error = f"turns of the session that cannot be read: {opened.unreadable}"
        if opened.taken_over and opened.run is not None:
            self._telemetry.tell(RunTakenOver(run_id, opened.run.epoch, len(opened.events)))
        return opened

    async def append(self, run: Run, events: Sequence[Event], *, synced: bool = True) -> None:
        """See the port; told as `append`."""
        with self._watch("append", run=run, events=len(events)):
            await self.inner.append(run, events, synced=synced)

    async def renew(self, run: Run, *, lease_seconds: float) -> None:
        """See the port; told as `renew`."""
        with self._watch("renew", run=run):
            await self.inner.renew(run, lease_seconds=lease_seconds)

    async def renew_many(self, runs: Sequence[Run], *, lease_seconds: float) -> Sequence[Run]:
        """See the port; told as one `renew`."""
        with self._watch("renew"):
            lost = await self.inner.renew_many(runs, lease_seconds=lease_seconds)
        for run in lost:
            if not run.closing:
                self._telemetry.tell(WriteFenced(run.id, "renew"))
        return lost

    async def release(
        self, run: Run, *, hold_seconds: float | None = None, turn: Turn | None = None
    ) -> None:
        """See the port; told as `release`, or as `save_session` when it saves one."""
        with self._watch("release" if turn is None else "save_session", run=run) as call:
            await self.inner.release(run, hold_seconds=hold_seconds, turn=turn)
            call.size_bytes = _size(run, turn)

    async def finish(
        self, run: Run, events: Sequence[Event], result: Result, *, turn: Turn | None = None
    ) -> None:
        """See the port; told as `finish`, or as `save_session` when it saves one."""
        name = "finish" if turn is None else "save_session"
        with self._watch(name, run=run, events=len(events)) as call:
            await self.inner.finish(run, events, result, turn=turn)
            call.size_bytes = _size(run, turn)

    async def put_result(self, result: Result) -> bool:
        """See the port; told as `put_result`, and as the end of the task to whoever watches it."""
        with self._watch("put_result"):
            is_first = await self.inner.put_result(result)
        if is_first:
            self._telemetry.tell(StepUpdated(result.task_id, 0, "", is_final=True))
        return is_first

    async def result(self, task_id: str) -> Result | None:
        """See the port."""
        return await self.inner.result(task_id)

    async def request_cancel(self, task_id: str) -> bool:
        """See the port."""
        return await self.inner.request_cancel(task_id)

    async def cancel_requested(self, task_id: str) -> bool:
        """See the port."""
        return await self.inner.cancel_requested(task_id)

    async def cancelled_among(self, task_ids: Sequence[str]) -> Collection[str]:
        """See the port."""
        return await self.inner.cancelled_among(task_ids)

    async def reopen(self, task_id: str, *, redrives: int | None = None) -> None:
        """See the port."""
        await self.inner.reopen(task_id, redrives=redrives)

    async def view(self, task_id: str, *, after_seq: int = -1) -> RunView | None:
        """See the port."""
        return await self.inner.view(task_id, after_seq=after_seq)

    async def recent(self, *, limit: int = 50) -> Sequence[RunView]:
        """See the port."""
        return await self.inner.recent(limit=limit)

    async def prune(self, *, older_than_seconds: float, kept: Keeper | None = None) -> int:
        """See the port."""
        return await self.inner.prune(older_than_seconds=older_than_seconds, kept=kept)

    async def enlist(self, run_id: str, session: SessionClaim) -> None:
        """See the port."""
        await self.inner.enlist(run_id, session)

    async def waits(self, run_id: str) -> SessionWait | None:
        """See the port."""
        return await self.inner.waits(run_id)

    async def conversation(self, session_id: str, *, tenant: str = "") -> Sequence[RawMessage]:
        """See the port."""
        return await self.inner.conversation(session_id, tenant=tenant)

    async def remember(self, key: str, value: str, *, at: float) -> None:
        """See the port."""
        await self.inner.remember(key, value, at=at)

    async def recall(self, key: str) -> Remembered | None:
        """See the port."""
        return await self.inner.recall(key)

    async def close(self) -> None:
        """See the port."""
        await self.inner.close()

    def _watch(self, name: str, *, run: Run | None = None, events: int = 0) -> _Told:
        call = StoreCall(name=name, system=self.system, events=events)
        return _Told(self._telemetry, call, run)


class _Told:
    """One call under watch, its errors in the words of telemetry."""

    __slots__ = ("_call", "_run", "_telemetry", "_watch")

    def __init__(self, telemetry: Telemetry, call: StoreCall, run: Run | None) -> None:
        self._telemetry = telemetry
        self._call = call
        self._run = run
        self._watch = telemetry.watch(call)

    def __enter__(self) -> StoreCall:
        return self._watch.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, SessionBusy):
            self._call.name, self._call.answer = "lock_session", "conflict"
            self._call.ahead = error.ahead
        elif isinstance(error, SessionConflict):
            self._call.error_type, self._call.error = "conflict", str(error)
        elif isinstance(error, LeaseLost | RunBusy | StoreUnavailable):
            # A fence and a busy run are answers; only an outage is the engine's error.
            outage = isinstance(error, StoreUnavailable)
            self._call.error_type = "connection" if outage else "other"
            self._call.error = f"{type(error).__name__}: {error}"
            if self._run is not None and isinstance(error, LeaseLost):
                self._telemetry.tell(WriteFenced(self._run.id, self._call.name))
        self._watch.__exit__(kind, error, traceback)


def _size(run: Run, turn: Turn | None) -> int:
    return run.session.size_bytes if turn is not None and run.session is not None else 0

"""The broker and the store of a world: the memory engines, with somebody who notes what they did.

They outlive every worker. What is noted is what the engine has done, whatever its caller heard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.facts import (
    Claimed,
    Ended,
    Fact,
    LetGo,
    Opened,
    Published,
    Redriven,
    Revived,
    Settled,
    Wrote,
)
from worker.core.events import Event
from worker.core.task import Result
from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.queues.port import Lease, Ticket
from worker.store import codec
from worker.store.memory import MemoryBase, MemoryStore
from worker.store.port import Opened as OpenedRun
from worker.store.port import Run, SessionClaim, Turn

Note = Callable[[Fact], None]


class NotedQueue(MemoryQueue):
    """A memory queue that notes claims and settlements."""

    def __init__(
        self, broker: MemoryBroker, note: Note, draining: Callable[[], bool], **options: Any
    ) -> None:
        super().__init__(broker, **options)
        self._note = note
        self._draining = draining

    async def claim(self, **wish: Any) -> list[Lease]:
        """See the port."""
        leases = await super().claim(**wish)
        for lease in leases:
            self._note(Claimed(lease.id, lease.token, lease.deliveries, lease.lapses))
        return leases

    async def ack(self, lease: Lease) -> None:
        """See the port."""
        await super().ack(lease)
        self._settled(lease, "ack", counted=True, reason="")

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port."""
        await super().nack(lease, delay_seconds=delay_seconds, counted=counted, reason=reason)
        self._settled(lease, "nack", counted=counted, reason=reason)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port."""
        await super().dead_letter(lease, reason=reason)
        self._settled(lease, "dead_letter", counted=True, reason=reason)

    async def redrive(self, task_id: str) -> bool:
        """See the port."""
        was_dead = await super().redrive(task_id)
        if was_dead:
            self._note(Revived(task_id))
        return was_dead

    def sibling(self, name: str) -> MemoryQueue:
        """See the port."""
        return NotedReplies(self.broker, self._note, name=name)

    def _settled(self, lease: Lease, action: str, *, counted: bool, reason: str) -> None:
        by_drain = self._draining()
        self._note(Settled(lease.id, lease.token, action, counted, reason, by_drain))


class NotedReplies(MemoryQueue):
    """The queue that results are published to."""

    def __init__(self, broker: MemoryBroker, note: Note, *, name: str) -> None:
        super().__init__(broker, name=name)
        self._note = note

    async def put(self, ticket: Ticket) -> bool:
        """See the port."""
        added = await super().put(ticket)
        self._note(Published(self.name, ticket.body))
        return added


class NotedStore(MemoryStore):
    """A memory store that notes who opened, wrote and ended what."""

    def __init__(self, base: MemoryBase, note: Note) -> None:
        super().__init__(base)
        self._note = note

    async def open(
        self, run_id: str, *, owner: str, lease_seconds: float, session: SessionClaim | None = None
    ) -> OpenedRun:
        """See the port."""
        opened = await super().open(
            run_id, owner=owner, lease_seconds=lease_seconds, session=session
        )
        if opened.run is not None:
            held = opened.run.session.id if opened.run.session else None
            self._note(Opened(run_id, opened.run.epoch, held, len(opened.events)))
        return opened

    async def append(self, run: Run, events: Sequence[Event], *, synced: bool = True) -> None:
        """See the port."""
        await super().append(run, events, synced=synced)
        self._wrote(run, events)

    async def release(
        self, run: Run, *, hold_seconds: float | None = None, turn: Turn | None = None
    ) -> None:
        """See the port."""
        await super().release(run, hold_seconds=hold_seconds, turn=turn)
        self._note(LetGo(run.id, run.epoch))

    async def finish(
        self, run: Run, events: Sequence[Event], result: Result, *, turn: Turn | None = None
    ) -> None:
        """See the port."""
        was_finished = self.base.records[run.id].state == "finished"
        await super().finish(run, events, result, turn=turn)
        if not was_finished:
            self._wrote(run, events)
            session = run.session.id if run.session and turn else None
            self._note(Ended(run.id, run.epoch, result, session))

    async def put_result(self, result: Result) -> bool:
        """See the port."""
        is_new = await super().put_result(result)
        if is_new:
            self._note(Ended(result.task_id, None, result))
        return is_new

    async def reopen(self, task_id: str, *, redrives: int | None = None) -> None:
        """See the port."""
        had = await super().result(task_id) is not None
        await super().reopen(task_id, redrives=redrives)
        if had and await super().result(task_id) is None:
            self._note(Redriven(task_id))

    def _wrote(self, run: Run, events: Sequence[Event]) -> None:
        if events:
            sizes = tuple(len(codec.encode([event])) for event in events)
            self._note(Wrote(run.id, run.epoch, tuple(events), sizes))

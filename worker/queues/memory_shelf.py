"""What the memory queue keeps of one name: rows, and who is next."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field

from worker.queues.places import place_from
from worker.queues.port import AGEING_SECONDS, DeadLetter, Lease, Place
from worker.queues.reasons import HISTORY_MAX, lease_ran_out


@dataclass(slots=True, eq=False)
class Row:
    """One task."""

    id: str
    body: bytes
    priority: int
    number: int
    enqueued_at: float
    ready_at: float
    state: str = "ready"
    deliveries: int = 0
    handings: int = 0
    lapses: int = 0
    woken: bool = False  # somebody woke it while it was leased
    token: int = 0
    owner: str = ""
    lease_until: float = 0.0
    leased_at: float = 0.0
    finished_at: float = 0.0
    reason: str = ""
    history: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        """Add a line to the history, which is bounded."""
        self.history = [*self.history[1 - HISTORY_MAX :], line]


class Shelf:
    """The tasks of one name. Every method is synchronous: state changes between two awaits."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.ready: list[tuple[float, int, Row]] = []
        self.hidden: list[tuple[float, int, Row]] = []
        self.leased: dict[str, Row] = {}
        self.changed = asyncio.Event()

    def show(self, row: Row) -> None:
        """Make a task ready."""
        row.state = "ready"
        rank = row.ready_at - AGEING_SECONDS * row.priority
        heapq.heappush(self.ready, (rank, row.number, row))
        self.wake()

    def hide(self, row: Row, *, state: str, until: float) -> None:
        """Keep a task from being claimed until then."""
        row.state, row.ready_at = state, until
        heapq.heappush(self.hidden, (until, row.number, row))
        self.wake()  # whoever waits has to look again at how long it may wait

    def wake(self) -> None:
        """Let those who wait for a task look again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def wake_due(self, now: float) -> None:
        """Make ready what has been hidden long enough."""
        while self.hidden and self.hidden[0][0] <= now:
            until, _, row = heapq.heappop(self.hidden)
            if row.state in ("delayed", "parked") and row.ready_at == until:
                self.show(row)

    def next_row(self, now: float) -> Row | None:
        """Take the task that should be claimed next: expired leases first."""
        expired = [row for row in self.leased.values() if row.lease_until <= now]
        if expired:
            row = min(expired, key=lambda row: row.lease_until)
            row.lapses += 1
            row.note(lease_ran_out(delivery=row.deliveries, owner=row.owner))
            return row
        return self.next_ready()

    def next_ready(self) -> Row | None:
        """Take the ready task that should be claimed next."""
        while self.ready:
            row = heapq.heappop(self.ready)[2]
            if row.state == "ready" and self.rows.get(row.id) is row:
                return row
        return None

    def next_moment(self) -> float | None:
        """When the next hidden task or lease is due."""
        moments = [row.lease_until for row in self.leased.values()]
        if self.hidden:
            moments.append(self.hidden[0][0])
        return min(moments, default=None)


def lease_of(row: Row, *, token: str, expires_at: float) -> Lease:
    """The lease of a row that has just been claimed."""
    return Lease(
        id=row.id,
        body=row.body,
        deliveries=row.deliveries,
        handings=row.handings,
        token=token,
        enqueued_at=row.enqueued_at,
        expires_at=expires_at,
        priority=row.priority,
        lapses=row.lapses,
    )


def place_of(row: Row, state: str) -> Place:
    """Where a row is, and why; `state` is what it comes to at this moment."""
    return place_from(
        row.state,
        state,
        ready_at=row.ready_at,
        lease_until=row.lease_until,
        owner=row.owner,
        deliveries=row.deliveries,
        last_line=row.history[-1] if row.history else "",
    )


def dead_letter_of(row: Row) -> DeadLetter:
    """A dead row as operators see it."""
    return DeadLetter(
        id=row.id,
        body=row.body,
        reason=row.reason,
        deliveries=row.deliveries,
        enqueued_at=row.enqueued_at,
        died_at=row.finished_at,
        last_owner=row.owner,
        history=tuple(row.history),
    )

"""Lives in this process; for tests and simulation.

`MemoryBroker` is the engine: what it holds survives the queues that are opened on it, and it can
be out of order (`broker.outage = True`). Several queues opened on one broker act like several
processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from worker.awaiting import happened
from worker.core.errors import LeaseLost, QueueFull, QueueUnavailable
from worker.queues.holding import Holding
from worker.queues.memory_shelf import Row, Shelf, dead_letter_of, lease_of, place_of
from worker.queues.port import (
    MAX_DELIVERIES,
    Capabilities,
    DeadLetter,
    Depth,
    Lease,
    Place,
    Ticket,
)
from worker.queues.reasons import delivered_too_often, handed_back

Clock = Callable[[], float]
_WAITING = ("ready", "delayed", "parked")


class MemoryBroker:
    """The engine behind any number of memory queues.

    `clock` gives wall clock seconds; `outage` makes every call raise QueueUnavailable.
    """

    def __init__(self, *, clock: Clock = time.time) -> None:
        self.clock = clock
        self.outage = False
        self.shelves: dict[str, Shelf] = {}
        self.numbers = 0

    def __repr__(self) -> str:
        held = {name: len(shelf.rows) for name, shelf in self.shelves.items()}
        return f"MemoryBroker({held}{', out of order' if self.outage else ''})"

    def clock_moved(self) -> None:
        """Make waiting claims look again, after a clock has jumped that only a test can move."""
        for shelf in self.shelves.values():
            shelf.wake()

    def number(self) -> int:
        """A number never given before, for order and for tokens."""
        self.numbers += 1
        return self.numbers


class MemoryQueue:
    """A queue on a `MemoryBroker`; see the port for what each method promises."""

    capabilities = Capabilities()
    system = "memory"

    def __init__(
        self,
        broker: MemoryBroker | None = None,
        *,
        name: str = "tasks",
        max_deliveries: int = MAX_DELIVERIES,
        depth_max: int | None = None,
    ) -> None:
        self.broker = broker or MemoryBroker()
        self.name = name
        self.max_deliveries = max_deliveries
        self.depth_max = depth_max
        self._shelf = self.broker.shelves.setdefault(name, Shelf())
        self._held = Holding(self.nack)
        self._siblings: list[MemoryQueue] = []

    def __repr__(self) -> str:
        return f"MemoryQueue({self.name!r}, {len(self._held)} leases held)"

    async def put(self, ticket: Ticket) -> bool:
        """See the port: add a task; False when its id is known."""
        now, shelf = self._now(), self._shelf
        if ticket.id in shelf.rows:
            return False
        if self.depth_max is not None:
            waiting = sum(row.state in _WAITING for row in shelf.rows.values())
            if waiting >= self.depth_max:
                raise QueueFull(f"queue {self.name!r} holds {waiting} tasks, its limit")
        due = max(now, ticket.not_before or now)
        number = self.broker.number()
        row = Row(ticket.id, bytes(ticket.body), ticket.priority, number, now, due)
        shelf.rows[row.id] = row
        if due > now:
            shelf.hide(row, state="delayed", until=due)
        else:
            shelf.show(row)
        return True

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """See the port: lease up to `limit` tasks, waiting for the first."""
        loop_time = asyncio.get_running_loop().time  # a simulated loop has a time of its own
        give_up_at = loop_time() + wait_seconds
        while True:
            leases = self._claim_now(owner, lease_seconds, limit)
            left = give_up_at - loop_time()
            if leases or left <= 0:
                return leases
            due = self._shelf.next_moment()
            if due is not None:
                left = min(left, max(0.001, due - self.broker.clock()))
            await happened(self._shelf.changed, within=left)

    def _claim_now(self, owner: str, lease_seconds: float, limit: int) -> list[Lease]:
        now, shelf = self._now(), self._shelf
        expires_at = asyncio.get_running_loop().time() + lease_seconds
        shelf.wake_due(now)
        leases: list[Lease] = []
        while len(leases) < limit and (row := shelf.next_row(now)) is not None:
            if row.deliveries >= self.max_deliveries:
                self._bury(row, delivered_too_often(row.deliveries))
                self._held.tell_dead([row.id])
                continue
            row.state, row.owner, row.token = "leased", owner, self.broker.number()
            row.woken = False
            row.deliveries += 1
            row.handings += 1
            row.leased_at, row.lease_until = now, now + lease_seconds
            shelf.leased[row.id] = row
            leases.append(lease_of(row, token=str(row.token), expires_at=expires_at))
        self._held.take(leases)
        return leases

    async def extend(self, lease: Lease, *, lease_seconds: float) -> None:
        """See the port: keep the lease from now."""
        now = self._now()
        self._owned(lease).lease_until = now + lease_seconds

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """See the port: keep many leases; returns the lost ones."""
        until, lost = self._now() + lease_seconds, []
        for lease in leases:
            try:
                self._owned(lease).lease_until = until
            except LeaseLost:
                lost.append(lease)
        return lost

    async def ack(self, lease: Lease) -> None:
        """See the port: settle for good."""
        row, now = self._shelf.rows.get(lease.id), self._now()
        if row is None or (row.state == "done" and str(row.token) == lease.token):
            return
        row = self._owned(lease)
        row.state, row.body, row.finished_at = "done", b"", now
        self._let_go(lease)

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port: hand back, hidden for the delay."""
        now, row = self._now(), self._owned(lease)
        row.note(handed_back(delivery=row.deliveries, reason=reason))
        row.deliveries -= not counted
        self._let_go(lease)
        if delay_seconds > 0 and row.woken and not counted:
            row.ready_at = now
            self._shelf.show(row)
        elif delay_seconds > 0:
            state = "delayed" if counted else "parked"
            self._shelf.hide(row, state=state, until=now + delay_seconds)
        else:
            row.ready_at = now if counted else row.ready_at
            self._shelf.show(row)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port: give the task up."""
        self._now()
        self._bury(self._owned(lease), reason)
        self._let_go(lease)

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port: the newest dead letters first."""
        self._now()
        rows = [row for row in self._shelf.rows.values() if row.state == "dead"]
        rows.sort(key=lambda row: (-row.finished_at, -row.token))
        return [dead_letter_of(row) for row in rows[:limit]]

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port: tell of the tasks that claims give up."""
        self._held.listen(told)

    async def redrive(self, task_id: str) -> bool:
        """See the port: put a dead letter back."""
        now, row = self._now(), self._shelf.rows.get(task_id)
        if row is None or row.state != "dead":
            return False
        row.note("redriven")
        row.deliveries, row.ready_at, row.reason = 0, now, ""
        self._shelf.show(row)
        return True

    async def cancel(self, task_id: str) -> bool:
        """See the port: remove a waiting task."""
        now, row = self._now(), self._shelf.rows.get(task_id)
        if row is None or row.state not in _WAITING:
            return False
        row.state, row.body, row.finished_at = "done", b"", now
        return True

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: make a parked task ready; here it is found by its id."""
        now = self._now()
        row = self._shelf.rows.get(task_id)
        if row is not None and row.state == "leased":
            row.woken = True
        if row is None or row.state != "parked":
            return False
        row.ready_at = now if afresh else row.enqueued_at
        self._shelf.show(row)
        return True

    async def state(self, task_id: str) -> str | None:
        """See the port: where a task is."""
        now = self._now()
        self._shelf.wake_due(now)
        row = self._shelf.rows.get(task_id)
        if row is None:
            return None
        expired = row.state == "leased" and row.lease_until <= now
        return "ready" if expired else row.state

    async def place(self, task_id: str) -> Place | None:
        """See the port: where a task is, and why."""
        state = await self.state(task_id)
        return None if state is None else place_of(self._shelf.rows[task_id], state)

    async def body(self, task_id: str) -> bytes | None:
        """See the port: what was put."""
        self._now()
        row = self._shelf.rows.get(task_id)
        return None if row is None or row.state == "done" else row.body

    async def depth(self) -> Depth:
        """See the port: tasks by state."""
        now = self._now()
        self._shelf.wake_due(now)
        counts = dict.fromkeys(("ready", "delayed", "leased", "parked", "dead", "done"), 0)
        ready_since, leased_since = [], []
        for row in self._shelf.rows.values():
            expired = row.state == "leased" and row.lease_until <= now
            counts["ready" if expired else row.state] += 1
            if row.state == "ready" or expired:
                ready_since.append(row.lease_until if expired else row.ready_at)
            elif row.state == "leased":
                leased_since.append(row.leased_at)
        del counts["done"]
        return Depth(
            **counts,
            oldest_ready_seconds=now - min(ready_since) if ready_since else None,
            oldest_leased_seconds=now - min(leased_since) if leased_since else None,
        )

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port: forget settled tasks."""
        before = self._now() - older_than_seconds
        rows = self._shelf.rows
        gone = [r.id for r in rows.values() if r.state == "done" and r.finished_at <= before]
        for task_id in gone:
            del rows[task_id]
        return len(gone)

    def sibling(self, name: str) -> MemoryQueue:
        """See the port: the queue of another name on the same broker."""
        other = MemoryQueue(
            self.broker, name=name, max_deliveries=self.max_deliveries, depth_max=self.depth_max
        )
        self._siblings.append(other)
        return other

    async def close(self) -> None:
        """See the port: hand unsettled leases back uncounted."""
        for sibling in self._siblings:
            await sibling.close()
        await self._held.end()

    def _now(self) -> float:
        if self.broker.outage:
            raise QueueUnavailable("the memory broker is out of order")
        return self.broker.clock()

    def _owned(self, lease: Lease) -> Row:
        row = self._shelf.rows.get(lease.id)
        if row is None or row.state != "leased" or str(row.token) != lease.token:
            raise self._held.lost(lease)
        return row

    def _let_go(self, lease: Lease) -> None:
        self._shelf.leased.pop(lease.id, None)
        self._held.let_go(lease)

    def _bury(self, row: Row, reason: str) -> None:
        row.state, row.reason, row.finished_at = "dead", reason, self.broker.clock()
        row.note(reason)
        row.token = self.broker.number()
        self._shelf.leased.pop(row.id, None)

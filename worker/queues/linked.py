"""What queues have in common whose connection lives in a thread of its own.

The work is done in that thread, by `work`; here is what belongs to the caller's event loop: waiting
for tasks, leases in hand, and handing them back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from worker.queues.holding import Found, Holding
from worker.queues.port import DeadLetter, Depth, Lease, Place, Ticket
from worker.queues.reasons import readable

T = TypeVar("T")


class Claimed(Found, Protocol):
    """What one look for tasks has brought: leases, and the ids of those that it gave up."""

    @property
    def dead(self) -> list[str]:
        """Which were given up."""
        ...


C = TypeVar("C", bound=Claimed)


class Link(Protocol):
    """A connection in its own thread, as `ownloop.py` makes them."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something there. Cancelled: it is done all the same."""
        ...

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for something there. Cancelled: so is it."""
        ...

    async def close(self) -> None:
        """Let go of one use."""
        ...


class Work(Protocol[C]):
    """The tasks of one queue, in the thread of the link. False: the lease is lost."""

    async def put(self, ticket: Ticket) -> bool:
        """Add a task."""
        ...

    async def claim(self, owner: str, lease_seconds: float, limit: int) -> C:
        """Lease what can be leased now."""
        ...

    async def wait(self, claimed: C, seconds: float) -> None:
        """Wait until it is worth looking again, or for so long."""
        ...

    async def extend_many(self, leases: Sequence[Lease], lease_seconds: float) -> Sequence[Lease]:
        """Keep leases; returns the lost ones."""
        ...

    async def ack(self, lease: Lease) -> bool:
        """Settle for good."""
        ...

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> bool:
        """Hand back."""
        ...

    async def dead_letter(self, lease: Lease, reason: str) -> bool:
        """Give up."""
        ...

    async def close(self) -> None:
        """Let go of what the queue has there."""
        ...


class Look(Protocol):
    """Questions about one queue, and to its dead letters, in the thread of the link."""

    async def dead(self, limit: int) -> Sequence[DeadLetter]:
        """The newest dead letters first."""
        ...

    async def redrive(self, task_id: str) -> bool:
        """Put a dead letter back."""
        ...

    async def place(self, task_id: str) -> Place | None:
        """Where a task is, and why."""
        ...

    async def depth(self) -> Depth:
        """Tasks by state."""
        ...


class LinkedQueue(Generic[C]):
    """The part of a queue that is the same on every such engine; see the port."""

    name: str

    def __init__(self, link: Link, work: Work[C], look: Look) -> None:
        self._uses, self._does, self._tells = link, work, look
        self._held = Holding(self.nack)
        self._siblings: list[LinkedQueue[C]] = []
        self._closed = False

    async def put(self, ticket: Ticket) -> bool:
        """See the port: add a task; False when its id is known."""
        return await self._uses.run(self._does.put(ticket))

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """See the port: lease up to `limit` tasks, waiting for the first.

        Cancelled while the claim is under way: what it gets is handed back uncounted.
        """
        give_up_at = time.monotonic() + wait_seconds
        while True:
            claimed = await self._held.look(self._ask(readable(owner), lease_seconds, limit))
            left = give_up_at - time.monotonic()
            if claimed.leases or left <= 0:
                return claimed.leases
            await self._uses.wait(self._does.wait(claimed, left))

    async def extend(self, lease: Lease, *, lease_seconds: float) -> None:
        """See the port: keep the lease from now."""
        if await self.extend_many([lease], lease_seconds=lease_seconds):
            raise self._held.lost(lease)

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """See the port: keep many leases; returns the lost ones."""
        return await self._uses.run(self._does.extend_many(leases, lease_seconds))

    async def ack(self, lease: Lease) -> None:
        """See the port: settle for good."""
        await self._settle(lease, self._does.ack(lease))

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port: hand back, hidden for the delay."""
        work = self._does.nack(lease, delay_seconds=delay_seconds, counted=counted, reason=reason)
        await self._settle(lease, work)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port: give the task up."""
        await self._settle(lease, self._does.dead_letter(lease, reason))

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port: tell of the tasks that claims give up."""
        self._held.listen(told)

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port: the newest dead letters first."""
        return await self._uses.run(self._tells.dead(limit))

    async def redrive(self, task_id: str) -> bool:
        """See the port: put a dead letter back."""
        return await self._uses.run(self._tells.redrive(readable(task_id)))

    async def place(self, task_id: str) -> Place | None:
        """See the port: where a task is, and why."""
        return await self._uses.run(self._tells.place(readable(task_id)))

    async def depth(self) -> Depth:
        """See the port: tasks by state."""
        return await self._uses.run(self._tells.depth())

    async def state(self, task_id: str) -> str | None:
        """See the port: where a task is."""
        place = await self.place(task_id)
        return None if place is None else place.state

    async def close(self) -> None:
        """See the port: hand unsettled leases back uncounted, let go of the connection."""
        if self._closed:
            return
        self._closed = True
        for sibling in self._siblings:
            await sibling.close()
        await self._held.end()
        await self._uses.run(self._does.close())
        await self._uses.close()

    async def _ask(self, owner: str, lease_seconds: float, limit: int) -> C:
        claimed = await self._uses.run(self._does.claim(owner, lease_seconds, limit))
        self._held.take(claimed.leases)
        self._held.tell_dead(claimed.dead)
        return claimed

    async def _settle(self, lease: Lease, work: Coroutine[Any, Any, bool]) -> None:
        if not await self._uses.run(work):
            raise self._held.lost(lease)
        self._held.let_go(lease)

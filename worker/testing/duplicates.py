"""A queue that delivers every claim twice, as a broker is allowed to (Q20)."""

from __future__ import annotations

from typing import Any, cast

from worker.queues.port import Lease, Queue


class DuplicatingQueue:
    """Wrap a queue: each lease comes a second time with the next claim, in the same words.

    Everything else passes through. A consumer must survive this without running a task twice.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._again: list[Lease] = []

    def __repr__(self) -> str:
        return f"DuplicatingQueue({self._queue!r})"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """Claim as the queue does, but first what was delivered before."""
        again, self._again = self._again[:limit], self._again[limit:]
        if again:
            return again
        leases = await self._queue.claim(
            owner=owner, lease_seconds=lease_seconds, wait_seconds=wait_seconds, limit=limit
        )
        self._again += leases
        return leases

    def sibling(self, name: str) -> Queue:
        """Open the queue of another name, which delivers twice as well."""
        return cast(Queue, DuplicatingQueue(self._queue.sibling(name)))


def duplicating(queue: Queue) -> Queue:
    """The queue, delivering everything twice."""
    return cast(Queue, DuplicatingQueue(queue))

"""At most so many at once, first come first served.

A slot belongs to the work, not to whoever waits for it: a tool that was left behind keeps its slot
until it really ends. All state changes are synchronous; one event loop per bulkhead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable

from worker.core.errors import BulkheadFull


class Bulkhead:
    """Slots for one dependency, with a short, bounded queue in front."""

    def __init__(self, name: str, *, limit: int, queue_max: int) -> None:
        self.name = name
        self.limit = limit
        self.queue_max = queue_max
        self.in_use = 0
        self.in_use_peak = 0
        self.left_behind: set[Hashable] = set()  # work that outlived its time limit
        self._waiters: deque[asyncio.Future[bool]] = deque()

    def __repr__(self) -> str:
        return (
            f"Bulkhead({self.name}: {self.in_use}/{self.limit} in use, {self.waiting} waiting, "
            f"{self.zombies} left behind)"
        )

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot."""
        return sum(not waiter.done() for waiter in self._waiters)

    @property
    def has_queue(self) -> bool:
        """Whether a slot that is given back goes straight to somebody."""
        return bool(self._waiters)

    @property
    def zombies(self) -> int:
        """Pieces of work that nobody waits for any more and that still hold a slot."""
        return len(self.left_behind)

    def try_acquire(self) -> bool:
        """Take a slot if one is free. A queue means that none is: nobody overtakes."""
        if self.in_use >= self.limit:
            return False
        self.in_use += 1
        if self.in_use > self.in_use_peak:
            self.in_use_peak = self.in_use
        return True

    async def acquire(self, *, seconds: float) -> None:
        """Take a slot, waiting for one no longer than `seconds`.

        Raises BulkheadFull. Cancelled: no slot is held, and the next in the queue gets it.
        """
        if self.try_acquire():
            return
        if seconds <= 0 or self.waiting >= self.queue_max:
            raise self._full()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_later(seconds, _answer, waiter, False)
        try:
            granted = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.release()  # the slot was handed over in the same tick
            raise
        finally:
            timer.cancel()
        if not granted:
            raise self._full()

    def release(self) -> None:
        """Give a slot back; the one who waits longest gets it."""
        assert self.in_use > 0, "a slot was given back twice"
        while self._waiters:
            if _answer(self._waiters.popleft(), True):
                return
        self.in_use -= 1

    def _full(self) -> BulkheadFull:
        return BulkheadFull(f"{self.name}: bulkhead_full", dependency=self.name)


def _answer(waiter: asyncio.Future[bool], granted: bool) -> bool:
    if waiter.done():
        return False
    waiter.set_result(granted)
    return True

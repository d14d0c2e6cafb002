"""A bounded queue and one thread: how telemetry leaves without anybody waiting for it.

Log lines and spans both go through an `Outbox`. Whoever puts something returns at once; when the
outlet is blocked (a full pipe, a dead collector) the queue fills, further items are dropped and
counted, and the worker goes on. Items are handed over in batches: the thread sleeps a little after
the first one, and goes on looking by itself while there is something each time. So a busy worker
never wakes it, which would cost more than the items.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """How much may wait, and for how long. Weight is bytes for lines and 1 for a span."""

    capacity: int
    batch: int
    delay_seconds: float


class DeliveryFailed(Exception):
    """The outlet did not take a batch; `reason` is a word of loopworker_telemetry_dropped_total."""

    def __init__(self, reason: str, lost: int) -> None:
        super().__init__(f"{lost} items: {reason}")
        self.reason = reason
        self.lost = lost


class Outbox:
    """Takes items from any thread and hands them to `deliver`, in order, in its own thread.

    `deliver(batch)` may block and may raise DeliveryFailed. `on_drop(reason, count)` hears of every
    lost item, in the thread that lost it; it must not wait.
    """

    def __init__(
        self,
        name: str,
        deliver: Callable[[list[Any]], None],
        *,
        limits: OutboxLimits,
        weigh: Callable[[Any], int] | None = None,
        on_drop: Callable[[str, int], None] | None = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self.dropped = 0
        self.delivered = 0
        self._deliver = deliver
        self._weigh = weigh
        self._on_drop = on_drop
        self._items: deque[Any] = deque()
        self._weight = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._empty = threading.Event()
        self._empty.set()
        self._closing = False
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return (
            f"Outbox({self.name}: {len(self._items)} waiting, {self.delivered} delivered, "
            f"{self.dropped} dropped)"
        )

    def put(self, item: Any) -> bool:
        """Queue an item; False, and counted, when there is no room or the outbox is closed."""
        weight = 1 if self._weigh is None else self._weigh(item)
        with self._lock:
            if self._closing or self._weight + weight > self.limits.capacity:
                fits = False
            else:
                fits = True
                self._items.append(item)
                self._weight += weight
                if self._empty.is_set():
                    self._empty.clear()
        if not fits:
            self.lose("queue_full", 1)
            return False
        if not self._wake.is_set():
            if self._thread is None:
                self._start()
            self._wake.set()
        elif self._weight * 2 > self.limits.capacity:
            self._hurry.set()
        return True

    def lose(self, reason: str, count: int) -> None:
        """Count items that will never arrive."""
        self.dropped += count
        if self._on_drop is not None:
            self._on_drop(reason, count)

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything put so far was handed over; False when time ran out. Blocks."""
        self._hurry.set()
        return self._empty.wait(timeout_seconds)

    def close(self, timeout_seconds: float) -> int:
        """Hand over what waits, within the budget; returns how many items were left behind.

        Blocks at most that long. A thread that hangs in the outlet is a daemon and is left alone.
        """
        with self._lock:
            self._closing = True
        self._hurry.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        with self._lock:
            left = len(self._items)
            self._items.clear()
        if left:
            self.lose("queue_full", left)
        return left

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(
                    target=self._run, name=f"loopworker-{self.name}", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while not self._closing or self._items:
            self._wake.wait()
            self._hurry.wait(self.limits.delay_seconds)
            self._hurry.clear()
            if self._items:
                while batch := self._take():
                    self._hand_over(batch)
            else:
                self._wake.clear()
                if self._items or self._closing:  # put meanwhile, by somebody who saw us awake
                    self._wake.set()

    def _take(self) -> list[Any]:
        with self._lock:
            count = min(len(self._items), self.limits.batch)
            batch = [self._items.popleft() for _ in range(count)]
            weigh = self._weigh
            self._weight -= len(batch) if weigh is None else sum(map(weigh, batch))
            if not batch:
                self._empty.set()
        return batch

    def _hand_over(self, batch: list[Any]) -> None:
        try:
            self._deliver(batch)
            self.delivered += len(batch)
        except DeliveryFailed as failure:
            self.delivered += len(batch) - failure.lost
            self.lose(failure.reason, failure.lost)
        except Exception:  # an exporter may raise anything; the thread must live on
            self.lose("export_failed", len(batch))
            time.sleep(min(self.limits.delay_seconds, 0.1))

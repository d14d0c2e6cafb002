"""What a suite needs to know of an engine: how to open it, break it and let time pass."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from worker.queues.port import Queue
from worker.store.port import Store

PATIENCE_SECONDS = 10.0  # how long a test waits for what must happen


class FakeClock:
    """Wall clock seconds that only a test moves."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def __repr__(self) -> str:
        return f"FakeClock({self.now})"


class QueueHarness(Protocol):
    """One engine, empty at first, that lives for one test.

    Every `open` is another process's view of it: nothing but the engine may be shared.
    """

    async def open(
        self, *, name: str = "tasks", max_deliveries: int = 5, depth_max: int | None = None
    ) -> Queue:
        """Open a queue on the engine."""
        ...

    async def pass_time(self, seconds: float) -> None:
        """Let the engine's clock move on: jump where it can be moved, else wait."""
        ...

    def outage(self) -> AbstractAsyncContextManager[None]:
        """Put the engine out of order for the length of a `with` block."""
        ...

    async def close(self) -> None:
        """Close what was opened, and the engine."""
        ...


class StoreHarness(Protocol):
    """As `QueueHarness`, for a store."""

    async def open(self) -> Store:
        """Open a store on the engine."""
        ...

    async def pass_time(self, seconds: float) -> None:
        """Let the engine's clock move on: jump where it can be moved, else wait."""
        ...

    def outage(self) -> AbstractAsyncContextManager[None]:
        """Put the engine out of order for the length of a `with` block."""
        ...

    async def close(self) -> None:
        """Close what was opened, and the engine."""
        ...

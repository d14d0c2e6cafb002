"""From submit to start at low load: one task at a time, each a moment after the last one began."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

PAUSE_SECONDS = 0.01
WARM = 30  # tasks that are not counted
LATE_SECONDS = 30.0  # a task that has not begun by then never will


class Paced:
    """Gives out tasks by number, and is told when each begins."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began: dict[int, asyncio.Event] = {}
        self._at: dict[int, float] = {}

    def began(self, number: int) -> None:
        """Note that a task begins now."""
        self._at[number] = time.perf_counter()
        self._began[number].set()

    async def measure(self, put: Callable[[int], Awaitable[Any]]) -> dict[str, Any]:
        """Put so many tasks; milliseconds from just before each put until it begins."""
        found: list[float] = []
        for number in range(WARM + self._count):
            self._began[number] = asyncio.Event()
            asked = time.perf_counter()
            async with asyncio.timeout(LATE_SECONDS):
                await put(number)
                await self._began[number].wait()
            found.append(self._at[number] - asked)
            await asyncio.sleep(PAUSE_SECONDS)
        percentiles = statistics.quantiles(found[WARM:], n=100)
        return {"p50_ms": percentiles[49] * 1e3, "p99_ms": percentiles[98] * 1e3}

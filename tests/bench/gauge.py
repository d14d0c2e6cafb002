"""Count finished loops and read the process's meters at the first and the last that count."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import statistics
import threading
import time
from pathlib import Path
from typing import Any

KIB = 1024
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / KIB
QUESTION = "Look up item 0, then measure item 1, and say what you found."


class Gauge:
    """Counts loops. The first `warm` are not measured, the next `count` are.

    More than that have to be in work, so that the process is equally busy at both ends.
    """

    def __init__(self, *, warm: int, count: int) -> None:
        self.warm = warm
        self.count = count
        self.seen = 0
        self.latencies: list[float] = []
        self.done = asyncio.Event()
        self.is_warm = asyncio.Event()
        self._from = self._to = (0.0, 0.0)
        self._threads_from: dict[str, float] = {}
        self._threads_to: dict[str, float] = {}

    def tick(self) -> None:
        """Count one loop."""
        self.seen += 1
        if self.seen == self.warm:
            self._threads_from = thread_seconds()
            self._from = (time.process_time(), time.perf_counter())
            self.is_warm.set()
        elif self.seen == self.warm + self.count:
            self._to = (time.process_time(), time.perf_counter())
            self._threads_to = thread_seconds()
            self.done.set()

    def by_thread(self) -> dict[str, float]:
        """CPU milliseconds per loop of each thread that there was at the end."""
        return {
            name: (spent - self._threads_from.get(name, 0.0)) / self.count * 1e3
            for name, spent in self._threads_to.items()
        }

    def figures(self) -> dict[str, Any]:
        """CPU milliseconds per loop, all threads; loops per second; latency in milliseconds."""
        cpu, wall = (end - start for start, end in zip(self._from, self._to, strict=True))
        figures: dict[str, Any] = {"cpu_ms": cpu / self.count * 1e3}
        figures |= {"per_second": self.count / wall, "threads": self.by_thread()}
        timed = self.latencies[self.warm : self.warm + self.count]
        if len(timed) > 100:
            percentiles = statistics.quantiles(timed, n=100)
            figures |= {"p50_ms": percentiles[49] * 1e3, "p99_ms": percentiles[98] * 1e3}
        return figures


class MemoryWatch:
    """The largest resident size since it was built, in KiB beyond what there was then."""

    def __init__(self) -> None:
        gc.collect()
        self.base = self.largest = resident_kib()
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            self.largest = max(self.largest, resident_kib())

    def stop(self) -> float:
        """Stop looking; return the growth."""
        self._task.cancel()
        return self.largest - self.base


def thread_seconds() -> dict[str, float]:
    """Return the CPU seconds of each Python thread so far, by its name."""
    spent = {}
    for thread in threading.enumerate():
        try:
            line = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text()
        except OSError:  # it has just ended, or this kernel does not tell
            continue
        spent[thread.name] = int(line.split()[0]) / 1e9
    return spent


def resident_kib() -> float:
    """Return the resident size of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KIB


def allow_many_files() -> None:
    """Raise the limit of open files as far as it goes: a thousand loops hold as many sockets."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def plain_tools(gauge: Gauge) -> dict[str, Any]:
    """Two tools that do nothing; the last call of each loop counts it."""

    async def look_up(key: str, region: str) -> str:
        return f"{key} is on shelf 7 in {region}."

    async def measure(key: str, region: str) -> str:
        gauge.tick()
        return f"{key} measures 42 in {region}."

    return {"look_up": look_up, "measure": measure}

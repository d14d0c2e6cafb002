"""Last good values on whatever engine: at hand at once, written within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from worker.store.port import Remembered
from worker.store.rows import readable

LAST_GOOD_MAX = 10_000
FLUSH_SECONDS = 1.0  # how long a last good value may be in memory only

Row = tuple[str, str, float]  # key, value, at


class Values(Protocol):
    """Where an engine keeps them. Beyond `values_max` those stored longest ago are forgotten."""

    values_max: int

    async def read(self, key: str) -> Remembered | None:
        """The value of a key, however old."""
        ...

    async def write(self, rows: Sequence[Row]) -> None:
        """Store some values in one go. What it raises is not told: a value may be lost."""
        ...


class LastGood:
    """Every live read of a tool comes by here: it must cost neither a commit nor a thread."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self._fresh: dict[str, Remembered] = {}
        self._flushing: asyncio.TimerHandle | None = None
        self._writes: set[asyncio.Future[Any]] = set()

    def __repr__(self) -> str:
        return f"LastGood({len(self._fresh)} not in the engine yet)"

    def remember(self, key: str, value: str, at: float) -> None:
        """Keep a value, and write it soon."""
        self._fresh[readable(key)] = Remembered(value, at)
        if self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_later(FLUSH_SECONDS, self._begin_flush)

    async def recall(self, key: str) -> Remembered | None:
        """The value, however old."""
        key = readable(key)
        return self._fresh.get(key) or await self.values.read(key)

    async def flush(self) -> None:
        """Write what was remembered, and wait until it is written or has failed."""
        if self._flushing is not None:
            self._flushing.cancel()
        self._begin_flush()
        if self._writes:
            await asyncio.wait(self._writes)

    def _begin_flush(self) -> None:
        """Write what was remembered since the last time; it is at hand until it is written."""
        self._flushing = None
        if not self._fresh:
            return
        writing = dict(self._fresh)

        def settled(done: asyncio.Future[Any]) -> None:
            self._writes.discard(done)
            if not done.cancelled():
                done.exception()  # a help that may be lost, not a fact
            for key, remembered in writing.items():
                if self._fresh.get(key) is remembered:
                    del self._fresh[key]

        rows = [(key, readable(kept.value), kept.at) for key, kept in writing.items()]
        flushed = asyncio.create_task(self.values.write(rows))
        self._writes.add(flushed)
        flushed.add_done_callback(settled)

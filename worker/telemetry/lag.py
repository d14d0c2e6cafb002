"""The pulse of the event loop: how late it answers, and when it last did.

Ten times a second a task notes the time. Other threads read `last_tick`: the admin server, to say
that the worker is stuck, and the renewal of leases, to let go of them when it is (a stuck worker
that renewed for ever would keep its tasks from everybody else).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from worker.telemetry.signals import LoopLagged
from worker.telemetry.tell import Telemetry

TICK_SECONDS = 0.1


class LagTicker:
    """Ticks while `run` runs; `last_tick` may be read from any thread."""

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        tick_seconds: float = TICK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._telemetry = telemetry
        self._tick_seconds = tick_seconds
        self._clock = clock
        self.last_tick = clock()

    def __repr__(self) -> str:
        return f"LagTicker(last tick {self.age_seconds():.3f} s ago)"

    def age_seconds(self) -> float:
        """How long ago the loop last ticked; from any thread."""
        return self._clock() - self.last_tick

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            due = self._clock() + self._tick_seconds
            await asyncio.sleep(self._tick_seconds)
            now = self._clock()
            self.last_tick = now
            self._telemetry.tell(LoopLagged(max(0.0, now - due)))

"""The pulse of the event loop is felt from other threads, and lag is told."""

from __future__ import annotations

import asyncio
import time

from worker.telemetry.lag import LagTicker
from worker.telemetry.signals import LoopLagged
from worker.telemetry.tell import Telemetry


class Told:
    """A listener that keeps what is told and wakes whoever waits."""

    def __init__(self):
        """Start empty."""
        self.signals = []
        self.changed = asyncio.Event()

    def told(self, signal):
        """Keep it."""
        self.signals.append(signal)
        self.changed.set()


async def test_a_blocked_loop_shows_as_lag_and_as_an_old_tick():
    """While it is blocked, the tick ages; afterwards the lag is as long as the block."""
    told = Told()
    ticker = LagTicker(Telemetry([told]), tick_seconds=0.01)
    task = asyncio.create_task(ticker.run())
    async with asyncio.timeout(5):
        await told.changed.wait()
        before = ticker.last_tick
        time.sleep(0.3)  # noqa: ASYNC251  (blocking the loop is the point)
        age = ticker.age_seconds()
        told.changed.clear()
        await told.changed.wait()
    task.cancel()

    assert age >= 0.3
    assert ticker.last_tick > before
    assert all(isinstance(signal, LoopLagged) for signal in told.signals)
    assert max(signal.lag_seconds for signal in told.signals) >= 0.2
    assert min(signal.lag_seconds for signal in told.signals) >= 0

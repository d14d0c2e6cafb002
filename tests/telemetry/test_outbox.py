"""How telemetry leaves: in batches, in order, without waking anybody under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from worker.telemetry.outbox import Outbox, OutboxLimits


class CountingEvent(threading.Event):
    """An event that knows how often it was set."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def set(self) -> None:
        """Set it, and count that."""
        self.times += 1
        super().set()


def outbox(deliver: Callable[[list[Any]], None], *, delay_seconds: float = 0.005) -> Outbox:
    """An outbox whose wake-ups are counted."""
    limits = OutboxLimits(capacity=1000, batch=10, delay_seconds=delay_seconds)
    box = Outbox("test", deliver, limits=limits)
    box._wake = CountingEvent()
    return box


def until(condition: Callable[[], object]) -> None:
    """Wait for another thread, within a limit."""
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.001)


def test_a_busy_outbox_is_not_woken() -> None:
    """As long as there is something each time the thread looks, it looks by itself."""
    got: list[int] = []
    box = outbox(got.extend, delay_seconds=0.05)
    for number in range(200):
        box.put(number)
        time.sleep(0.0005)

    assert box._wake.times == 1  # type: ignore[attr-defined]
    assert box.close(5) == 0
    assert got == list(range(200))


def test_an_idle_outbox_sleeps_and_is_woken() -> None:
    """With nothing to do the thread looks no more; the next item wakes it, and is delivered."""
    got: list[int] = []
    box = outbox(got.extend)
    for number in range(3):
        box.put(number)
        until(lambda: not box._wake.is_set())
        assert got == list(range(number + 1))

    assert box._wake.times == 3  # type: ignore[attr-defined]
    assert box.close(5) == 0


def test_nothing_is_forgotten_between_looking_and_sleeping() -> None:
    """Whenever an item comes, also just before the thread would sleep, it is delivered."""
    got: list[int] = []
    box = outbox(got.extend, delay_seconds=0.0001)
    for number in range(300):
        box.put(number)
        until(lambda wanted=number + 1: len(got) == wanted)

    assert got == list(range(300))
    assert box.close(5) == 0


def test_flush_and_close_hand_over_what_waits() -> None:
    """Both hurry: nobody waits for the delay. Closed, the outbox takes nothing more."""
    got: list[int] = []
    box = outbox(got.extend, delay_seconds=30)
    began = time.monotonic()
    for number in range(25):
        box.put(number)
    assert box.flush(10) is True
    box.put(25)

    assert box.close(10) == 0
    assert time.monotonic() - began < 10
    assert got == list(range(26))
    assert box.put(26) is False and box.dropped == 1

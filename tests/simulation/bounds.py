"""No world may go on for ever: not in simulated time, not at one moment, and not in real time."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

TURNS_MAX = 100_000  # of the loop while its clock stands still; worlds that end need some hundreds
REAL_SECONDS = 60.0  # for one world, which takes some tenths of a second
_AGAIN_SECONDS = 5.0  # what tidies up after the first alarm may spin as well


class TimeIsUp(KeyboardInterrupt):
    """A world took too long in real time. asyncio lets interrupts pass, and so does the worker."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp in here after so many seconds of real time. Only the main thread is stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, frame: FrameType | None) -> None:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "somewhere"
        raise TimeIsUp(f"after {seconds:g} s of real time it is still at {place}")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

"""An asyncio loop whose clock jumps.

When nothing is ready to run, the clock moves straight to the next timer, so an hour of back-off
takes no time at all and the order of events is the same in every run. Inject `loop.time` wherever
code asks for a monotonic clock and `loop.wall` where it asks for the time of day.

Threads do not live in simulated time. While work handed to `run_in_executor` is out, the loop
waits for it in real time for up to `patience_seconds` before it jumps; real sockets work, but a
peer outside the loop has no time to answer before a time limit jumps past it.
"""

from __future__ import annotations

import asyncio
import functools
import math
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

EPOCH = 1_800_000_000.0  # the time of day at loop time 0: a Friday in January 2027


TURNS_MAX = 1_000_000  # of the loop at one moment: far more than any program needs that ends


class SimStuck(RuntimeError):
    """Nothing can ever happen again, or something happens for ever while the clock stands still."""


class _JumpingSelector:
    """Wraps the real selector: polls it, and moves the clock instead of waiting."""

    def __init__(self, loop: SimLoop, real: selectors.BaseSelector) -> None:
        self._loop = loop
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready; else jump over the time that the caller wanted to wait."""
        self._loop.count_turn()
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self._loop.threads_out:
            ready = self._real.select(self._loop.patience_seconds)
        if ready:
            return ready
        if timeout is None:
            raise SimStuck("everything waits for nothing: nothing is ready and no timer is set")
        self._loop.jump(timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """An event loop in simulated time. `time()` starts at `start` and never stands in the way.

    A program that keeps the loop busy without letting time pass gets SimStuck after `turns_max`.
    """

    def __init__(self, *, start: float = 0.0, patience_seconds: float = 0.5) -> None:
        self._now = start
        self.patience_seconds = patience_seconds
        self.turns_max = TURNS_MAX
        self.threads_out = 0
        self.jumps = 0
        self._turns = 0
        super().__init__(_JumpingSelector(self, selectors.DefaultSelector()))  # type: ignore[arg-type]
        self._set_now(start)

    def __repr__(self) -> str:
        return f"SimLoop(now={self._now:.3f}, jumps={self.jumps})"

    def time(self) -> float:
        """Return the simulated monotonic time in seconds."""
        return self._now

    def wall(self) -> float:
        """Return the simulated time of day in seconds since the epoch."""
        return EPOCH + self._now

    def jump(self, seconds: float) -> None:
        """Move the clock forward; timers that become due run on the next turn of the loop."""
        assert seconds >= 0, "time does not run backwards"
        timers = self._scheduled  # type: ignore[attr-defined]
        then = self._now + seconds
        if timers and abs(timers[0].when() - then) < 1e-6:
            then = timers[0].when()  # exactly: now + (when - now) may fall just short of when
        self._set_now(max(self._now, then))
        self.jumps += 1
        self._turns = 0

    def count_turn(self) -> None:
        """Count one turn of the loop. Raises SimStuck when there are too many at one moment."""
        self._turns += 1
        if self._turns > self.turns_max:
            self._turns = 0  # as many again, to cancel what is left
            raise SimStuck(f"{self.turns_max:,} turns of the loop, and it is still {self._now} s")

    def _set_now(self, now: float) -> None:
        self._now = now
        # asyncio runs timers as early as its clock is coarse. This clock moves by itself only: who
        # waits again for a rest of less than that would be woken for ever at the same moment.
        self._clock_resolution = math.ulp(now)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run in a thread as usual, and hold the clock while it is out."""
        future = super().run_in_executor(executor, func, *args)
        self.threads_out += 1
        future.add_done_callback(self._thread_came_back)
        return future

    def _thread_came_back(self, _future: Any) -> None:
        self.threads_out -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the threads in real time: the clock must not jump past their end."""
        executor = self._default_executor  # type: ignore[attr-defined]
        self._executor_shutdown_called = True
        if executor is not None:
            executor.shutdown(wait=True)


def run_sim(
    coroutine: Coroutine[Any, Any, Returned], *, start: float = 0.0, debug: bool | None = None
) -> Returned:
    """Run a coroutine to its end on a new SimLoop, and clean up as asyncio.run does.

    Raises what the coroutine raises, and SimStuck when everything waits for nothing, or for ever.
    """
    with asyncio.Runner(debug=debug, loop_factory=lambda: SimLoop(start=start)) as runner:
        return runner.run(coroutine)


def simulated(
    test: Callable[Given, Coroutine[Any, Any, None]],
) -> Callable[Given, None]:
    """Decorate an async test so that it runs on a SimLoop of its own."""

    @functools.wraps(test)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> None:
        run_sim(test(*args, **kwargs))

    return run


def sim_loop() -> SimLoop:
    """Return the running loop, which must be a SimLoop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop), "this needs a SimLoop; decorate the test with @simulated"
    return loop

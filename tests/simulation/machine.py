"""An event loop in which what belongs to one process can be stopped, blocked or killed.

Everything that a process has begun runs in a context that names it. A stopped process keeps what is
ready for later, as a process does that got SIGSTOP: at whatever await it stands, with all of its
timers behind it when it goes on. Time, order and the order of sets are those of the simulation, so
the same seed gives the same history.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import math
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.bounds import TURNS_MAX
from worker.testing.simclock import SimLoop, SimStuck


class Strand:
    """What runs in one thread of a process, and can be stopped with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_stopped = False
        self.stopped_at = 0.0
        self._held: list[asyncio.Handle] = []

    def __repr__(self) -> str:
        return f"Strand({self.name}{', stopped' if self.is_stopped else ''})"

    def stop(self, now: float) -> None:
        """Run nothing of it from here on."""
        self.is_stopped, self.stopped_at = True, now

    def go_on(self, loop: MachineLoop) -> None:
        """Run what became ready meanwhile, in that order."""
        self.is_stopped = False
        held, self._held = self._held, []
        loop.take_back(held)

    def hold(self, handle: asyncio.Handle) -> None:
        """Keep something for later."""
        self._held.append(handle)


STRAND: contextvars.ContextVar[Strand | None] = contextvars.ContextVar("strand", default=None)


def _run_or_hold(handle: asyncio.Handle) -> None:
    strand = handle._context.get(STRAND)  # type: ignore[attr-defined]
    if strand is not None and strand.is_stopped:
        strand.hold(handle)
    else:
        asyncio.Handle._run(handle)  # type: ignore[attr-defined]


class _Handle(asyncio.Handle):
    __slots__ = ()
    _run = _run_or_hold


class _Timer(asyncio.TimerHandle):
    __slots__ = ()
    _run = _run_or_hold


class _Task(asyncio.Task):  # type: ignore[type-arg]
    """A task that has the same place in a set in every run."""

    _numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class MachineLoop(SimLoop):
    """The loop of a whole world of processes. One world lives on it, until `ends_at` at most."""

    def __init__(self) -> None:
        super().__init__()
        self.turns_max = TURNS_MAX
        self.ends_at = math.inf
        _Task._numbers = itertools.count()
        self.set_task_factory(lambda loop, coroutine, **rest: _Task(coroutine, loop=loop, **rest))

    def jump(self, seconds: float) -> None:
        """See SimLoop. Raises SimStuck, once, at the end of all time."""
        if self.time() + seconds > self.ends_at:
            self.ends_at = math.inf  # what is left is cancelled, and may need a moment
            raise SimStuck(f"something is still going on after {self.time():.0f} simulated seconds")
        super().jump(seconds)

    def take_back(self, handles: list[asyncio.Handle]) -> None:
        """Make ready again what a stopped strand has kept."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio: the same, with a timer that a stopped strand can keep."""
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer


class Process:
    """One process: the strand of its work and that of its heartbeat, and whether it lives."""

    def __init__(self, name: str, loop: MachineLoop, *, is_mortal: bool = True) -> None:
        self.name = name
        self.is_mortal = is_mortal
        self.is_dead = False
        self.is_cancelled = False
        self.work = Strand(name)
        self.beat = Strand(f"{name}/heartbeat")
        self._loop = loop
        self._main: asyncio.Task[Any] | None = None

    def __repr__(self) -> str:
        return f"Process({self.name}{', dead' if self.is_dead else ''})"

    def start(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run its main coroutine, and all that it begins, as part of this process."""
        self._main = self._spawn(main, self.work)
        return self._main

    async def beside(self, beat: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
        """Stand in for `consuming.beating.run_beside`: another strand instead of a thread."""
        await self._spawn(beat(), self.beat)

    def silence(self) -> float:
        """How long ago its event loop last ticked."""
        return self._loop.time() - self.work.stopped_at if self.work.is_stopped else 0.0

    def stop(self, *, heartbeat: bool = True) -> None:
        """SIGSTOP; without the heartbeat it is an event loop that something blocks."""
        for strand in (self.work, self.beat) if heartbeat else (self.work,):
            strand.stop(self._loop.time())

    def go_on(self) -> None:
        """SIGCONT, or the end of what blocked the loop."""
        for strand in (self.work, self.beat):
            if strand.is_stopped:
                strand.go_on(self._loop)

    def kill(self) -> None:
        """End it at whatever await it stands: from here on nothing of it reaches anybody.

        Its tasks are cancelled only so that they leave the loop: whoever is dead finds no link.
        """
        self.is_dead = True
        self.go_on()
        self.cancel()

    def cancel(self) -> None:
        """Cancel its main task, as a process does that may not drain."""
        self.is_cancelled = True
        if self._main is not None:
            self._main.cancel()

    def _spawn(self, coroutine: Coroutine[Any, Any, None], strand: Strand) -> asyncio.Task[None]:
        context = contextvars.copy_context()
        context.run(STRAND.set, strand)
        return self._loop.create_task(coroutine, name=strand.name, context=context)

"""A guard in simulated time, tools that follow a script, and a listener that remembers."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from worker.guard.guard import AttemptInfo, CallPolicy, Guard, GuardPolicy, Outcome
from worker.telemetry.signals import BreakerChanged, BreakerCounted
from worker.telemetry.tell import Telemetry
from worker.testing.simclock import sim_loop

S = TypeVar("S")


class Heard:
    """A listener that keeps every signal in order."""

    def __init__(self) -> None:
        self.signals: list[Any] = []

    def told(self, signal: Any) -> None:
        self.signals.append(signal)

    def started(self, operation: Any) -> None:
        self.signals.append(operation)

    def settled(self, operation: Any, token: Any) -> None:
        self.signals.append(operation)

    def of(self, kind: type[S]) -> list[S]:
        """Return the signals of one kind."""
        return [signal for signal in self.signals if isinstance(signal, kind)]

    def moves(self) -> list[tuple[str, str, str]]:
        """Return the changes of state: from, to, cause."""
        return [
            (signal.from_state, signal.to_state, signal.cause) for signal in self.of(BreakerChanged)
        ]

    def counted(self, result: str) -> int:
        """Return how often a result was counted."""
        return sum(signal.result == result for signal in self.of(BreakerCounted))


class Tool:
    """A tool whose attempts follow a script; the last step repeats.

    A step is a value to return, an exception to raise, or a number of seconds to take before the
    next step of the pair: `(seconds, step)`.
    """

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps) or ["ok"]
        self.calls = 0
        self.running = 0
        self.peak = 0
        self.infos: list[AttemptInfo] = []

    async def __call__(self, info: AttemptInfo) -> Any:
        step = self.steps[min(self.calls, len(self.steps) - 1)]
        self.calls += 1
        self.infos.append(info)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            if isinstance(step, tuple):
                seconds, step = step
                await asyncio.sleep(seconds)
            if isinstance(step, BaseException):
                raise step
            return step
        finally:
            self.running -= 1


class Stage:
    """A guard on the running SimLoop. `random` 0.5 means: no jitter, half of each back-off."""

    def __init__(self, *, random: float = 0.5, **policy: Any) -> None:
        self.loop = sim_loop()
        self.heard = Heard()
        self.guard = Guard(
            "quotes",
            GuardPolicy(**policy),
            telemetry=Telemetry([self.heard]),
            clock=self.loop.time,
            wall=self.loop.wall,
            random=lambda: random,
        )

    async def call(self, tool: Any, *, deadline: float | None = None, **policy: Any) -> Outcome:
        """Call once; a single attempt unless asked otherwise."""
        return await self.guard.call(tool, call_policy(**policy), deadline=deadline)

    async def open(self) -> None:
        """Open the breaker by failures in a row."""
        while self.guard.state == "closed":
            await self.call(Tool(ConnectionResetError()))
        assert self.guard.state == "open"

    async def half_open_due(self) -> None:
        """Open, and let the window pass: the next call is the trial."""
        await self.open()
        await asyncio.sleep(self.guard.open_seconds_left or 0.0)


def call_policy(**policy: Any) -> CallPolicy:
    """Return the policy of a tool that is tried once, unless asked otherwise."""
    return CallPolicy(**{"kind": "tool", "target": "get_stock_price", "attempts": 1, **policy})


async def until(condition: Any, *, turns: int = 1000) -> None:
    """Let the loop turn until the condition holds, without letting time pass."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never came true")


async def reached(condition: Any, *, seconds: float = 5.0) -> None:
    """Wait in real time, with a limit, for what another thread brings about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (another thread cannot set an asyncio.Event)
            await asyncio.sleep(0.001)

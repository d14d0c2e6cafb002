"""Whatever happens in whatever order, the promises of the guard hold."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.guard.stage import Stage
from worker.core.errors import AttemptFailed, ToolError
from worker.core.messages import Source
from worker.guard.guard import AttemptInfo, Fallback, Outcome
from worker.telemetry.signals import AttemptEnded, BreakerChanged, BreakerCounted
from worker.testing.simclock import run_sim

LEGAL = {
    ("closed", "open"),
    ("open", "half_open"),
    ("half_open", "open"),
    ("half_open", "closed"),
}
COUNTS_OF_ATTEMPTS = ("success", "failure", "slow", "ignored", "late")


@dataclass(frozen=True)
class Plan:
    """One call: when it starts, how its tool behaves, and when its caller gives up."""

    start: float
    takes: float
    end: str  # ok | down | business | throttled | neutral | deaf
    cancel_after: float | None
    attempts: int


ERRORS: dict[str, Exception] = {
    "down": ConnectionResetError(),
    "business": ToolError("no such order"),
    "throttled": AttemptFailed(kind="rate_limited", status_code=429, retry_after_seconds=1),
    "neutral": AttemptFailed(kind="rate_limited", status_code=529),
}
seconds = st.integers(0, 60).map(lambda tenths: tenths / 10)
plans = st.builds(
    Plan,
    start=st.integers(0, 600).map(lambda tenths: tenths / 10),
    takes=seconds,
    end=st.sampled_from(["ok", "ok", "down", "down", "down", *ERRORS, "deaf"]),
    cancel_after=st.none() | seconds,
    attempts=st.integers(1, 3),
)


class World:
    """A stage on which plans are carried out, and what was seen of it from outside."""

    def __init__(self, **policy: Any) -> None:
        self.stage = Stage(**policy)
        self.running = 0
        self.peak = 0
        self.trials: defaultdict[int, set[Any]] = defaultdict(set)  # running now, by era
        self.trials_peak = 0

    def tool(self, plan: Plan) -> Any:
        async def run(_info: AttemptInfo) -> str:
            seen = self.stage.guard.snapshot()
            era = seen["era"] if seen["state"] == "half_open" else None
            self.running += 1
            self.peak = max(self.peak, self.running)
            if era is not None:
                # One that was left behind is settled: it has lost its say, and its successor runs.
                self.trials[era] -= self.stage.guard.bulkhead.left_behind
                self.trials[era].add(asyncio.current_task())
                self.trials_peak = max(self.trials_peak, len(self.trials[era]))
            try:
                await self.behave(plan)
            finally:
                self.running -= 1
                if era is not None:
                    self.trials[era].discard(asyncio.current_task())
            if plan.end in ERRORS:
                raise ERRORS[plan.end]
            return "ok"

        return run

    async def behave(self, plan: Plan) -> None:
        ends = self.stage.loop.time() + plan.takes
        while True:
            try:
                await asyncio.sleep(max(0.0, ends - self.stage.loop.time()))
                return
            except asyncio.CancelledError:
                if plan.end != "deaf":
                    raise

    async def carry_out(self, plan: Plan) -> Outcome[Any] | None:
        await asyncio.sleep(plan.start)
        call = asyncio.create_task(
            self.stage.call(
                self.tool(plan),
                attempts=plan.attempts,
                timeout_seconds=2.0,
                deadline_seconds=6.0,
                fallback=Fallback(stub="stub"),
            )
        )
        await asyncio.wait([call], timeout=plan.cancel_after)
        call.cancel()
        await asyncio.wait([call])
        return None if call.cancelled() else call.result()


def check(world: World, outcomes: list[Outcome[Any] | None]) -> None:
    """Hold what was seen against the promises."""
    guard, heard = world.stage.guard, world.stage.heard
    bulkhead, seen = guard.bulkhead, guard.snapshot()
    counts = seen["counts"]
    assert (bulkhead.in_use, bulkhead.waiting, bulkhead.zombies) == (0, 0, 0)
    assert not seen["trial_in_flight"]
    assert world.peak <= bulkhead.limit
    assert world.trials_peak <= 1
    # Each attempt was settled exactly once.
    assert sum(counts.get(name, 0) for name in COUNTS_OF_ATTEMPTS) == len(heard.of(AttemptEnded))
    moves = heard.of(BreakerChanged)
    assert {(move.from_state, move.to_state) for move in moves} <= LEGAL
    assert all(a.era < b.era for a, b in pairwise(moves))
    check_causes([s for s in heard.signals if isinstance(s, BreakerChanged | BreakerCounted)])
    for outcome in outcomes:
        if outcome is not None:
            assert outcome.source in (Source.LIVE, Source.STUB, Source.ERROR)
            assert (outcome.error is None) == (outcome.source is Source.LIVE)


def check_causes(signals: list[BreakerChanged | BreakerCounted]) -> None:
    """A change is due to the timer, or directly follows a verdict that may cause it."""
    for before, signal in zip([None, *signals], signals, strict=False):
        if isinstance(signal, BreakerChanged) and signal.cause != "timer":
            assert isinstance(before, BreakerCounted)
            assert before.result in ("success", "failure", "slow")


@pytest.mark.slow
@settings(max_examples=60)
@given(
    calls=st.lists(plans, min_size=20, max_size=80),
    fail_max=st.integers(1, 4),
    limit=st.integers(1, 4),
    success_threshold=st.integers(1, 2),
)
def test_the_promises_hold_under_any_load(
    calls: list[Plan], fail_max: int, limit: int, success_threshold: int
) -> None:
    """No lost slot, one trial at a time, no change by late or neutral ends, one end per attempt."""

    async def soak() -> None:
        world = World(
            fail_max=fail_max,
            limit=limit,
            success_threshold=success_threshold,
            queue_max=3,
            open_seconds=2.5,
        )
        outcomes = await asyncio.gather(*(world.carry_out(plan) for plan in calls))
        await asyncio.sleep(60)  # whatever was left behind ends
        check(world, outcomes)

    run_sim(soak())


def test_recovery_follows_every_outage() -> None:
    """However long it was down, once the dependency is back one window later it is closed."""

    async def outage(length: int) -> None:
        stage = Stage(open_seconds=1, open_seconds_max=8)

        async def tool(_info: AttemptInfo) -> str:
            if stage.loop.time() < length:
                raise ConnectionResetError
            return "ok"

        while stage.loop.time() < length:
            await stage.call(tool)
            await asyncio.sleep(0.1)
        await asyncio.sleep(8)
        assert (await stage.call(tool)).value == "ok"
        assert stage.guard.state == "closed"

    for length in (1, 5, 30, 300):
        run_sim(outage(length))

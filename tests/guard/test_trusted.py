"""Attempts of our own code, which are awaited where the caller is."""

from __future__ import annotations

import asyncio

import pytest

from tests.guard.stage import Stage, until
from worker.core.errors import AttemptTimeout
from worker.guard.guard import AttemptInfo
from worker.testing.simclock import simulated


@simulated
async def test_it_runs_in_the_callers_task_and_gives_its_slot_back() -> None:
    """It costs no task of its own; value and error come out as those of any attempt."""
    stage, seen = Stage(limit=1, queue_max=0), []

    async def ours(info: AttemptInfo) -> str:
        seen.append((asyncio.current_task(), info.number, stage.guard.bulkhead.in_use))
        if info.number == 1:
            raise AttemptTimeout("no reply within 1 s")
        return "here"

    outcome = await stage.call(ours, attempts=2, is_trusted=True)

    assert (outcome.value, outcome.attempts) == ("here", 2)
    this = asyncio.current_task()
    assert seen == [(this, 1, 1), (this, 2, 1)]
    assert stage.guard.bulkhead.in_use == 0


@simulated
async def test_cancelled_it_ends_and_counts_against_nobody() -> None:
    """The caller's cancellation reaches it at once; the slot is free and the breaker untouched."""
    stage, ended = Stage(limit=1, fail_max=1), []

    async def ours(_info: AttemptInfo) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(stage.loop.time())

    call = asyncio.create_task(stage.call(ours, timeout_seconds=9, is_trusted=True))
    await until(lambda: stage.guard.bulkhead.in_use == 1)
    await asyncio.sleep(1)
    call.cancel()
    await asyncio.wait([call])

    assert call.cancelled()
    assert ended == [pytest.approx(1.0)]
    assert (stage.guard.bulkhead.in_use, stage.guard.bulkhead.zombies) == (0, 0)
    assert stage.guard.state == "closed"


@simulated
async def test_who_waits_for_the_slot_gets_it() -> None:
    """The end of a trusted attempt lets the next in the queue begin."""
    stage = Stage(limit=1, queue_max=1)

    async def ours(_info: AttemptInfo) -> float:
        await asyncio.sleep(0.25)
        return stage.loop.time()

    calls = [asyncio.create_task(stage.call(ours, is_trusted=True)) for _ in range(2)]
    outcomes = await asyncio.gather(*calls)

    assert [outcome.value for outcome in outcomes] == [pytest.approx(0.25), pytest.approx(0.5)]

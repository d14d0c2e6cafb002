"""What happens in the turn in which an attempt ends."""

from __future__ import annotations

import asyncio

from tests.guard.stage import Stage, Tool
from worker.guard.guard import AttemptInfo
from worker.testing.simclock import simulated


@simulated
async def test_the_caller_goes_on_in_the_turn_after_the_work() -> None:
    """Two turns of the event loop after a tool has ended, its caller has long gone on."""
    order: list[str] = []

    async def quick(_info: AttemptInfo) -> str:
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, order.append, "two turns later")
        return "ok"

    outcome = await Stage().call(quick)
    order.append("caller")
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert (outcome.value, order) == ("ok", ["caller", "two turns later"])


@simulated
async def test_the_slot_is_free_when_the_caller_goes_on() -> None:
    """With one slot and no queue, call after call gets it, however the one before has ended."""
    stage = Stage(limit=1, queue_max=0, fail_max=9)

    outcomes = [await stage.call(tool) for tool in (Tool("a"), Tool(OSError()), Tool("b"))]

    assert [outcome.value for outcome in outcomes] == ["a", None, "b"]
    assert stage.guard.bulkhead.in_use == 0
    assert "bulkhead_full" not in [outcome.reason for outcome in outcomes]


@simulated
async def test_a_success_ends_a_row_of_failures() -> None:
    """pybreaker forgets the failures before a success, also when it had nothing to forget before."""
    stage = Stage(fail_max=3, failure_ratio=1.0)
    script = ["ok", OSError(), OSError(), "ok", OSError(), OSError(), "ok"]

    for step in script:
        await stage.call(Tool(step))

    assert (stage.guard.state, stage.guard.admission.breaker.failures) == ("closed", 0)
    await stage.open()
    assert stage.heard.moves() == [("closed", "open", "consecutive")]

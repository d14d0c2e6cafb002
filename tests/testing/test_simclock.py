"""The loop whose clock jumps: hours pass in no time, in the right order, and deadlocks show."""

from __future__ import annotations

import asyncio
import time

import pytest

from worker.testing.simclock import EPOCH, SimStuck, run_sim, sim_loop, simulated


def test_a_day_passes_at_once() -> None:
    """Sleeping three days takes simulated time only, and exactly as much as asked."""

    async def sleep_long() -> float:
        await asyncio.sleep(3 * 86_400)
        return sim_loop().time()

    began = time.monotonic()

    assert run_sim(sleep_long()) == 3 * 86_400
    assert time.monotonic() - began < 5


@simulated
async def test_timers_fire_in_order_at_exact_times() -> None:
    """Whatever the order of their making, timers fire by time, never early by a rounding error."""
    loop = sim_loop()
    fired: list[tuple[float, float]] = []

    async def fire(seconds: float) -> None:
        due = loop.time() + seconds
        await asyncio.sleep(seconds)
        fired.append((due, loop.time()))

    await asyncio.sleep(0.1)
    await asyncio.gather(*(fire(number * 0.1) for number in range(50, 0, -1)))

    assert [due for due, _ in fired] == sorted(due for due, _ in fired)
    assert all(now == due for due, now in fired)


@simulated
async def test_timeouts_and_the_time_of_day_follow_the_clock() -> None:
    """asyncio.timeout ends a wait in simulated time, and wall() moves along."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.Event().wait()

    assert sim_loop().wall() == EPOCH + 30


def test_waiting_for_nothing_is_an_error() -> None:
    """A coroutine that nothing can ever wake raises SimStuck instead of hanging."""

    async def wait_for_nothing() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimStuck):
        run_sim(wait_for_nothing())


@simulated
async def test_the_rest_of_a_wait_passes_however_short_it_is() -> None:
    """Who waits until a moment arrives there, even if a time limit ended just before it."""
    loop = sim_loop()
    await asyncio.sleep(168.0)
    until = loop.time() + 1e-10
    waits = 0
    while (left := until - loop.time()) > 0:
        waits += 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), left)

    assert waits == 1


def test_a_loop_that_lets_no_time_pass_is_an_error() -> None:
    """A program that is busy for ever at one moment raises SimStuck instead of hanging."""

    async def spin() -> None:
        loop = sim_loop()
        loop.turns_max = 1_000

        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(SimStuck, match="1,000 turns of the loop, and it is still 0"):
        run_sim(spin())


@simulated
async def test_a_thread_is_waited_for_in_real_time() -> None:
    """Work in a thread comes back before the clock jumps over its time limit."""
    async with asyncio.timeout(60):
        answer = await asyncio.to_thread(lambda: time.sleep(0.02) or "done")

    assert answer == "done"
    assert sim_loop().time() == 0


def test_the_order_of_tasks_is_the_same_every_time() -> None:
    """Two runs of the same program see the same interleaving."""

    async def program() -> list[int]:
        seen: list[int] = []

        async def step(number: int) -> None:
            for _ in range(3):
                await asyncio.sleep((number * 7 % 5) / 10)
                seen.append(number)

        await asyncio.gather(*(step(number) for number in range(10)))
        return seen

    assert run_sim(program()) == run_sim(program())

"""A world that does not end is a bad seed like any other, with the command that replays it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation import world
from tests.simulation.people import People
from tests.simulation.seeds import run_seed

Deed = Callable[[People], Awaitable[None]]


async def spin(people: People) -> None:
    """Be busy, and let no time pass."""
    again = asyncio.get_running_loop().call_soon

    def turn() -> None:
        again(turn)

    turn()
    await asyncio.Event().wait()


async def go_on_for_ever(people: People) -> None:
    """Let time pass, and come to no end."""
    while True:  # noqa: ASYNC110
        await asyncio.sleep(600.0)


async def block(people: People) -> None:
    """Compute, and let nobody else run."""
    while True:
        pass


async def wait_for_nothing(people: People) -> None:
    """Wait for what never comes, and keep nobody from stopping."""
    await asyncio.Event().wait()


async def break_off(people: People) -> None:
    """Have a bug."""
    raise LookupError("no such pen")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "words"),
    [
        (spin, "ends: 100,000 turns of the loop, and it is still 0"),
        (go_on_for_ever, "ends: something is still going on after"),
        (wait_for_nothing, "ends: something is still going on after"),
        (block, "ends: after 0.5 s of real time it is still at"),
        (break_off, "goes on: the world broke off"),
    ],
)
def test_a_world_that_does_not_end_is_reported(
    deed: Deed, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever hangs in it, the report of its seed says so, and how to see it again."""
    monkeypatch.setattr(People, "hand_in", deed)
    monkeypatch.setattr(world, "LIMIT_SECONDS", 300.0)
    report = str(run_seed(0, real_seconds=0.5 if deed is block else 60.0))

    assert words in report
    assert report.endswith("replay: make simulate SEED=0")

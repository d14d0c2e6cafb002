"""A task that kills whoever works on it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.system.processes import until

NEIGHBOURS = ["n1", "n2", "n3", "n4"]


@contextlib.asynccontextmanager
async def kept_alive(site, **settings):
    """A worker that is started again whenever it dies, as a platform does."""

    async def keep():
        while True:
            worker = site.start(**settings)
            await until(lambda: not worker.alive, within=60, what="a crash")  # noqa: B023

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:  # or it would start another when the site is gone
        keeping.cancel()
        await asyncio.wait([keeping])
    await site.processes[-1].stop()


@pytest.mark.parametrize("deliveries", [2, 4])
async def test_poison_is_given_up_and_hurts_nobody(site, deliveries):
    """After N deliveries it is a dead letter with a result; its neighbours are answered."""
    await site.submit("poison", "explode now")
    for name in NEIGHBOURS:
        await site.submit(name, f"book {name}, look b")
    async with kept_alive(site, QUEUE__MAX_DELIVERIES=str(deliveries)):
        poisoned = await site.result("poison", within=10 + 4 * deliveries)
        answered = [await site.result(name, within=10) for name in NEIGHBOURS]
        await site.empty(dead=1)
    listed = await site.run("dead", "list")
    letter = (await site.queue.dead())[0]

    assert [result.status for result in answered] == ["completed"] * 4
    assert (poisoned.status, str(deliveries) in poisoned.error) == ("error", True)
    assert site.effects("explode") == ["explode now"] * deliveries
    assert (letter.id, letter.deliveries) == ("poison", deliveries)
    assert len([line for line in letter.history if "ran out" in line]) == deliveries
    assert (listed.returncode, "poison" in listed.stdout) == (0, True)
    # A booking that the first crash cut off is unknown, and was made once or not at all.
    for name, result in zip(NEIGHBOURS, answered, strict=True):
        times = (1,) if result.tool_calls[0].source == "live" else (0, 1)
        assert site.effects().count(f"book {name}") in times


async def test_poison_that_is_mended_is_redriven(site):
    """A dead letter comes back by hand, with a fresh count, and goes on where it stood."""
    await site.submit("poison", "hold mended, explode now")
    # The tool explodes because the model asks for it; mended, the model asks for another. The one
    # delivery must end by that: a busy machine may let a lease of a second run out before.
    async with kept_alive(site, QUEUE__MAX_DELIVERIES="1", QUEUE__LEASE_SECONDS="4"):
        site.ask_for("mended")
        await site.result("poison", within=15)
        await site.empty(dead=1)
    refused = await site.run("dead", "redrive", "unknown")
    redriven = await site.run("dead", "redrive", "poison")
    waiting = await site.run("status", "poison")
    site.start(TOOLS=str(site.folder / "mended.py"))
    (site.folder / "mended.py").write_text(MENDED)
    result = await site.result("poison", within=10)
    await site.empty()

    assert (refused.returncode, redriven.returncode) == (3, 0)
    assert "1 redriven" in redriven.stdout
    assert (waiting.returncode, waiting.stdout.split()[0]) == (3, "queued")
    assert (result.status, result.answer) == ("completed", "done: poison")
    assert site.model.counts("poison") == {1: 1, 2: 1, 3: 1}


MENDED = '''
from worker import tool


@tool(effect="read")
def explode(text: str) -> str:
    """Kill nobody any more.

    Args:
        text: what to say
    """
    return "mended"
'''

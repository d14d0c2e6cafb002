"""What is cancelled ends, also where a library swallows the cancel."""

from __future__ import annotations

import asyncio

import pytest

import worker.awaiting
from worker.awaiting import end_all, happened
from worker.consuming.beating import run_beside


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Ask again at once for what went on."""
    monkeypatch.setattr(worker.awaiting, "AGAIN_SECONDS", 0.01)


async def deaf(times: int = 1) -> str:
    """Wait for ever, and return after so many cancels, as `asyncio.wait_for` once did."""
    for _ in range(times):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
    return "heard nothing"


async def begun(work) -> asyncio.Task:
    """Start something and let it come to its first wait."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    return task


async def test_an_event_is_waited_for_within_its_time():
    """It tells which of the two came first; one that is set needs no time."""
    event = asyncio.Event()
    assert not await happened(event, within=0)

    waiting = await begun(happened(event, within=None))
    event.set()

    assert await waiting
    assert await happened(event, within=0)


async def test_a_cancel_that_comes_with_the_event_is_heard():
    """Both in one turn: the cancel wins, as it is what somebody waits for."""
    event = asyncio.Event()
    waiting = await begun(happened(event, within=60))
    event.set()
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_swallows_a_cancel_is_cancelled_again():
    """So it ends all the same; tasks that hear at once are asked once."""
    tasks = [await begun(deaf(times)) for times in (1, 2, 3)]
    tasks.append(await begun(asyncio.Event().wait()))

    await end_all(tasks)

    assert [task.cancelled() for task in tasks] == [False, False, False, True]


async def test_nothing_to_end_takes_no_turn():
    """An empty collection is ended already."""
    await end_all([])


async def test_a_deaf_heartbeat_does_not_hold_the_worker():
    """The event loop of the worker stands still while it waits for that thread."""
    waits = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def beat():
        loop.call_soon_threadsafe(waits.set)
        await deaf(3)

    beating = asyncio.create_task(run_beside(beat, name="deaf"))
    await waits.wait()
    beating.cancel()

    with pytest.raises(asyncio.CancelledError):
        await beating

"""A question in the foreground whose session is busy: it waits, for so long and no longer."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.running.waits import ASKS, decide, refunding
from worker import Task
from worker.store.port import SessionClaim


@pytest.fixture(params=["memory://", "sqlite"])
def engine(request, tmp_path):
    """Where tasks and conversations are kept."""
    return f"sqlite:///{tmp_path}/t.db" if request.param == "sqlite" else request.param


async def taken(worker):
    """Let somebody else have the session."""
    opened = await worker.store.open(
        "other", owner="x", lease_seconds=60, session=SessionClaim("s")
    )
    return opened.run


async def test_a_deadline_bounds_the_waiting(start, engine):
    """Who waits for a session in vain is told so in time, and leaves the line."""
    async with start(otherwise="fine", queue_url=engine) as worker:
        other = await taken(worker)
        late = Task("a1", "one", session_id="s", deadline=time.time() + 0.8)
        result = await worker.ask(late)
        await worker.store.release(other)

        assert (result.status, result.session_id) == ("deadline", "s")
        assert "session was busy" in result.error
        assert other.session.next_run is None
        assert (await worker.ask(Task("a2", "two", session_id="s"))).answer == "fine"


async def test_who_gives_up_waiting_holds_nobody_up(start, engine):
    """Interrupted at the terminal, its place goes with it."""
    async with start(otherwise="fine", queue_url=engine) as worker:
        other = await taken(worker)
        waiting = asyncio.Event()
        asking = asyncio.create_task(
            worker.ask(Task("a1", "one", session_id="s"), waiting=waiting.set)
        )
        await waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await worker.store.release(other)

        assert other.session.next_run is None
        assert (await worker.store.result("a1")).status == "cancelled"


async def test_a_run_that_has_begun_gives_up_its_place_only(start, engine):
    """Approved while somebody else speaks, then interrupted: what it has done so far is kept."""
    made = []
    async with start(ASKS, tools=[refunding(made)], queue_url=engine) as worker:
        held, waiting = [], asyncio.Event()

        async def parked(task_id):
            held.append(await taken(worker))
            await decide(worker, task_id)

        task = Task("a1", "refund it", session_id="s")
        asking = asyncio.create_task(worker.ask(task, waiting=waiting.set, parked=parked))
        await waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await worker.store.release(held[0])
        view = await worker.store.view("a1")

    assert held[0].session.next_run is None
    assert (view.state, view.result, made) == ("released", None, [])


async def test_whoever_waits_behind_a_question_is_woken(start):
    """The next task of the session comes at once, and not when its delay is over."""
    woken = []

    async def wake(task_id):
        woken.append(task_id)

    async with start(otherwise="fine", running=False) as worker:
        await worker.start(claim=False)
        worker.queue.wake = wake
        await worker.store.enlist("next", SessionClaim("s", place=time.time() + 3600.0))
        result = await worker.ask(Task("t1", "q", session_id="s"))
        await worker.stop()

    assert (result.status, woken) == ("completed", ["next"])

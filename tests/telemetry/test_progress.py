"""Watchers of a run see what happens, and cannot hold it up."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import pytest

from worker.telemetry import progress as module
from worker.telemetry.progress import WAITING_MAX, Progress, TooManyWatchers
from worker.telemetry.redact import Redactor
from worker.telemetry.signals import StepUpdated
from worker.telemetry.tell import Telemetry


def update(step: int, *, task: str = "t", final: bool = False) -> StepUpdated:
    """Build an update."""
    return StepUpdated(task, step, f"step {step}", final)


async def test_a_watcher_sees_its_own_run_up_to_the_end():
    """In order, without those of other runs, and the final one is the last."""
    progress = Progress()
    telemetry = Telemetry([progress])
    watching = progress.subscribe("t")
    for signal in (update(1), update(1, task="other"), update(2), update(3, final=True), update(4)):
        telemetry.tell(signal)

    assert [seen.step_id async for seen in watching] == [1, 2, 3]
    assert progress.count == 0


async def test_content_is_masked():
    """Somebody watches over HTTP: no secret leaves."""
    progress = Progress(Redactor(["my-own-secret"]))
    watching = progress.subscribe("t")
    progress.told(StepUpdated("t", 1, "asking with my-own-secret", True))

    assert [seen.content async for seen in watching] == ["asking with [redacted]"]


async def test_a_slow_watcher_is_let_go_and_the_others_stay():
    """Its iterator ends early; it has to read the journal."""
    progress = Progress()
    slow, quick = progress.subscribe("t"), progress.subscribe("t")
    seen = []
    for step in range(WAITING_MAX + 10):
        progress.told(update(step))
        seen.append((await anext(quick)).step_id)

    assert seen == list(range(WAITING_MAX + 10))
    assert [late async for late in slow] == []
    assert (progress.overflows, progress.count) == (1, 1)
    await quick.aclose()


async def test_updates_from_another_thread_arrive():
    """Some signals are told by the thread that renews leases."""
    progress = Progress()
    watching = progress.subscribe("t")
    thread = threading.Thread(target=progress.told, args=(update(1, final=True),))
    thread.start()
    async with asyncio.timeout(5):
        seen = [each.step_id async for each in watching]
    thread.join()

    assert seen == [1]


async def test_whoever_leaves_is_forgotten():
    """Also when cancelled while waiting."""
    progress = Progress()

    async def watch():
        async with aclosing(progress.subscribe("t")) as updates:
            async for _ in updates:
                pass

    task = asyncio.create_task(watch())
    await asyncio.sleep(0)
    assert progress.count == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert progress.count == 0


def test_a_watcher_whose_loop_is_gone_hurts_nobody():
    """The run goes on when the server was stopped under a watcher."""
    progress = Progress()

    async def watch():
        progress.subscribe("t")

    asyncio.run(watch())
    telemetry = Telemetry([progress])
    telemetry.tell(update(1))

    assert (telemetry.listener_errors, progress.count) == (0, 0)


async def test_the_number_of_watchers_is_bounded(monkeypatch):
    """One more is refused, in words."""
    monkeypatch.setattr(module, "WATCHERS_MAX", 2)
    progress = Progress()
    kept = [progress.subscribe("t"), progress.subscribe("u")]
    with pytest.raises(TooManyWatchers, match="journal"):
        progress.subscribe("v")
    for each in kept:
        await each.aclose()

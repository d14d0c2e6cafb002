"""A task that is stopped while its tools run, from outside: reads end at once, effects do not."""

from __future__ import annotations

import time

import pytest

from tests.system.test_endings import counted
from worker.core.wireformat import rfc3339

# A worker may be done with the task before the answer to the cancel is made.
HEARD = ("cancelling", "finished", "cancelled")
SOON = 4.0  # seconds: one, on a quiet machine; the next renewal of the lease would be at ten


def sources(result):
    """Where each call's result came from, in call order."""
    return [(call.name, call.source) for call in result.tool_calls]


async def called_off(site, process, task_id, *, within=SOON):
    """Cancel a task through the worker's own API and wait for its result."""
    from worker.cli.remote import Remote

    view = Remote(process.http, token=None).call("DELETE", f"/v1/tasks/{task_id}")
    assert view["status"] in HEARD
    return await site.result(task_id, within=within)


@pytest.mark.parametrize("name", ["hold", "stand", "ignore"])
async def test_a_read_does_not_hold_a_cancelled_task(site, name):
    """Whether it can be cancelled, runs in a thread, or ignores its cancellation."""
    process = site.start(admin=True, http=True, QUEUE__LEASE_SECONDS="30")
    await process.ready()
    await site.submit("t", f"{name} x, look y")
    await site.effect(f"{name} x")
    result = await called_off(site, process, "t")

    assert (result.status, sources(result)) == ("cancelled", [(name, "skipped")])
    assert site.effects("look") == []
    await counted(process, {"cancelled": 1})
    await site.empty()


async def test_the_command_cancels_a_running_read(site):
    """`loopworker cancel` goes to the worker that listens."""
    process = site.start(admin=True, http=True, QUEUE__LEASE_SECONDS="30")
    await process.ready()
    await site.submit("t", "hold x")
    await site.effect("hold x")
    done = await site.run("cancel", "t", HTTP=process.http)
    result = await site.result("t", within=SOON)

    assert done.returncode == 0
    assert done.stdout in [f"t: {status}\n" for status in HEARD]
    assert (result.status, sources(result)) == ("cancelled", [("hold", "skipped")])


async def test_a_cancel_is_heard_by_the_worker_that_has_the_task(site):
    """Noted by a process that knows no worker, long before the next renewal of the lease."""
    process = site.start(admin=True, QUEUE__LEASE_SECONDS="30")
    await process.ready()
    await site.submit("t", "hold x")
    await site.effect("hold x")
    done = await site.run("cancel", "t")
    result = await site.result("t", within=SOON)

    assert done.returncode == 0
    assert done.stdout in [f"t: {status}\n" for status in HEARD]
    assert (result.status, sources(result)) == ("cancelled", [("hold", "skipped")])


async def test_a_cancelled_write_ends_as_it_would_have(site):
    """Its result is in the journal and in the result, and it happened once."""
    process = site.start(admin=True, http=True)
    await process.ready()
    await site.submit("t", "linger free, look y")
    await site.effect("linger free")
    with pytest.raises(AssertionError, match="a result of t"):
        await called_off(site, process, "t", within=2)
    (site.folder / "free").touch()
    result = await site.result("t", within=5)

    assert (result.status, sources(result)) == ("cancelled", [("linger", "live")])
    assert (site.effects("linger"), site.effects("look")) == (["linger free"], [])


@pytest.mark.parametrize("name", ["hold", "stand", "ignore"])
async def test_a_read_does_not_hold_a_task_beyond_its_deadline(site, name):
    """The run ends as `deadline` when its time is over, not when the tool is done."""
    process = site.start(admin=True)
    await process.ready()
    ends = round(time.time() + 3, 3)
    await site.submit("t", f"{name} x, look y", deadline=rfc3339(ends))
    result = await site.result("t", within=10)

    assert result.status == "deadline"
    assert ends <= result.ended_at <= ends + 2 * SOON
    assert site.effects() == [f"{name} x"]
    await counted(process, {"deadline": 1})

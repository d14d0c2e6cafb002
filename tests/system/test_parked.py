"""Runs that wait for a job or a person, and workers that die, drain or come in twos meanwhile."""

from __future__ import annotations

import asyncio
import random
import signal
import time

import pytest

from tests.system.processes import CRASHING, until
from worker.web.waiting import Decision, WaitingDesk

LEASE = 1.0
RECOVERY = LEASE + 8.0  # the lease, and the start of a process


def desk(site):
    """Where decisions and results are handed in, without a worker."""
    return WaitingDesk(site.queue, site.store, now=time.time)


async def report(site, handle, text="rendered"):
    """Hand the result of a job in."""
    return await desk(site).report(handle, text.encode(), content_type="text/plain")


async def parked(site, task_id, *, within=RECOVERY):
    """Wait until a task is parked, and return what it waits for."""

    async def is_parked():
        return await site.queue.state(task_id) == "parked"

    await until(is_parked, within=within, what=f"{task_id} to be parked")
    return await desk(site).of_task(task_id)


async def crash(site, point):
    """Run a worker until it is killed at the point."""
    worker = site.start((*CRASHING, point))
    assert await worker.ended(within=15) == -signal.SIGKILL


# Where the first worker dies, and what becomes of the job. Journal writes of `render a`:
# 1 reply, 2 intent, 3 job; 4 parked.
BEFORE = {
    "intent saved": ("append:2", "unknown", 0),
    "job begun": ("die-after-effect", "unknown", 1),
    "job saved": ("append:3", "live", 1),
    "expected": ("expect", "live", 1),
    "parked": ("append:4", "live", 1),
    "let go": ("release", "live", 1),
    "handed back": ("nack", "live", 1),
}


@pytest.mark.parametrize("point", BEFORE)
async def test_killed_on_the_way_into_the_park(site, point):
    """The next worker parks it as well; the job is begun once, or nobody knows whether it is."""
    where, source, begun = BEFORE[point]
    await site.submit("t", "render a")
    if where.startswith("die"):
        site.ask_for(where)
    await crash(site, "never" if where.startswith("die") else where)
    site.start()
    if source == "live":
        (waits,) = await parked(site, "t")
        assert waits["handle"] == "job-a"
        await report(site, "job-a")
    result = await site.result("t", within=RECOVERY)
    await site.empty(within=RECOVERY)

    assert (result.status, [call.source for call in result.tool_calls]) == ("completed", [source])
    assert len(site.effects("render")) == begun
    assert site.model.counts("t") == {1: 1, 2: 1}
    assert site.model.told("t")[-1] == "rendered" or source == "unknown"


# Where the worker dies that takes the run up again, once the result is there.
AFTER = {
    "woken": "claim",
    "opened": "open",
    "result saved": "append:1",
    "heard": "hear",
    "answered": "append:2",
    "finished": "finish",
}


@pytest.mark.parametrize("point", AFTER)
async def test_killed_on_the_way_out_of_the_park(site, point):
    """What came while no worker ran is taken once, and the model is told once."""
    await site.submit("t", "render a, book b")
    first = site.start()
    await parked(site, "t")
    first.kill()
    told = await report(site, "job-a")
    await crash(site, AFTER[point])
    site.start()
    result = await site.result("t", within=RECOVERY)
    await site.empty(within=RECOVERY)
    again = await report(site, "job-a")

    assert (told.is_new, told.is_expected, again.is_new) == (True, True, False)
    assert result.status == "completed"
    assert [call.source for call in result.tool_calls] == ["live", "live"]
    assert site.effects() == ["render a", "book b"]
    assert site.model.counts("t") == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("point", ["append:1", "append:3", "die-after-effect"])
async def test_killed_with_an_approval_in_hand(site, point):
    """What was allowed happens once; who dies in the middle of it leaves the outcome unknown."""
    await site.submit("t", "pay a")
    first = site.start()
    (waits,) = await parked(site, "t")
    first.kill()
    said = Decision(approved=True, by="ann", digest=waits["digest"])
    await desk(site).decide("t", said)
    if point.startswith("die"):
        site.ask_for(point)
    await crash(site, "never" if point.startswith("die") else point)
    site.start()
    result = await site.result("t", within=RECOVERY)

    lost = point == "die-after-effect"
    assert [call.source for call in result.tool_calls] == ["unknown" if lost else "live"]
    assert site.effects() == ["pay a"]
    assert (await desk(site).decide("t", said))["approved"] is True


async def test_the_commands_decide_without_a_worker(site):
    """Denied at the command line while nobody works, and told by `status` before."""
    await site.submit("t", "pay a")
    first = site.start()
    await parked(site, "t")
    assert await first.stop() == 0
    listed = await site.run("approve")
    before = await site.run("status", "t")
    denied = await site.run("deny", "t", "--why", "too much", "--who", "ann")
    site.start()
    result = await site.result("t", within=RECOVERY)

    assert '{"text": "a"}' in listed.stdout
    assert (before.stdout, "loopworker approve|deny t call_1" in before.stderr) == (
        "queued (parked)\n",
        True,
    )
    assert denied.stdout == 't: denied by ann: pay {"text": "a"}\n'
    assert [(d.source, d.reason) for d in result.degraded] == [("skipped", "approval_denied")]
    assert site.effects() == []


async def test_drained_while_runs_park(site):
    """SIGTERM at any moment: nothing is lost, no delivery is used up, no job begun twice."""
    names = [f"t{number}" for number in range(30)]
    for name in names:
        await site.submit(name, f"render {name}")
    first = site.start(CONCURRENCY="4", QUEUE__MAX_DELIVERIES="1")
    await until(lambda: len(site.effects("render")) > 5, within=15, what="some jobs")
    assert await first.stop() == 0
    second = site.start(CONCURRENCY="4", QUEUE__MAX_DELIVERIES="1")
    for name in names:
        await parked(site, name, within=20)
        await report(site, f"job-{name}")
    results = [await site.result(name, within=20) for name in names]
    assert await second.stop() == 0

    assert [result.status for result in results] == ["completed"] * 30
    assert sorted(site.effects("render")) == sorted(f"render {name}" for name in names)
    assert all(call.source == "live" for result in results for call in result.tool_calls)


async def test_a_crowd_of_jobs(site):
    """Several workers, some killed, results in any order, early and twice: each run ends once."""
    dice, settings = random.Random(11), {"CONCURRENCY": "4", "QUEUE__MAX_DELIVERIES": "1000"}
    names = [f"t{number}" for number in range(40)]
    for name in names:
        await site.submit(name, f"print_out {name}, pay {name}")
    workers = [site.start(**settings) for _ in range(2)]
    left, kill_at = list(names), {30, 15}
    ends = time.monotonic() + 90
    while left:
        assert time.monotonic() < ends, f"not ended: {left}"
        await some_news(site, dice)
        left = [name for name in left if await site.store.result(name) is None]
        if kill_at and len(left) <= max(kill_at):
            kill_at.discard(max(kill_at))
            workers.pop(0).kill()
            workers.append(site.start(**settings))
    results = [await site.result(name, within=1) for name in names]
    await site.empty(within=10)

    assert [result.status for result in results] == ["completed"] * 40
    assert {result.tool_calls[0].source for result in results} == {"live"}
    assert {result.tool_calls[1].source for result in results} <= {"live", "unknown"}
    paid = site.effects("pay")
    assert len(paid) == len(set(paid))
    keys = dict(zip(site.effects("print_out"), site.keys("print_out"), strict=True))
    assert len(set(site.keys("print_out"))) == len(keys) == 40


async def some_news(site, dice):
    """Say something to a few of those that wait, results twice."""
    mail = site.store.mail
    waits = [each for kind in ("job", "approval") for each in await mail.pending(kind=kind)]
    for each in dice.sample(waits, min(len(waits), 6)):
        if each.kind == "job":
            handle = each.address.partition(":")[2]
            for _ in range(2):
                await report(site, handle, f"printed {each.run_id}")
        else:
            said = Decision(approved=True, by="ann", call_id=each.call_id, digest=each.digest)
            await desk(site).decide(each.run_id, said)
    await asyncio.sleep(0.05)

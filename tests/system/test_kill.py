"""kill -9 at every boundary of a run: what the next worker makes of it."""

from __future__ import annotations

import signal
from functools import partial

import pytest

from tests.system.processes import CRASHING, until

LEASE = 1.0
RECOVERY = LEASE + 5.0
PLAN = "book a, book b"

# The point of the crash; which step is asked for twice; what becomes of the first booking.
# Journal writes of the plan: 1 reply, 2 intent, 3 result of `a`; 4, 5, 6 the same of `b`.
POINTS = {
    "received": ("claim", {}, "live"),
    "opened": ("open", {}, "live"),
    "model called": ("model", {1: 2}, "live"),
    "model saved": ("append:1", {}, "live"),
    "intent saved": ("append:2", {}, "unknown"),
    "effect done": ("die-after-effect", {}, "unknown"),
    "result saved": ("append:3", {}, "live"),
    "finished": ("finish", {}, "live"),
    "acked": ("ack", {}, "live"),
}


async def crash(site, point):
    """Start a worker that is killed at the point, and wait for its end."""
    if point.startswith("die"):
        site.ask_for(point)
    worker = site.start((*CRASHING, "never" if point in ("model", "die-after-effect") else point))
    if point == "model":
        site.model.before_reply = lambda asked: worker.kill()
    code = await worker.ended(within=15)
    site.model.before_reply = lambda asked: None
    assert code == -signal.SIGKILL


async def finished_by_the_next(site, point):
    """Let one worker die at the point, and hold what the next one makes of it."""
    where, asked_again, first = POINTS[point]
    await site.submit("t", PLAN, reply_to="queue:results")
    await crash(site, where)
    site.start()
    result = await site.result("t", within=RECOVERY + 2.0)  # and two to start a process
    await site.empty()
    published = [lease.id for lease in await claimed(site, "results")]
    never_made = ["book a"] if point == "intent saved" else []

    assert (result.status, result.answer.startswith("done: t")) == ("completed", True)
    assert [call.source for call in result.tool_calls] == [first, "live"]
    assert site.model.counts("t") == {1: 1, 2: 1, 3: 1} | asked_again
    assert sorted([*site.effects(), *never_made]) == ["book a", "book b"]
    assert ("unknown" in result.answer) == (first == "unknown")
    assert published == ["t/result"]


@pytest.mark.parametrize("point", POINTS)
async def test_killed_run_is_finished_by_the_next_worker(site, point):
    """The next worker answers, asks nothing that was answered, and repeats no booking."""
    await finished_by_the_next(site, point)


async def claimed(site, name):
    """Take everything from another queue of the site."""
    queue = site.queue.sibling(name)
    return await queue.claim(owner="test", lease_seconds=60, wait_seconds=2, limit=100)


@pytest.mark.parametrize(("point", "times"), [("append:2", 1), ("die-after-effect", 2)])
async def test_killed_idempotent_call_is_made_again_with_its_key(site, point, times):
    """Declared idempotent: whatever became of it, it is called again under the same key."""
    await site.submit("t", "reserve a")
    await crash(site, point)
    site.start()
    result = await site.result("t", within=RECOVERY + 2.0)

    assert [call.source for call in result.tool_calls] == ["live"]
    assert site.effects() == ["reserve a"] * times
    assert len(set(site.keys("reserve"))) == 1


async def test_worker_that_dies_at_every_write_gets_there(site):
    """Each life adds one write to the journal; nothing is asked or done twice on the way."""
    settings = {"QUEUE__LEASE_SECONDS": "0.5", "QUEUE__MAX_DELIVERIES": "50"}
    await site.submit("t", "look a, reserve b")
    lives = 0
    while await site.store.result("t") is None:
        worker = site.start((*CRASHING, "append:1"), **settings)
        lives += 1
        await until(partial(over, site, worker), within=15, what="a crash or a result")
    result = await site.store.result("t")

    # The reply and the result of a, the reply, the intent and the result of b; then the end.
    assert lives == 5 + 1
    assert [call.source for call in result.tool_calls] == ["live", "live"]
    assert site.model.counts("t") == {1: 1, 2: 1, 3: 1}
    assert site.effects() == ["look a", "reserve b"]


async def over(site, worker):
    """Whether the worker has died or the task is done."""
    return not worker.alive or await site.store.result("t") is not None


async def test_undeclared_mail_is_sent_once(site):
    """A tool that smells of writing and says nothing counts as a write: one mail, unknown."""
    await site.submit("t", "send_mail hello")
    await crash(site, "die-after-effect")
    site.start()
    result = await site.result("t", within=RECOVERY + 2.0)

    assert site.effects() == ["send_mail hello"]
    assert [call.source for call in result.tool_calls] == ["unknown"]
    assert "unknown" in result.answer


async def test_waiting_worker_takes_over_within_the_lease(site):
    """A worker that is there already needs the lease and a moment, not a start."""
    worker = site.start()
    await site.submit("t", "hold never, book a")
    await site.effect("hold never")
    second = site.start(admin=True)
    await second.ready()
    worker.kill()
    site.ask_for("never")
    result = await site.result("t", within=RECOVERY)
    await second.said("run.taken_over")

    assert (result.status, site.effects("book")) == ("completed", ["book a"])
    assert site.effects("hold") == ["hold never"] * 2

"""Runs of a session that wait, for a person or for the session: what others are told meanwhile."""

from __future__ import annotations

import time

import pytest

from tests.running.waits import ASKS, decide, last_words, parked, refunding, until
from worker import Task
from worker.core.history import is_paired
from worker.model.scripted import answer
from worker.store.port import SessionClaim
from worker.telemetry.signals import TaskSettled

ENGINES = ["memory://", "sqlite"]


@pytest.fixture(params=ENGINES)
def engine(request, tmp_path):
    """Where tasks and conversations are kept."""
    return f"sqlite:///{tmp_path}/t.db" if request.param == "sqlite" else request.param


async def said(worker):
    """The texts of the conversation."""
    kept = await worker.store.conversation("s")
    assert is_paired(kept)
    return [m["content"] for m in kept if m["role"] in ("user", "assistant") and m["content"]]


async def test_others_speak_while_a_run_waits_for_a_person(start, ask, engine):
    """They are told that something is open; its end takes the place of that word."""
    async with start(ASKS, answer("two"), last_words, tools=[refunding([])], queue_url=engine) as w:
        await w.submit(Task("t1", "refund it", session_id="s"))
        await parked(w, "t1")
        await ask(w, Task("t2", "and the weather?", session_id="s"))
        between = await said(w)
        told = [m.body["content"] for m in w.model.requests[-1].messages[1:]]
        await decide(w, "t1")
        result = await w.result("t1", wait_seconds=10)
        after = await said(w)

    assert between[0] == "refund it"
    assert between[1].startswith("[This is not finished yet: ")
    assert told == [*between[:2], "and the weather?"]
    assert result.answer == "told: refunded 20"
    assert after == ["and the weather?", "two", "refund it", "told: refunded 20"]


async def test_a_waiting_run_that_is_cancelled_leaves_word(start, engine):
    """Nobody is told any more that its answer will follow."""
    async with start(ASKS, tools=[refunding([])], queue_url=engine) as worker:
        await worker.submit(Task("t1", "refund it", session_id="s"))
        await parked(worker, "t1")
        await worker.desk.cancel("t1")
        result = await worker.result("t1", wait_seconds=10)
        kept = await said(worker)

    assert result.status == "cancelled"
    assert kept == ["refund it", "[This question got no answer: cancelled.]"]


async def test_cancelled_in_the_line_after_it_waited(start, engine):
    """Its place goes with it: whoever stood behind it comes next, at once."""
    script = [ASKS, answer("three")]
    async with start(*script, tools=[refunding([])], queue_url=engine) as worker:
        await worker.submit(Task("t1", "refund it", session_id="s"))
        await parked(worker, "t1")
        claim = SessionClaim("s", place=0.0)
        other = await worker.store.open("other", owner="x", lease_seconds=60, session=claim)
        await decide(worker, "t1")

        async def stands():
            return await worker.store.waits("t1")

        await until(stands)
        await worker.submit(Task("t3", "three?", session_id="s"))
        await worker.desk.cancel("t1")
        await worker.store.release(other.run)
        result = await worker.result("t3", wait_seconds=10)

        assert other.run.session.next_run == "t3"
        assert result.answer == "three"
        assert (await worker.result("t1")).status == "cancelled"


async def test_the_view_says_what_a_task_waits_for(start):
    """Which session, who has it, and how many are in front; nothing once it has its turn."""
    async with start(otherwise="fine") as worker:
        claim = SessionClaim("s", place=0.0)
        other = await worker.store.open("other", owner="x", lease_seconds=60, session=claim)
        for name in ("t1", "t2"):
            await worker.submit(Task(name, name, session_id="s"))
        waits = [(await worker.desk.look(name)).to_wire()["waiting"] for name in ("t1", "t2")]
        await worker.store.release(other.run)
        await worker.queue.wake(other.run.session.next_run)
        await worker.result("t2", wait_seconds=10)
        after = (await worker.desk.look("t2")).to_wire()["waiting"]

    wait = {"kind": "session", "session": "s", "task": "other"}
    assert waits == [[{**wait, "ahead": 0}], [{**wait, "ahead": 1}]]
    assert after == []


async def test_a_deadline_in_the_line_ends_no_run_that_has_begun(start, engine):
    """It has more to tell than that it is late, so it comes in its turn and says how it ended."""
    ends = time.time() + 3600.0
    async with start(ASKS, last_words, tools=[refunding([])], queue_url=engine) as worker:
        await worker.submit(Task("t1", "refund it", session_id="s", deadline=ends))
        await parked(worker, "t1")
        claim = SessionClaim("s", place=0.0)
        other = await worker.store.open("other", owner="x", lease_seconds=60, session=claim)
        worker.consumer._desk._wall = lambda: ends + 1.0
        await decide(worker, "t1")

        async def stands():
            return await worker.store.waits("t1")

        await until(stands)
        await worker.store.release(other.run)
        await worker.queue.wake("t1")
        result = await worker.result("t1", wait_seconds=10)

    assert (result.status, result.answer) == ("completed", "told: refunded 20")


async def test_nobody_waits_in_the_line_beyond_the_deadline(start):
    """A task comes back for its session when its time is over, if not before."""
    ends = int(time.time()) + 3600.0
    async with start(otherwise="fine") as worker:
        claim = SessionClaim("s", place=0.0)
        await worker.store.open("other", owner="x", lease_seconds=60, session=claim)
        worker.consumer._desk._wall = lambda: ends - 0.0625
        await worker.submit(Task("t1", "hm?", session_id="s", deadline=ends))

        await until(lambda: worker.ears.of(TaskSettled))
        first = worker.ears.of(TaskSettled)[0]

    assert (first.outcome, first.delay_seconds) == ("release", 0.0625)

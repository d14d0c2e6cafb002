"""A task says why it waits: in a word, in a sentence, until when, and behind whom."""

from __future__ import annotations

import pytest

from tests.web.house import NOW, House, calls
from worker.queues.port import Depth, Place
from worker.store.port import SessionClaim
from worker.web.whys import (
    Receiving,
    receiving_of,
    why_hidden,
    why_in_work,
    why_ready,
    why_waiting_for_calls,
)


async def why_of(client, task_id="t"):
    """What the API says of a task."""
    return (await client.get(f"/v1/tasks/{task_id}")).json()["why"]


async def handed_back(house, client, *, seconds, counted, reason):
    """A task that a worker has claimed and handed back."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    lease = await house.claim()
    await house.queue.nack(lease, delay_seconds=seconds, counted=counted, reason=reason)
    return await why_of(client)


async def test_a_scheduled_task(client):
    """It tells when it may begin."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x", "not_before": NOW + 60})
    why = await why_of(client)

    assert (why["reason"], why["task"]) == ("scheduled", None)
    assert why["text"] == f"it is not to begin before its time, at {why['until']}"


@pytest.mark.parametrize(
    ("counted", "note", "reason", "text"),
    [
        (True, "timeout: slow", "retry", "timeout: slow (delivery 1); it is tried again at"),
        (True, "bug", "retry", "bug (delivery 1); it is tried again at"),
        (False, "model_unavailable: open", "retry", "model_unavailable: open; it is tried again"),
        (False, "busy", "busy", "a worker still has its run; it is looked at again at"),
        (False, "quarantine", "suspect", "workers died while they had it"),
        (False, "not_before", "scheduled", "it is not to begin before"),
        (False, "the reply queue is full", "parked", "the reply queue is full; it comes back at"),
    ],
)
async def test_a_task_that_was_handed_back(house, client, counted, note, reason, text):
    """What was said then, and when it comes again."""
    why = await handed_back(house, client, seconds=90.0, counted=counted, reason=note)

    assert (why["reason"], why["text"].startswith(text)) == (reason, True)
    assert why["until"] is not None


async def test_a_task_behind_another_of_its_session(house, client):
    """It names the task that has the session, and how many go before."""
    why = await handed_back(house, client, seconds=5.0, counted=False, reason="session busy")
    first = await house.store.open(
        "first", owner="w1", lease_seconds=60, session=SessionClaim("chat", "", 0.0)
    )
    for place, name in ((1.0, "second"), (2.0, "t")):
        await house.store.enlist(name, SessionClaim("chat", "", place))
    behind = await why_of(client)
    await house.store.release(first.run)
    later = await why_of(client)

    assert (why["reason"], why["text"]) == ("session", "its session has become free for it")
    assert (behind["reason"], behind["task"]) == ("session", "first")
    assert behind["text"] == "session 'chat' is busy with task 'first', and 1 waits before it"
    assert (later["task"], later["text"]) == (
        *(None, "session 'chat' is free, but 1 waits before it"),
    )


async def test_a_task_in_work(house, client):
    """Whoever has it, and until when at least; cancelled, that it ends soon; finished, nothing."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    await house.claim()
    claimed = await why_of(client)
    run = await house.begin("t")
    running = await why_of(client)
    await client.delete("/v1/tasks/t")
    cancelling = await why_of(client)

    assert (claimed["reason"], claimed["text"]) == (
        "leased",
        f"w1 has it, until {claimed['until']} at least",
    )
    assert running == claimed
    assert (cancelling["reason"], "w1 has it, and ends it" in cancelling["text"]) == (
        *("cancelling", True),
    )
    await house.store.append(run, [calls("get_stock_price")])


async def test_a_finished_task_waits_for_nothing(client):
    """Also one that was cancelled while it waited."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    view = (await client.delete("/v1/tasks/t")).json()

    assert (view["status"], view["why"]) == ("finished", None)


async def test_a_ready_task_without_a_worker(house, client):
    """At first it is only young; later it is asked whether a worker runs."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    young = await why_of(client)
    house.broker.clock = lambda: NOW - 60
    await client.post("/v1/tasks", json={"id": "old", "input": "x"})
    house.broker.clock = lambda: NOW
    old = await why_of(client, "old")

    assert (young["reason"], young["text"]) == (
        "worker",
        "ready for 0 s: any worker that is running takes it in a moment",
    )
    seen = why_ready(Place("ready", since=NOW), Receiving(), now=NOW)  # by a worker's own desk
    assert seen.text == "ready for 0 s: a worker takes it in a moment"
    assert old["text"] == "ready for 60 s: no worker receives; is one running on this queue?"


@pytest.mark.parametrize(
    ("receiving", "said"),
    [
        (Receiving("this worker drains"), "this worker drains"),
        (Receiving(), "others go before it"),
        (receiving_of(Depth(leased=7)), "the workers have 7 others in work"),
        (receiving_of(Depth(ready=7)), "no worker receives; is one running on this queue?"),
    ],
)
def test_what_keeps_workers_from_a_ready_task(receiving, said):
    """Seen by a worker of its own, or from the queue alone; with what was said before."""
    place = Place("ready", since=NOW - 12.4, note="the lease of w1 ran out")

    why = why_ready(place, receiving, now=NOW)

    assert why.text == f"the lease of w1 ran out; ready for 12 s: {said}"


def test_a_ready_task_whose_time_has_not_come():
    """Another program may put a row that begins later: no worker takes it in a moment."""
    why = why_ready(Place("ready", since=NOW + 60), Receiving(), now=NOW)

    assert (why.reason, why.until) == ("scheduled", NOW + 60)


def test_calls_that_wait_for_persons_and_jobs():
    """A person's decision is the reason before a job's report; of many, three are named."""
    job = {"kind": "job", "tool": "report", "call": "c1"}
    asked = {"kind": "approval", "tool": "refund", "call": "c2"}

    one, many = why_waiting_for_calls([job], 1.0), why_waiting_for_calls([job, asked] * 2, 1.0)

    assert (one.reason, one.text) == ("job", "the job has to report for report (call c1)")
    assert (many.reason, many.text.count("call c"), many.text.endswith("and 1 more")) == (
        *("approval", 3, True),
    )


def test_engines_that_tell_less():
    """Without times or owners the sentence is shorter, and none is invented."""
    hidden = why_hidden(Place("parked", note="busy"), owner="w9")

    assert hidden.text == "w9 still has its run; it is looked at again later"
    assert why_in_work(None, None).text == "a worker has it"


async def test_polls_of_a_long_run_read_what_is_new(client, house, monkeypatch):
    """The events that were counted once are not read again; a run of that name begins anew."""
    await client.post("/v1/tasks", json={"id": "t", "input": "x"})
    run = await house.begin("t")
    asked, view = [], house.store.view

    async def seen(task_id, *, after_seq=-1):
        asked.append(after_seq)
        return await view(task_id, after_seq=after_seq)

    monkeypatch.setattr(house.store, "view", seen)
    taken = []
    for _ in range(3):
        taken.append((await client.get("/v1/tasks/t")).json()["steps"]["taken"])
        await house.store.append(run, [calls("get_stock_price")])
    again = House()
    again.base.clock = lambda: NOW + 5
    house.base.records = again.base.records
    await house.begin("t")
    house.base.records["t"].created_at += 5
    begun = (await client.get("/v1/tasks/t")).json()["steps"]

    assert (taken, begun["taken"]) == ([0, 1, 2], 0)
    assert asked == [-1, 0, 1, 2, -1]

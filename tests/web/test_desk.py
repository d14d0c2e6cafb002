"""The desk by itself: what a cancel leaves behind, the places of sessions, the counts it keeps."""

from __future__ import annotations

import asyncio

import pytest

from tests.web.house import NOW, House, calls, started
from worker.core.errors import QueueUnavailable, StoreUnavailable
from worker.core.events import Parked
from worker.core.sessionbounds import SessionOptions
from worker.core.task import Result
from worker.queues.port import Ticket
from worker.store.port import SessionClaim
from worker.web import bounds
from worker.web.bounds import StepCounts
from worker.web.desk import Desk

BODY = b'{"input": "x", "session_id": "chat"}'


@pytest.fixture
def inside() -> House:
    """What stands behind a server, without one that listens."""
    return House()


@pytest.fixture
def desk(inside) -> Desk:
    """A desk that keeps conversations; nobody asks for results."""

    async def publish(result, reply_to) -> None:
        assert reply_to is None

    return Desk(
        inside.queue,
        inside.store,
        now=lambda: NOW,
        new_id=lambda: next(inside.ids),
        publish=publish,
        sessions=SessionOptions(),
    )


async def let_go(inside, *events, task_id="t"):
    """A task that a worker has begun and handed back: it waits for something."""
    await inside.queue.put(Ticket(task_id, BODY))
    lease = await inside.claim()
    run = await inside.begin(task_id)
    await inside.store.append(run, [*events])
    await inside.store.release(run)
    await inside.queue.nack(lease, delay_seconds=600, counted=False, reason="approval")


async def kinds_of(inside, task_id="t"):
    """The kinds of the events of a run."""
    view = await inside.store.view(task_id)
    return [event["kind"] for event in view.events]


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ([], ["started", "ended"]),
        ([Parked(NOW, "approval")], ["started", "parked", "resumed", "ended"]),
    ],
)
async def test_a_cancel_is_written_into_the_run(inside, desk, events, kinds):
    """A run that is parked is taken up to be ended; one that is not just ends."""
    await let_go(inside, *events)
    view = await desk.cancel("t")

    assert (view.status, view.result.status) == ("finished", "cancelled")
    assert await kinds_of(inside) == kinds


async def test_a_run_that_nobody_can_read_is_cancelled_all_the_same(inside, desk):
    """Its journal makes no sense, its result does."""
    await let_go(inside, started(task_id="t"))
    view = await desk.cancel("t")

    assert (view.status, view.result.status) == ("finished", "cancelled")
    assert await kinds_of(inside) == ["started", "started"]


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_cancel_lets_the_next_of_the_session_come(inside, desk, monkeypatch, is_away):
    """At once; where the queue cannot be told, its own time brings it, and the cancel is whole."""
    await inside.store.enlist("next", SessionClaim("chat", "", 1.0))
    await let_go(inside, task_id="next")
    await let_go(inside, Parked(NOW, "approval"))
    if is_away:

        async def away(task_id, **_):
            raise QueueUnavailable("gone")

        monkeypatch.setattr(inside.queue, "wake", away)
    view = await desk.cancel("t")

    assert (view.status, view.place) == ("finished", "done")
    assert await inside.queue.state("next") == ("parked" if is_away else "ready")


async def test_a_task_that_ends_while_it_is_looked_at_is_not_finished_without_a_result(
    inside, desk, monkeypatch
):
    """Whoever waits for `finished` and reads the result must find one."""
    await inside.queue.put(Ticket("t", BODY))
    lease, run = await inside.claim(), await inside.begin("t")
    reading = inside.store.result

    async def just_before_the_end(task_id):
        found = await reading(task_id)
        if not run.closing:
            await inside.store.finish(run, [], Result(task_id, "completed"))
            await inside.queue.ack(lease)
        return found

    monkeypatch.setattr(inside.store, "result", just_before_the_end)
    first, second = await desk.look("t"), await desk.look("t")

    assert (first.status, first.result) == ("running", None)
    assert (second.status, second.result.status) == ("finished", "completed")


async def test_taken_up_while_it_is_cancelled(inside, desk, monkeypatch):
    """Then it is in work, and its worker is asked to end it."""
    await let_go(inside)
    opening = inside.store.open

    async def late(task_id, **how):
        monkeypatch.setattr(inside.store, "open", opening)
        await inside.queue.wake(task_id)
        await inside.claim()
        await opening(task_id, owner="w2", lease_seconds=60)
        return await opening(task_id, **how)

    monkeypatch.setattr(inside.store, "open", late)
    view = await desk.cancel("t")

    assert view.status == "cancelling"
    assert await inside.store.cancel_requested("t")


async def test_cancelled_while_it_is_being_parked(inside, desk):
    """It comes back at once to be ended, and not when its time is over."""
    await inside.queue.put(Ticket("t", BODY))
    lease = await inside.claim()
    await inside.begin("t")
    view = await desk.cancel("t")
    await inside.queue.nack(lease, delay_seconds=600, counted=False, reason="approval")

    assert (view.status, await inside.queue.state("t")) == ("cancelling", "ready")


async def test_places_in_a_session_from_the_moment_of_handing_in(inside, desk):
    """By priority; alone in the line there is nothing to wait for; scheduled ones have no place yet."""
    said = '{"id": "%s", "input": "x", "session_id": "chat", "priority": %d%s}'
    await desk.submit((said % ("later", 9, f', "not_before": {NOW + 60}')).encode())
    await desk.submit((said % ("low", 1, "")).encode())
    alone = await desk.look("low")
    await desk.submit((said % ("high", 5, "")).encode())
    line = [await inside.store.waits(name) for name in ("later", "high", "low")]

    assert alone.waiting == ()
    assert [wait and wait.ahead for wait in line] == [None, 0, 1]


async def test_an_outage_of_the_store_keeps_no_task_from_the_queue(inside, desk, monkeypatch):
    """The place in the session is taken when a worker opens it."""

    async def away(*_):
        raise StoreUnavailable("gone")

    monkeypatch.setattr(inside.store, "enlist", away)
    submitted = await desk.submit(BODY, content_type="application/json")

    assert submitted.created
    assert await inside.queue.state(submitted.task.id) == "ready"


@pytest.mark.parametrize(("chars", "kept"), [(512, 512), (513, 0)])
async def test_state_of_a_trace_is_bounded(desk, chars, kept):
    """What is longer than every system has to keep is left out, the trace itself is not."""
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    submitted = await desk.submit(BODY, traceparent=trace, tracestate="a" * chars)

    assert submitted.task.traceparent == trace
    assert len(submitted.task.tracestate or "") == kept


async def test_two_who_look_at_once_count_once(inside, monkeypatch):
    """Both have read the same events before either has counted them."""
    run, view = await inside.begin("t"), inside.store.view
    both = asyncio.Barrier(2)

    async def slow(task_id, *, after_seq=-1):
        seen = await view(task_id, after_seq=after_seq)
        await both.wait()
        return seen

    counts = StepCounts(inside.store)
    await counts.look("t")
    await inside.store.append(run, [calls("get_stock_price")])
    monkeypatch.setattr(inside.store, "view", slow)
    looks = await asyncio.gather(counts.look("t"), counts.look("t"))

    assert [steps["taken"] for _, steps in looks] == [1, 1]


async def test_counts_of_the_runs_that_were_asked_for_last_are_kept(inside, monkeypatch):
    """So many, and the one that nobody has asked for longest is read from its beginning again."""
    monkeypatch.setattr(bounds, "COUNTED_MAX", 2)
    asked, view = [], inside.store.view

    async def seen(task_id, *, after_seq=-1):
        asked.append((task_id, after_seq))
        return await view(task_id, after_seq=after_seq)

    monkeypatch.setattr(inside.store, "view", seen)
    for name in "abc":
        await inside.begin(name)
    counts = StepCounts(inside.store)
    for name in "abacab":
        await counts.look(name)

    assert asked == [("a", -1), ("b", -1), ("a", 0), ("c", -1), ("a", 0), ("b", -1)]


async def test_a_task_that_the_queue_has_lost(inside, desk):
    """Running as long as its worker has it; then it says that nobody has, and goes on when put back."""
    run = await inside.begin("t")
    held = await desk.look("t")
    inside.base.clock = lambda: NOW + 3600
    lost = await desk.look("t")
    await inside.store.request_cancel("t")
    asked = await desk.look("t")
    await inside.queue.put(Ticket("t", BODY))
    back = await desk.look("t")

    assert (held.status, held.why.reason) == ("running", "leased")
    assert (lost.status, lost.place, lost.why.reason) == ("queued", None, "lost")
    assert lost.why.text.startswith(f"{run.owner} had it and has gone")
    assert (asked.status, asked.why.reason) == ("queued", "lost")
    assert (back.status, back.place) == ("cancelling", "ready")


async def test_a_task_that_the_queue_has_lost_is_cancelled_at_once(inside, desk):
    """There is no worker that could hear of it."""
    await inside.begin("t")
    inside.base.clock = lambda: NOW + 3600
    view = await desk.cancel("t")

    assert (view.status, view.result.status) == ("finished", "cancelled")

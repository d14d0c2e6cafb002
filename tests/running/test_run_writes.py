"""How often a run writes, and what is lost when a write fails."""

from __future__ import annotations

from worker import Task, tool
from worker.core import settlement
from worker.core.errors import StoreUnavailable
from worker.model.scripted import answer, calls
from worker.telemetry.signals import StoreCall


@tool(effect="write")
async def book(x: int) -> str:
    """Book a number.

    Args:
        x: The number.
    """
    return f"booked {x}"


@tool
async def double(x: int) -> str:
    """Double a number.

    Args:
        x: The number.
    """
    return str(2 * x)


async def test_an_answer_and_the_end_of_its_run_are_one_write(start, ask):
    """An answer costs no write of its own, and its reply is in the journal all the same."""
    async with start(calls(("double", {"x": 4})), answer("8"), tools=[double]) as worker:
        result = await ask(worker, Task("t1", "double 4"))
        written = [c.name for c in worker.ears.of(StoreCall, "settled") if c.name != "open"]
        view = await worker.store.view("t1")

        assert result.answer == "8"
        assert written == ["append", "append", "finish"]
        assert view.events[-1]["kind"] == "model_replied"


async def test_what_stands_for_an_effect_outlives_the_machine(start, ask, writes):
    """Intents and results of writing tools wait for the disk; replies and results of reads do not.

    The intent is written in full before the tool runs, and with it all that came before.
    """
    plan = calls(("double", {"x": 4})), calls(("book", {"x": 8})), answer("done")
    async with start(*plan, tools=[double, book]) as worker:
        batches = writes(worker)
        await ask(worker, Task("t1", "double 4 and book it"))

    assert [(*(kind.__name__ for kind in kinds), kinds.synced) for kinds in batches] == [
        ("Started", "ModelReplied", False),
        ("ToolReturned", False),
        ("ModelReplied", False),
        ("ToolStarted", True),
        ("ToolReturned", True),
    ]


async def test_an_answer_that_could_not_be_written_is_not_given(start, ask):
    """When the write at the end fails, the run is taken up again and the model is asked again."""
    queue = {"lease_seconds": 0.5, "poll_seconds": 0.05, "backoff_seconds": 0.0}
    async with start(answer("first"), answer("second"), queue=queue) as worker:
        finish, failures = worker.store.inner.finish, [StoreUnavailable("gone for a moment")]

        async def failing(run, events, result, **more):
            if failures:
                raise failures.pop()
            await finish(run, events, result)

        worker.store.inner.finish = failing
        result = await ask(worker, Task("t1", "say it"))

        assert result.answer == "second"
        assert len(worker.model.requests) == 2


async def test_an_outage_of_the_store_uses_up_no_delivery(start, ask, monkeypatch):
    """However long it lasts: tasks come back by themselves, and none is given up for it."""
    monkeypatch.setattr(settlement, "_OUTAGE_SECONDS", 0.001)
    monkeypatch.setattr(settlement, "_OUTAGE_SECONDS_MAX", 0.004)
    queue = {"lease_seconds": 30.0, "poll_seconds": 0.01, "max_deliveries": 2}
    async with start(answer("fine"), queue=queue) as worker:
        base, opens = worker.store.inner.base, 0
        opening = worker.store.inner.open

        async def counted(*words, **more):
            nonlocal opens
            opens += 1
            base.outage = opens <= 5
            return await opening(*words, **more)

        worker.store.inner.open = counted
        result = await ask(worker, Task("t1", "say it"))

        assert (result.status, opens) == ("completed", 6)


async def test_a_run_whose_write_failed_is_let_go_of_at_once(start, ask, monkeypatch):
    """As soon as the store answers again; nobody has to wait for the lease."""
    monkeypatch.setattr(settlement, "_OUTAGE_SECONDS", 0.001)
    queue = {"lease_seconds": 600.0, "poll_seconds": 0.01}
    async with start(answer("first"), answer("second"), queue=queue) as worker:
        finish, failures = worker.store.inner.finish, [StoreUnavailable("gone for a moment")]

        async def failing(run, events, result, **more):
            if failures:
                raise failures.pop()
            await finish(run, events, result)

        worker.store.inner.finish = failing
        result = await ask(worker, Task("t1", "say it"))

        assert (result.answer, len(worker.model.requests)) == ("second", 2)

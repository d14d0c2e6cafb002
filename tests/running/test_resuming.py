"""What a later worker makes of the journal of one that died."""

from __future__ import annotations

import asyncio

import pytest

from worker import Task, tool
from worker.core.events import ModelReplied, Started, ToolReturned, ToolStarted
from worker.core.limits import Limits
from worker.core.messages import Observation
from worker.core.opening import Opening, open_run
from worker.model.scripted import answer, calls


def tool_messages(model):
    """The tool messages of the last request that the model saw."""
    return [m.body for m in model.requests[-1].messages if m.role == "tool"]


async def interrupted(worker, *events, task_id="t1"):
    """Leave the journal of a worker that died after these events, and hand the task in."""
    await worker._open()
    await left_behind(worker, *events, task_id=task_id)
    return await taken_up(worker, task_id)


async def left_behind(worker, *events, task_id="t1"):
    """Leave the journal of a worker that died after these events."""
    opened = await worker.store.open(task_id, owner="dead", lease_seconds=5)
    opening = Opening(Limits(), 60.0, 200)
    task = Task(task_id, "send the mail")
    begun = open_run(task, opening, now=1_790_000_000.0, tools=worker.registry.names)
    begun = Started(**{f: getattr(begun, f) for f in begun.__slots__} | {"deadline": None})
    await worker.store.append(opened.run, [begun, *events])
    await worker.store.release(opened.run)


async def taken_up(worker, task_id="t1"):
    """Hand the task in, let the worker work, and return the result."""
    await worker.submit(Task(task_id, "send the mail"))
    worker._working = asyncio.create_task(worker._work())
    result = await worker.result(task_id, wait_seconds=10)
    await worker.stop()
    assert result is not None
    return result


def mailer(sent, **options):
    """An undeclared tool that smells of writing."""

    @tool(**options)
    async def send_mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    return send_mail


ASKED = ModelReplied(1_790_000_000.0, calls(("send_mail", {"to": "bob"})))
BEGUN = ToolStarted(1_790_000_000.0, "c1", "key")


async def test_a_reply_that_is_journaled_is_not_asked_for_again(start):
    """The run goes on from its last completed step."""
    sent = []
    async with start(answer("done"), tools=[mailer(sent)], running=False) as worker:
        result = await interrupted(worker, ASKED)

        assert (result.status, sent) == ("completed", ["bob"])
        assert len(worker.model.requests) == 1


async def test_of_calls_side_by_side_those_that_returned_are_not_made_again(start):
    """Two of three have their result when the worker dies: the third alone is in doubt."""
    sent = []
    to_all = calls(*(("send_mail", {"to": name}) for name in ("ann", "bob", "cem")))
    begun = [ToolStarted(1_790_000_000.0, f"c{number}", f"key {number}") for number in (1, 2, 3)]
    returned = [
        ToolReturned(1_790_000_000.0, f"c{number}", Observation("sent")) for number in (1, 2)
    ]
    events = (ModelReplied(1_790_000_000.0, to_all), *begun, *returned)
    async with start(answer("done"), tools=[mailer(sent)], running=False) as worker:
        result = await interrupted(worker, *events)

    assert (result.status, sent) == ("completed", [])
    assert [str(call.source) for call in result.tool_calls] == ["live", "live", "unknown"]


async def test_an_interrupted_write_is_never_repeated(start):
    """The effect may have happened: the outcome is unknown, and the answer says so."""
    sent = []
    async with start(answer("Mail sent."), tools=[mailer(sent)], running=False) as worker:
        result = await interrupted(worker, ASKED, BEGUN)

        assert sent == []
        assert [c.source for c in result.tool_calls] == ["unknown"]
        assert "unknown" in result.answer
        assert "unknown" in tool_messages(worker.model)[0]["content"].lower()


@pytest.mark.parametrize(
    ("found", "runs", "source"), [("was sent", [], "live"), (None, ["bob"], "live")]
)
async def test_verify_decides_what_became_of_an_interrupted_write(start, found, runs, source):
    """verify says done: its result counts. verify says not done: the write is made now."""
    sent = []

    async def look(to: str):
        return found

    mail = mailer(sent, effect="write", verify=look)
    async with start(answer("ok"), tools=[mail], running=False) as worker:
        result = await interrupted(worker, ASKED, BEGUN)

        assert sent == runs
        assert [c.source for c in result.tool_calls] == [source]


async def test_a_verify_that_fails_leaves_the_outcome_unknown(start):
    """When nobody knows, nothing is repeated."""
    sent = []

    async def look(to: str):
        raise ConnectionError("mail log is away")

    mail = mailer(sent, effect="write", verify=look, attempts=1)
    async with start(answer("ok"), tools=[mail], running=False) as worker:
        result = await interrupted(worker, ASKED, BEGUN)

        assert sent == []
        assert [c.source for c in result.tool_calls] == ["unknown"]


async def test_an_interrupted_idempotent_call_is_repeated_with_the_same_key(start):
    """Declared idempotent: it runs again, and the key is the one it had before."""
    keys = []

    @tool(effect="idempotent")
    async def book(ctx, to: str) -> str:
        """Book something."""
        keys.append(ctx.idempotency_key)
        return "booked"

    asked = ModelReplied(1_790_000_000.0, calls(("book", {"to": "bob"})))
    for _ in range(2):
        async with start(answer("ok"), tools=[book], running=False) as worker:
            await interrupted(worker, asked, BEGUN)

    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert len(keys[0]) == 64


async def test_a_write_that_times_out_is_unknown_not_failed(start, ask):
    """Whoever stopped waiting does not know what happened."""

    @tool(effect="write", timeout_seconds=0.05)
    async def pay(amount: int) -> str:
        """Pay."""
        await asyncio.sleep(30)
        return "paid"

    script = [calls(("pay", {"amount": 5})), answer("paid")]
    async with start(*script, tools=[pay]) as worker:
        result = await ask(worker, "pay 5")

    assert [(c.source, c.attempts) for c in result.tool_calls] == [("unknown", 1)]
    assert "unknown" in result.answer


async def test_a_run_of_a_newer_worker_is_handed_back_not_given_up(start, monkeypatch):
    """During a rolling deploy an old worker may meet a journal that it cannot read."""
    from worker.store import codec
    from worker.telemetry.signals import TaskProcessing

    async with start(answer("done"), running=False) as worker:
        await worker._open()
        opened = await worker.store.open("t1", owner="newer", lease_seconds=5)
        await worker.store.append(opened.run, [BEGUN])
        await worker.store.release(opened.run)
        monkeypatch.setitem(codec.VERSIONS, "tool_started", 0)
        await worker.submit(Task("t1", "q"))
        worker._working = asyncio.create_task(worker._work())
        while not worker.ears.of(TaskProcessing, "settled"):  # noqa: ASYNC110  (told, not awaited)
            await asyncio.sleep(0)
        await worker.stop()

        settled = worker.ears.of(TaskProcessing, "settled")
        assert [s.settlement for s in settled] == ["release"]
        assert await worker.queue.inner.dead() == []

"""Tools that a person has to allow: what waits, what runs, what never does."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from tests.running.waits import (
    ARGUMENTS,
    ASKS,
    decide,
    kinds,
    last_words,
    parked,
    refunding,
    tool_messages,
    until,
)
from worker import tool
from worker.core.digest import arguments_hash
from worker.core.errors import ConfigError
from worker.model.scripted import answer, calls
from worker.telemetry.signals import ApprovalDecided, RunLoop, RunParked, RunResumed, ToolCalling
from worker.web.waiting import NotAccepted


async def test_a_call_waits_for_its_approval_holding_nothing(start):
    """The run parks: no slot, no lease; what waits is shown; approved, the call is made once."""
    made = []
    async with start(ASKS, last_words, tools=[refunding(made)], concurrency=1) as worker:
        task_id = await worker.submit("refund CN1")
        (waits,) = await parked(worker, task_id)
        depth = await worker.queue.depth()
        held, before = dict(worker.consumer.held), list(made)
        decided = await decide(worker, task_id, why="the customer is right")
        result = await worker.result(task_id, wait_seconds=10)
        view = await worker.store.view(task_id)

        assert (depth.parked, depth.leased, depth.delayed, held, before) == (1, 0, 0, {}, [])
        assert (waits["kind"], waits["call"], waits["tool"]) == ("approval", "c1", "refund")
        assert (waits["arguments"], waits["digest"]) == (ARGUMENTS, arguments_hash(ARGUMENTS))
        assert (decided["approved"], decided["by"], decided["call"]) == (True, "ann", "c1")
        assert (result.status, result.answer) == ("completed", "told: refunded 20")
        assert (made, result.degraded) == ([("CN1", 20)], ())
        assert kinds(view)[2:] == [
            *("approval_asked", "parked", "resumed", "decided"),
            *("tool_started", "tool_returned", "model_replied"),
        ]
        assert view.events[5]["data"]["by"] == "ann"
        assert await worker.store.mail.pending(kind="approval") == []


async def test_what_is_told_of_a_parked_run(start):
    """A line when it parks, when it goes on, and who decided; and no run counts as failed."""
    async with start(ASKS, last_words, tools=[refunding([])]) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        await decide(worker, task_id)
        await worker.result(task_id, wait_seconds=10)
        ears = worker.ears

        (one,) = ears.of(RunParked)
        assert (one.task_id, one.reason, one.tools) == (task_id, "approval", ("refund",))
        (resumed,) = ears.of(RunResumed)
        assert (resumed.reason, resumed.parked_seconds >= 0) == ("approval", True)
        (decided,) = ears.of(ApprovalDecided)
        assert (decided.who, decided.approved, decided.tool_name) == ("ann", True, "refund")
        loops = [(run.status, run.final_status, run.parked) for run in ears.of(RunLoop, "settled")]
        assert loops == [(None, "success", "approval"), ("completed", "success", None)]
        assert len(ears.of(ToolCalling, "settled")) == 1


@pytest.mark.parametrize("question", ["退款", "refund"])
async def test_a_denied_call_never_runs(start, question):
    """The model is told so, in the language of the question, and the answer says it."""
    made = []
    async with start(ASKS, answer("ok"), tools=[refunding(made)]) as worker:
        task_id = await worker.submit(question)
        await parked(worker, task_id)
        await decide(worker, task_id, approved=False, why="fraud")
        result = await worker.result(task_id, wait_seconds=10)

        error = json.loads(tool_messages(worker.model)[0])["error"]
        assert (error["type"], error["reason"]) == ("approval_denied", "fraud")
        assert ("没有得到批准" in error["message"]) == (question == "退款")
        assert (made, result.status) == ([], "completed")
        assert [(d.source, d.reason) for d in result.degraded] == [("skipped", "approval_denied")]
        (call,) = worker.ears.of(ToolCalling, "settled")
        assert (call.status_code, call.source) == (403, "skipped")


async def test_nobody_decides(start):
    """When its time is over the call counts as not run, and nothing waits any more."""
    made, waiting = [], {"approval_seconds": 1}
    async with start(ASKS, answer("ok"), tools=[refunding(made)], waiting=waiting) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        result = await worker.result(task_id, wait_seconds=10)

        assert [d.reason for d in result.degraded] == ["approval_expired"]
        assert made == []
        with pytest.raises(NotAccepted) as refused:
            await decide(worker, task_id)
        assert refused.value.code == 410


async def test_an_approval_is_bound_to_what_was_seen(start):
    """Another digest, another call or another task is refused, and changes nothing."""
    made = []
    async with start(ASKS, answer("ok"), tools=[refunding(made)]) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        codes = []
        for task, more in (
            (task_id, {"digest": arguments_hash({"order": "CN1", "amount": 2000})}),
            (task_id, {"call_id": "c2"}),
            ("unknown", {}),
        ):
            with pytest.raises(NotAccepted) as refused:
                await decide(worker, task, **more)
            codes.append(refused.value.code)

        assert codes == [409, 404, 404]
        assert (await worker.desk.look(task_id)).place == "parked"
        await decide(worker, task_id, digest=arguments_hash(ARGUMENTS))
        await worker.result(task_id, wait_seconds=10)
        assert made == [("CN1", 20)]


async def test_a_decision_is_made_once(start):
    """The same said again is harmless, before and after it was used; the opposite is refused."""
    made = []
    async with start(ASKS, answer("ok"), tools=[refunding(made)]) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        first = await decide(worker, task_id)
        for _ in range(2):
            assert await decide(worker, task_id) == first
            with pytest.raises(NotAccepted, match="approved by ann already"):
                await decide(worker, task_id, approved=False)
            await worker.result(task_id, wait_seconds=10)

        assert made == [("CN1", 20)]


async def test_the_same_call_in_a_later_step_is_asked_about_again(start):
    """An approval is used up by its call, though the model repeats id and arguments."""
    made = []
    async with start(ASKS, ASKS, answer("ok"), tools=[refunding(made)]) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        await decide(worker, task_id)
        await until(lambda: made)
        await parked(worker, task_id)
        assert made == [("CN1", 20)]
        await decide(worker, task_id, approved=False)
        result = await worker.result(task_id, wait_seconds=10)

        assert [call.source for call in result.tool_calls] == ["live", "skipped"]
        assert made == [("CN1", 20)]


async def test_several_calls_of_one_reply(start):
    """What may run runs at once; each of the others waits for its own decision, by its id."""
    made, looked = [], []

    @tool(effect="read")
    async def look(order: str) -> str:
        """Look."""
        looked.append(order)
        return "there"

    asks = calls(
        ("refund", ARGUMENTS), ("look", {"order": "CN1"}), ("refund", {**ARGUMENTS, "amount": 5})
    )
    async with start(asks, answer("ok"), tools=[refunding(made), look]) as worker:
        task_id = await worker.submit("refund CN1")
        waits = await parked(worker, task_id)
        assert ([each["call"] for each in waits], looked) == (["c1", "c3"], ["CN1"])
        with pytest.raises(NotAccepted, match=r"name one: c1 \(refund\), c3 \(refund\)"):
            await decide(worker, task_id)
        await decide(worker, task_id, call_id="c3")
        await until(lambda: made == [("CN1", 5)])
        waits = await parked(worker, task_id)
        assert [each["call"] for each in waits] == ["c1"]
        await decide(worker, task_id, approved=False)
        result = await worker.result(task_id, wait_seconds=10)

        assert [call.source for call in result.tool_calls] == ["skipped", "live", "live"]
        assert tool_messages(worker.model)[1:] == ["there", "refunded 5"]


async def test_a_decision_before_the_run_parks(start):
    """Decided while another call of the reply still runs, the run does not wait at all."""
    made, gate = [], asyncio.Event()

    @tool(effect="read")
    async def hold(order: str) -> str:
        """Wait."""
        await gate.wait()
        return "held"

    asks = calls(("hold", {"order": "x"}), ("refund", ARGUMENTS))
    async with start(asks, answer("ok"), tools=[refunding(made), hold]) as worker:
        task_id = await worker.submit("refund CN1")
        await until(lambda: worker.desk.waiting.of_task(task_id))
        await decide(worker, task_id)
        gate.set()
        result = await worker.result(task_id, wait_seconds=10)

        assert (result.status, made) == ("completed", [("CN1", 20)])
        assert worker.ears.of(RunParked) == []


async def test_a_decision_while_no_worker_runs(start, tmp_path):
    """It lies in the store until one comes, which finds it though nobody wakes the run again."""
    url, made = f"sqlite:///{tmp_path / 'a.db'}", []
    async with start(ASKS, tools=[refunding(made)], queue_url=url) as first:
        task_id = await first.submit("refund CN1")
        await parked(first, task_id)
    async with start(last_words, tools=[refunding(made)], queue_url=url, running=False) as second:
        await second.start(claim=False)
        await decide(second, task_id)
        await second.stop()
    async with start(last_words, tools=[refunding(made)], queue_url=url) as third:
        result = await third.result(task_id, wait_seconds=10)

    assert (result.answer, made) == ("told: refunded 20", [("CN1", 20)])


async def test_a_lost_wake_is_found(start, monkeypatch):
    """Posted by somebody who died before waking the run: the housekeeper finds it."""
    monkeypatch.setattr("worker.consuming.housekeeping.UNHEARD_SECONDS", 0.0)
    made = []
    async with start(ASKS, answer("ok"), tools=[refunding(made)]) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        (waits,) = await worker.store.mail.expected(task_id)
        said = {"approved": True, "digest": waits.digest, "by": "ann", "why": ""}
        await worker.store.mail.post(waits.address, json.dumps(said).encode())
        await worker.housekeeper.once()

        assert (await worker.result(task_id, wait_seconds=10)).status == "completed"
        assert made == [("CN1", 20)]


@pytest.mark.parametrize(
    "body", [b"", b"yes", b"[]", b"{}", b'{"approved": true}', b'{"approved": "true", "digest": 1}']
)
async def test_what_cannot_be_read_is_no_decision(start, body):
    """Odd bytes in the mailbox allow nothing; the run waits on."""
    made = []
    async with start(ASKS, answer("ok"), tools=[refunding(made)]) as worker:
        task_id = await worker.submit("refund CN1")
        await parked(worker, task_id)
        (waits,) = await worker.store.mail.expected(task_id)
        await worker.store.mail.post(waits.address, body)
        await worker.queue.wake(task_id)
        await until(lambda: len(worker.ears.of(RunParked)) == 2)

        assert (made, (await worker.store.result(task_id))) == ([], None)


@pytest.mark.parametrize(
    ("said", "waits"),
    [(("look",), ["c1", "c2"]), (("-refund",), []), (("-refund", "look"), ["c2"])],
)
async def test_operations_have_the_last_word(start, said, waits):
    """A setting asks for approvals that the author did not, and takes others back."""

    @tool(effect="read")
    async def look(order: str) -> str:
        """Look."""
        return "there"

    asks = calls(("refund", ARGUMENTS), ("look", {"order": "CN1"}))
    tools, waiting = [refunding([]), look], {"approvals": said}
    async with start(asks, answer("ok"), tools=tools, waiting=waiting) as worker:
        task_id = await worker.submit("refund CN1")
        if not waits:
            assert (await worker.result(task_id, wait_seconds=10)).status == "completed"
            return
        assert [each["call"] for each in await parked(worker, task_id)] == waits


async def test_a_servers_tool_keeps_its_own_approval(start):
    """A list that does not name it takes nothing back: whoever added the server asked for that."""
    servers = dataclasses.replace(refunding([]), source_line=0)
    assert servers.is_foreign
    waiting = {"approvals": ("-refund",)}
    async with start(ASKS, answer("ok"), tools=[servers], waiting=waiting) as worker:
        task_id = await worker.submit("refund CN1")

        assert [each["call"] for each in await parked(worker, task_id)] == ["c1"]


async def test_an_approval_for_no_tool_ends_the_start(start):
    """A name that was misspelt would let through what somebody meant to hold back."""
    with pytest.raises(ConfigError, match=r"WAITING__APPROVALS: there is no tool 'refnd'"):
        async with start(tools=[refunding([])], waiting={"approvals": ("refnd",)}):
            pass

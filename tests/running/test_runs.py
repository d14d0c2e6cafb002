"""What a task goes through, from the queue to its result."""

from __future__ import annotations

import asyncio
import json

from worker import NotConfigured, Task, ToolError, tool
from worker.core.errors import ModelError
from worker.model.scripted import answer, calls
from worker.telemetry.signals import RunLoop, ToolCalling


def tool_messages(model, request=-1):
    """The tool messages of a request that the model saw."""
    return [m.body for m in model.requests[request].messages if m.role == "tool"]


@tool
async def price(symbol: str) -> str:
    """Latest price of a ticker.

    Args:
        symbol: The ticker.
    """
    return f"{symbol} is 12.50"


async def test_a_question_is_answered_with_a_tool(start, ask):
    """Reason, call, observe, answer: and the result tells all of it."""
    script = [calls(("price", {"symbol": "ACME"})), answer("ACME is 12.50")]
    async with start(*script, tools=[price]) as worker:
        result = await ask(worker, "price of ACME?")

        assert (result.status, result.answer, result.steps) == ("completed", "ACME is 12.50", 2)
        assert [(c.id, c.name, c.source) for c in result.tool_calls] == [("c1", "price", "live")]
        assert tool_messages(worker.model)[0]["content"] == "ACME is 12.50"
        assert (await worker.queue.depth()).leased == 0


async def test_calls_of_one_reply_run_side_by_side_and_are_answered_in_order(start, ask):
    """Each call waits for the other; sequential execution would never end."""
    met = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        """Meet the other one."""
        await met.wait()
        return name

    script = [calls(("meet", {"name": "a"}), ("meet", {"name": "b"})), answer("ok")]
    async with start(*script, tools=[meet]) as worker:
        result = await ask(worker, "go")

        assert result.status == "completed"
        contents = [(m["tool_call_id"], m["content"]) for m in tool_messages(worker.model)]
        assert contents == [("c1", "a"), ("c2", "b")]


async def test_calls_of_a_sequential_group_run_one_after_another(start, ask):
    """Stateful calls are never in flight together, and run in call order."""
    log = []

    @tool(sequential="browser")
    async def click(name: str) -> str:
        """Click something."""
        log.append(f"+{name}")
        await asyncio.sleep(0)
        log.append(f"-{name}")
        return name

    script = [calls(*(("click", {"name": n}) for n in "abc")), answer("ok")]
    async with start(*script, tools=[click]) as worker:
        await ask(worker, "go")

    assert log == ["+a", "-a", "+b", "-b", "+c", "-c"]


async def test_mistakes_and_failures_go_back_to_the_model_as_structured_errors(start, ask):
    """A raising tool tells what it said; the run goes on, and every call is answered."""

    @tool(attempts=1)
    async def broken() -> str:
        """Always fails."""
        raise RuntimeError("price feed down")

    @tool
    async def polite() -> str:
        """Fails on purpose."""
        raise ToolError("no order of that id; ask for the full number")

    script = [calls(("broken", {}), ("polite", {})), answer("sorry")]
    async with start(*script, tools=[broken, polite]) as worker:
        result = await ask(worker, "go")

        first, second = tool_messages(worker.model)
        assert "price feed down" in json.loads(first["content"])["error"]["message"]
        assert "full number" in json.loads(second["content"])["error"]["message"]
        assert [(d.tool, d.source) for d in result.degraded] == [("broken", "error")]


async def test_a_missing_setting_is_told_without_its_name(start, ask):
    """The model and the answer learn that the tool was not there; what to set is for operators."""

    @tool
    async def rates() -> str:
        """Rates."""
        raise NotConfigured("RATES_URL is not set")

    script = [calls(("rates", {})), answer("All is well.")]
    async with start(*script, tools=[rates]) as worker:
        result = await ask(worker, "go")

        told = json.loads(tool_messages(worker.model)[0]["content"])["error"]
        assert (told["type"], "RATES_URL" in told["message"]) == ("not_configured", False)
        assert "Note: rates failed" in result.answer
        assert [(d.tool, d.reason) for d in result.degraded] == [("rates", "not_configured")]
        assert worker.guards.get("rates").snapshot()["consecutive_failures"] == 0


async def test_an_error_that_cannot_say_what_it_is_costs_one_call(start, ask):
    """Its type's name stands for its words; the run goes on."""

    class Speechless(ToolError):
        def __str__(self):
            raise KeyError("no words")

    class Mute(ValueError):
        def __str__(self):
            return None

    @tool(attempts=1)
    async def first() -> str:
        """Fails on purpose."""
        raise Speechless("never read")

    @tool(attempts=1)
    async def second() -> str:
        """Just fails."""
        raise Mute

    script = [calls(("first", {}), ("second", {})), answer("sorry")]
    async with start(*script, tools=[first, second]) as worker:
        result = await ask(worker, "go")

        told = [json.loads(m["content"])["error"]["message"] for m in tool_messages(worker.model)]
        assert (result.status, result.answer) == ("completed", "sorry")
        assert "Speechless" in told[0]
        assert "Mute" in told[1]


async def test_an_invalid_call_is_answered_without_running_anything(start, ask):
    """The model reads what was wrong; telemetry counts it as the model's mistake."""
    ran = []

    @tool
    async def count(n: int) -> int:
        """Count."""
        ran.append(n)
        return n

    bad = calls(("count", {}))
    call = bad.calls[0]
    wrong = type(call)(call.id, "count", None, "n: missing", "invalid_arguments")
    script = [calls(wrong), answer("ok")]
    async with start(*script, tools=[count]) as worker:
        await ask(worker, "go")

        assert ran == []
        assert tool_messages(worker.model)[0]["content"] == "n: missing"
        told = worker.ears.of(ToolCalling, "settled")
        assert [(t.error_type, t.status_code) for t in told] == [("invalid_arguments", 422)]


async def test_every_before_has_one_after_and_every_start_one_end(start, ask):
    """Exactly one `after` for each `before`, one loop end for each loop start."""
    script = [calls(("price", {"symbol": "A"}), ("price", {"symbol": "B"})), answer("ok")]
    async with start(*script, tools=[price]) as worker:
        await ask(worker, "go")

    for kind, count in ((ToolCalling, 2), (RunLoop, 1)):
        assert len(worker.ears.of(kind, "started")) == count
        assert worker.ears.of(kind, "started").sort(key=id) == worker.ears.of(kind, "settled").sort(
            key=id
        )
    end = worker.ears.of(RunLoop, "settled")[0]
    assert (end.total_steps, end.final_status) == (2, "success")
    assert end.end_time >= end.start_time


# --- endings ------------------------------------------------------------------------------------------


async def test_a_transient_failure_is_taken_up_by_a_later_delivery(start, ask):
    """The model is away: the task goes back, and the next delivery answers it."""
    away = ModelError("503", status="model_unavailable", transient=True)
    async with start(away, answer("here")) as worker:
        result = await ask(worker, "hello")

        assert (result.status, result.answer) == ("completed", "here")
        assert len(worker.ears.of(RunLoop, "settled")) == 2


async def test_a_task_out_of_deliveries_is_dead_lettered_with_its_result(start, ask):
    """Nothing is lost: the dead letter keeps the bytes, the caller gets a result."""
    away = ModelError("503", status="model_unavailable", transient=True)
    queue = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "max_deliveries": 2}
    async with start(otherwise=away, queue=queue) as worker:
        result = await ask(worker, "hello")
        await worker.stop()

        dead = await worker.queue.inner.dead()
        assert result.status == "model_unavailable"
        assert [(d.deliveries, "model_unavailable" in d.reason) for d in dead] == [(2, True)]
        assert json.loads(dead[0].body)["input"] == "hello"


async def test_a_permanent_failure_is_dead_lettered_at_once(start, ask):
    """A wrong key does not get better by repetition."""
    wrong = ModelError("401", status="auth_error")
    async with start(wrong) as worker:
        result = await ask(worker, "hello")

        assert result.status == "auth_error"
        assert len(worker.model.requests) == 1


async def test_a_task_that_cannot_be_read_is_rejected_and_the_queue_goes_on(start, ask):
    """Bad input gets a result that names the field; the next task is answered."""
    from worker.queues.port import Ticket

    async with start(otherwise=answer("fine"), tools=[price]) as worker:
        for number, body in enumerate(
            [b"\xff\xfe", b'{"input": 5}', b'{"input":"x","tools":["no"]}']
        ):
            await worker.queue.put(Ticket(f"bad{number}", body))
        result = await ask(worker, "good")
        bad = [await worker.result(f"bad{n}", wait_seconds=5) for n in range(3)]

        assert result.status == "completed"
        assert [b.status for b in bad] == ["rejected"] * 3
        assert "UTF-8" in bad[0].error
        assert "input" in bad[1].error
        assert "'no'" in bad[2].error


async def test_a_result_is_published_to_the_queue_named_in_reply_to(start, ask):
    """The caller's own queue gets the result, under the result's id."""
    async with start(answer("42")) as worker:
        await ask(worker, Task("t1", "q", reply_to="queue:answers"))
        await worker.stop()
        leases = await worker.queue.inner.sibling("answers").claim(
            owner="caller", lease_seconds=5, wait_seconds=1
        )

        assert [lease.id for lease in leases] == ["t1/result"]
        assert json.loads(leases[0].body)["answer"] == "42"


async def test_a_running_task_is_cancelled_within_one_step(start):
    """A cancel that comes while the model thinks ends the run before the next step."""
    thinking, go_on = asyncio.Event(), asyncio.Event()

    async def think(request):
        thinking.set()
        await go_on.wait()
        return calls(("price", {"symbol": "A"}))

    async with start(think, tools=[price]) as worker:
        task_id = await worker.submit("q")
        await thinking.wait()
        assert (await worker.desk.cancel(task_id)).status == "cancelling"
        go_on.set()
        result = await worker.result(task_id, wait_seconds=10)

        assert result.status == "cancelled"
        assert worker.ears.of(ToolCalling, "started") == []


async def test_draining_hands_unfinished_runs_back_without_using_up_a_delivery(start):
    """SIGTERM: no new claims, and what does not end in time goes back uncounted."""
    thinking = asyncio.Event()

    async def think(request):
        thinking.set()
        await asyncio.sleep(60)

    grace = {"drain_seconds": 0.05}
    async with start(think, worker=grace) as worker:
        task_id = await worker.submit("q")
        await thinking.wait()
        worker.begin_drain()
        await worker._working

        assert await worker.store.result(task_id) is None
        lease = (await worker.queue.inner.claim(owner="next", lease_seconds=5, wait_seconds=1))[0]
        assert (lease.deliveries, lease.handings) == (1, 2)
        opened = await worker.store.open(task_id, owner="next", lease_seconds=5)
        assert opened.run is not None


async def test_a_fenced_owner_writes_nothing_and_publishes_nothing(start):
    """Somebody else opened the run meanwhile: this worker stops quietly."""
    thinking, go_on = asyncio.Event(), asyncio.Event()

    async def think(request):
        thinking.set()
        await go_on.wait()
        return "late answer"

    async with start(think) as worker:
        task_id = await worker.submit("q")
        await thinking.wait()
        worker.store.inner.base.records[task_id].lease_until = 0
        other = await worker.store.inner.open(task_id, owner="other", lease_seconds=60)
        go_on.set()
        await worker.stop()

        assert await worker.store.inner.result(task_id) is None
        assert other.run.epoch == 2


async def test_a_stub_is_said_in_the_answer_in_the_language_of_the_question(start, ask):
    """The model left it out, so the worker adds it."""

    @tool(stub="行情暂不可用", attempts=1, timeout_seconds=0.05)
    async def get_stock_price(symbol: str) -> str:
        """Latest price."""
        await asyncio.sleep(30)
        return "1"

    script = [calls(("get_stock_price", {"symbol": "A"})), answer("价格是 100 元")]
    async with start(*script, tools=[get_stock_price]) as worker:
        result = await ask(worker, "A 的价格?")

    assert "行情暂不可用" in result.answer
    assert [(d.tool, d.source, d.reason) for d in result.degraded] == [
        ("get_stock_price", "stub", "timeout")
    ]


async def test_a_bug_in_the_worker_costs_a_delivery_not_the_worker(start, ask):
    """An exception that nobody foresaw is counted, and the others go on."""

    async def bug(request):
        raise ZeroDivisionError

    async with start(bug, answer("fine")) as worker:
        result = await ask(worker, "q")

        assert result.status == "completed"


async def test_a_bug_at_the_last_delivery_is_no_lost_lease(start, ask):
    """The run lets go before its result is written: a renewal that crosses it takes it for no loss."""

    async def bug(request):
        raise ZeroDivisionError

    letting_go = []
    async with start(bug, queue={"max_deliveries": 1, "poll_seconds": 0.05}) as worker:
        put_result = worker.store.inner.put_result

        async def putting(result):
            letting_go.extend(held.run.closing for held in worker.consumer.held.values())
            return await put_result(result)

        worker.store.inner.put_result = putting
        result = await ask(worker, "q")

    assert (result.status, letting_go) == ("error", [True])


async def test_asking_in_the_foreground_takes_the_same_path_and_fails_at_once(start):
    """`ask` needs no queue: history goes in, a transient failure is the result."""
    away = ModelError("503", status="model_unavailable", transient=True)
    async with start(answer("42"), away, running=False) as worker:
        await worker.start(claim=False)
        history = [{"role": "user", "content": "q0"}, {"role": "assistant", "content": "a0"}]
        first = await worker.ask(Task("t1", "and now?"), history=history)
        second = await worker.ask(Task("t2", "again?"))
        await worker.stop()

    roles = [m.role for m in worker.model.requests[0].messages]
    assert roles == ["system", "user", "assistant", "user"]
    assert (first.status, second.status) == ("completed", "model_unavailable")


async def test_whoever_waits_for_a_result_is_woken_when_it_is_there(start):
    """The end of a run is told to waiters of this process: nobody polls for half a second."""
    async with start(otherwise=answer("42")) as worker:
        began = asyncio.get_running_loop().time()
        for _ in range(5):
            await worker.result(await worker.submit("q"), wait_seconds=10)

        assert asyncio.get_running_loop().time() - began < 1.0

"""Tools that begin something longer than a step: the run waits for it, holding nothing."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.running.waits import decide, kinds, last_words, parked, report, tool_messages, until
from worker import Job, Task, ToolContext, tool
from worker.model.scripted import ScriptedModel, answer, calls
from worker.telemetry.signals import JobBegun, JobReported, RunParked, ToolCalling
from worker.web.waiting import NotAccepted

ASKS = calls(("render", {"page": "x"}))


def rendering(begun, job=lambda key: Job("job-7"), **options):
    """A tool that begins a job and notes by which key."""

    @tool(job=True, **options)
    async def render(ctx: ToolContext, page: str) -> Job:
        """Render a page."""
        begun.append(ctx.idempotency_key)
        return job(ctx.idempotency_key)

    return render


async def test_a_run_waits_for_its_job_holding_nothing(start):
    """It parks with the handle shown; the result that is reported is what the model reads."""
    begun = []
    async with start(ASKS, last_words, tools=[rendering(begun)], concurrency=1) as worker:
        task_id = await worker.submit("render")
        (waits,) = await parked(worker, task_id)
        depth, held = await worker.queue.depth(), dict(worker.consumer.held)
        reported = await report(worker, "job-7", '{"result": {"pages": 3}}', "application/json")
        result = await worker.result(task_id, wait_seconds=10)
        view = await worker.store.view(task_id)

        assert (depth.parked, depth.leased, depth.delayed, held) == (1, 0, 0, {})
        assert (waits["kind"], waits["tool"], waits["handle"]) == ("job", "render", "job-7")
        assert (reported.is_new, reported.is_expected) == (True, True)
        assert (result.status, result.degraded) == ("completed", ())
        assert json.loads(result.answer.removeprefix("told: ")) == {"pages": 3}
        assert kinds(view)[2:] == [
            *("tool_started", "job_started", "parked", "resumed"),
            *("tool_returned", "model_replied"),
        ]
        assert len(begun) == 1


async def test_what_is_told_of_a_job(start):
    """Its beginning, its result and one tool call: that it began is no failure, and counts once."""
    async with start(ASKS, last_words, tools=[rendering([])]) as worker:
        task_id = await worker.submit("render")
        await parked(worker, task_id)
        await report(worker, "job-7", "done")
        await worker.result(task_id, wait_seconds=10)
        ears = worker.ears

        (begun,) = ears.of(JobBegun)
        assert (begun.task_id, begun.tool_name, begun.handle) == (task_id, "render", "job-7")
        (reported,) = ears.of(JobReported)
        assert (reported.outcome, reported.handle) == ("success", "job-7")
        assert [one.reason for one in ears.of(RunParked)] == ["job"]
        calls_ = [(call.source, call.status_code) for call in ears.of(ToolCalling, "settled")]
        assert calls_ == [("live", 202)]


@pytest.mark.parametrize("returned", [None, "handle", "job"])
async def test_how_a_job_is_named(start, returned):
    """By its own handle, alone or in a Job; else by the key of its call."""
    begun = []
    made = {None: lambda key: Job(), "handle": lambda key: "h1", "job": lambda key: Job("h1")}
    tools = [rendering(begun, made[returned])]
    async with start(ASKS, last_words, tools=tools) as worker:
        task_id = await worker.submit("render")
        (waits,) = await parked(worker, task_id)
        assert waits["handle"] == ("h1" if returned else begun[0])
        await report(worker, waits["handle"], "done")

        assert (await worker.result(task_id, wait_seconds=10)).answer == "told: done"


async def test_a_sync_tool_may_begin_a_job(start):
    """In its thread, like any other."""

    @tool(job=True)
    def render(page: str) -> str:
        """Render."""
        return "h1"

    async with start(ASKS, last_words, tools=[render]) as worker:
        task_id = await worker.submit("render")
        await parked(worker, task_id)
        await report(worker, "h1", "done")

        assert (await worker.result(task_id, wait_seconds=10)).answer == "told: done"


async def test_a_result_before_the_run_has_parked(start):
    """Reported while the tool still begins it, it is taken without any waiting."""

    @tool(job=True)
    async def render(page: str) -> Job:
        """Render."""
        await report(worker, "quick", "done already")
        return Job("quick")

    async with start(ASKS, last_words, tools=[render]) as worker:
        result = await worker.result(await worker.submit("render"), wait_seconds=10)

        assert result.answer == "told: done already"
        assert worker.ears.of(RunParked) == []


async def test_a_result_counts_once(start):
    """The same again is harmless at any time, another one is refused; the first one stays."""
    async with start(ASKS, last_words, tools=[rendering([])]) as worker:
        task_id = await worker.submit("render")
        await parked(worker, task_id)
        first = await report(worker, "job-7", "done")
        for _ in range(2):
            again = await report(worker, "job-7", "done")
            with pytest.raises(NotAccepted) as refused:
                await report(worker, "job-7", "something else")
            result = await worker.result(task_id, wait_seconds=10)
            assert (again.is_new, refused.value.code) == (False, 409)

        assert (first.is_new, result.answer) == (True, "told: done")
        view = await worker.store.view(task_id)
        assert kinds(view).count("tool_returned") == 1


async def test_a_job_that_failed(start):
    """What is reported as an error is told to the model as one, without secrets, and in the result."""
    async with start(ASKS, answer("ok"), tools=[rendering([])]) as worker:
        task_id = await worker.submit("render")
        await parked(worker, task_id)
        said = json.dumps({"error": "no paper, api_key=sk-canary-1234567890abcdef"})
        await report(worker, "job-7", said, "application/json")
        result = await worker.result(task_id, wait_seconds=10)

        error = json.loads(tool_messages(worker.model)[0])["error"]
        assert (error["type"], error["tool"]) == ("job_failed", "render")
        assert error["message"].startswith("no paper")
        assert "canary" not in error["message"]
        assert [(d.source, d.reason) for d in result.degraded] == [("error", "job_failed")]
        (told,) = worker.ears.of(JobReported)
        assert told.outcome == "error"


@pytest.mark.parametrize(("effect", "source"), [("write", "unknown"), ("read", "error")])
async def test_a_job_that_does_not_report_in_time(start, monkeypatch, effect, source):
    """Of a write nobody knows; what comes after that is refused."""
    monkeypatch.setattr("worker.toolkit.job.SECONDS_MIN", 0.01)
    tools = [rendering([], lambda key: Job("job-7", expires_seconds=0.2), effect=effect)]
    async with start(ASKS, answer("ok"), tools=tools) as worker:
        result = await worker.result(await worker.submit("render"), wait_seconds=10)

        assert [(d.source, d.reason) for d in result.degraded] == [(source, "job_expired")]
        assert worker.ears.of(RunParked) != []
        with pytest.raises(NotAccepted) as refused:
            await report(worker, "job-7", "too late")
        assert refused.value.code == 410


@pytest.mark.parametrize(
    "value", [None, 7, "", "a b", "x" * 201, Job("a\nb"), Job("h", expires_seconds=0), Job(5)]
)
@pytest.mark.parametrize(("effect", "source"), [("write", "unknown"), ("read", "error")])
async def test_no_job_that_could_be_waited_for(start, value, effect, source):
    """Then nothing is waited for; a write may have begun something all the same."""
    tools = [rendering([], lambda key: value, effect=effect)]
    async with start(ASKS, answer("ok"), tools=tools) as worker:
        result = await worker.result(await worker.submit("render"), wait_seconds=10)

        assert [call.source for call in result.tool_calls] == [source]
        assert worker.ears.of(RunParked) == []


async def test_a_job_of_a_tool_that_declares_none(start):
    """The author is told what is missing; nothing is waited for."""

    @tool(effect="read")
    async def render(page: str) -> Job:
        """Render."""
        return Job("h1")

    async with start(ASKS, answer("ok"), tools=[render]) as worker:
        result = await worker.result(await worker.submit("render"), wait_seconds=10)

        assert [call.source for call in result.tool_calls] == ["error"]
        assert "say job=True" in tool_messages(worker.model)[0]


async def test_a_job_that_cannot_begin_has_its_stub(start):
    """The ladder stands in for a start that failed, as for any call."""

    @tool(job=True, effect="read", stub="暂时无法出图", attempts=1)
    async def render(page: str) -> Job:
        """Render."""
        raise OSError("no route")

    async with start(ASKS, answer("暂时无法出图"), tools=[render]) as worker:
        result = await worker.result(await worker.submit("出图"), wait_seconds=10)

        assert [d.source for d in result.degraded] == ["stub"]
        assert worker.ears.of(RunParked) == []


async def test_several_jobs_of_one_reply(start):
    """Each goes on by itself; the run goes on with the last, and the answers keep their order."""
    handles = iter(["h1", "h2"])
    asks = calls(("render", {"page": "a"}), ("render", {"page": "b"}))
    tools = [rendering([], lambda key: Job(next(handles)))]
    async with start(asks, answer("ok"), tools=tools) as worker:
        task_id = await worker.submit("render")
        waits = await parked(worker, task_id)
        assert sorted(each["handle"] for each in waits) == ["h1", "h2"]
        of_call = {each["call"]: each["handle"] for each in waits}
        await report(worker, of_call["c2"], "second")
        await until(lambda: len(worker.ears.of(RunParked)) == 2)
        await parked(worker, task_id)
        await report(worker, of_call["c1"], "first")
        await worker.result(task_id, wait_seconds=10)

        assert tool_messages(worker.model) == ["first", "second"]


async def test_a_sequential_group_waits_for_its_job(start):
    """What follows in the group begins when the job has ended, and not before."""
    log = []

    @tool(job=True, sequential="desk")
    async def render(page: str) -> Job:
        """Render."""
        log.append(f"render {page}")
        return Job(f"h-{page}")

    asks = calls(("render", {"page": "a"}), ("render", {"page": "b"}))
    async with start(asks, answer("ok"), tools=[render]) as worker:
        task_id = await worker.submit("go")
        await parked(worker, task_id)
        before = list(log)
        await report(worker, "h-a", "done")
        await until(lambda: len(log) == 2)
        await parked(worker, task_id)
        await report(worker, "h-b", "done")
        result = await worker.result(task_id, wait_seconds=10)

        assert (before, log) == (["render a"], ["render a", "render b"])
        assert result.status == "completed"


async def test_an_approved_job(start):
    """First a person, then the job; each is waited for by its own name."""
    begun = []
    tools = [rendering(begun, requires_approval=True)]
    async with start(ASKS, last_words, tools=tools) as worker:
        task_id = await worker.submit("render")
        (first,) = await parked(worker, task_id)
        assert (first["kind"], begun) == ("approval", [])
        await decide(worker, task_id)
        await until(lambda: begun)
        (second,) = await parked(worker, task_id)
        await report(worker, "job-7", "done")
        result = await worker.result(task_id, wait_seconds=10)

        assert (second["kind"], len(begun), result.answer) == ("job", 1, "told: done")
        assert [one.reason for one in worker.ears.of(RunParked)] == ["approval", "job"]


async def test_a_parked_job_is_cancelled(start):
    """At once; nobody waits for its result any more."""
    async with start(ASKS, tools=[rendering([])]) as worker:
        task_id = await worker.submit("render")
        await parked(worker, task_id)
        view = await worker.desk.cancel(task_id)
        with pytest.raises(NotAccepted) as refused:
            await report(worker, "job-7", "done")

        assert (view.result.status, refused.value.code) == ("cancelled", 410)
        assert [call.source for call in view.result.tool_calls] == ["unknown"]  # it has begun


async def test_a_result_and_a_cancel_at_once(start):
    """The run ends once, as one or the other, and whoever reports is told which."""

    def model(request):
        return ASKS if request.messages[-1].role == "user" else last_words(request)

    tools = [rendering([], lambda key: Job())]
    async with start(ScriptedModel(otherwise=model), tools=tools) as worker:
        for number in range(8):
            task_id = await worker.submit(Task(f"t{number}", "render"))
            (waits,) = await parked(worker, task_id)
            said = [worker.desk.cancel(task_id), report(worker, waits["handle"], "done")]
            await asyncio.gather(*(said if number % 2 else said[::-1]), return_exceptions=True)
            result = await worker.result(task_id, wait_seconds=10)
            kept = kinds(await worker.store.view(task_id))

            assert result.status in ("cancelled", "completed")
            assert kept.count("tool_returned") <= 1
            assert (await worker.desk.look(task_id)).status == "finished"


@pytest.mark.parametrize("by", ["result", "asking"])
async def test_a_rule_hands_the_result_of_a_job_over(start, monkeypatch, by):
    """Rules on results hold for what a job brings as well."""
    monkeypatch.setattr("worker.toolkit.job.SECONDS_MIN", 0.01)

    async def poll(handle: str):
        return "risk level 5" if by == "asking" else None

    @tool(job=True, poll=poll)
    async def render(page: str) -> Job:
        """Render."""
        return Job("h1", poll_after_seconds=0.05 if by == "asking" else 50)

    rules = {"risk": {"text": "risk level 5", "on": "results"}}
    async with start(ASKS, tools=[render], handoff=rules) as worker:
        task_id = await worker.submit("render")
        if by == "result":
            await parked(worker, task_id)
            await report(worker, "h1", "risk level 5")
        result = await worker.result(task_id, wait_seconds=10)

        assert (result.status, result.handoff.rule) == ("handoff", "risk")

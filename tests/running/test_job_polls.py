"""Jobs that are asked for: when, how often, and what their tools answer."""

from __future__ import annotations

import json

import pytest

from tests.running.test_jobs import ASKS, rendering
from tests.running.waits import kinds, last_words, report, tool_messages
from worker import Job, ToolContext, tool
from worker.model.scripted import answer


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("worker.toolkit.job.SECONDS_MIN", 0.01)
    monkeypatch.setattr("worker.running.waitingroom.POLL_SECONDS_MIN", 0.02)


async def test_a_job_is_asked_for(start):
    """A tool with `poll` is asked when it said; None or another time means: not yet."""
    answers, asked = [None, Job(poll_after_seconds=0.03), OSError("away"), {"pages": 3}], []

    async def poll(ctx: ToolContext, handle: str):
        asked.append((handle, ctx.idempotency_key))
        said = answers[len(asked) - 1]
        if isinstance(said, Exception):
            raise said
        return said

    begun = []
    job = rendering(begun, lambda key: Job("h1", poll_after_seconds=0.02), poll=poll, attempts=1)
    async with start(ASKS, last_words, tools=[job]) as worker:
        task_id = await worker.submit("render")
        result = await worker.result(task_id, wait_seconds=10)
        view = await worker.store.view(task_id)

        assert json.loads(result.answer.removeprefix("told: ")) == {"pages": 3}
        assert asked == [("h1", begun[0])] * 4
        assert (result.status, result.degraded, len(begun)) == ("completed", (), 1)
        assert kinds(view).count("job_polled") == 3
        assert await worker.store.mail.at("job:h1") != []


async def test_asking_finds_that_the_job_has_failed(start):
    """A ToolError of `poll` is the end of the job, in the tool's own words."""

    def poll(handle: str):
        from worker import ToolError

        raise ToolError(f"{handle}: no paper")

    @tool(job=True, poll=poll)
    async def render(page: str) -> Job:
        """Render."""
        return Job("h1", poll_after_seconds=0.02)

    async with start(ASKS, answer("ok"), tools=[render]) as worker:
        result = await worker.result(await worker.submit("render"), wait_seconds=10)

        assert "h1: no paper" in tool_messages(worker.model)[0]
        assert [call.source for call in result.tool_calls] == ["error"]


async def test_asking_once_more_at_the_end(start):
    """When its time is over a job is asked for a last time before it is given up."""
    asked = []

    async def poll(handle: str):
        asked.append(handle)

    @tool(job=True, poll=poll, effect="read")
    async def render(page: str) -> Job:
        """Render."""
        return Job("h1", expires_seconds=0.1, poll_after_seconds=5)

    async with start(ASKS, answer("ok"), tools=[render]) as worker:
        result = await worker.result(await worker.submit("render"), wait_seconds=10)

        assert [(d.source, d.reason) for d in result.degraded] == [("error", "job_expired")]
        assert asked == ["h1"]


async def test_a_result_comes_while_its_job_is_asked_for(start):
    """Whichever is first counts, and the other changes nothing."""

    async def poll(handle: str):
        await report(worker, handle, "reported")
        return "found by asking"

    @tool(job=True, poll=poll)
    async def render(page: str) -> Job:
        """Render."""
        return Job("h1", poll_after_seconds=0.05)

    async with start(ASKS, last_words, tools=[render]) as worker:
        task_id = await worker.submit("render")
        result = await worker.result(task_id, wait_seconds=10)

        assert result.answer == "told: found by asking"
        assert kinds(await worker.store.view(task_id)).count("tool_returned") == 1
        assert [e.answered for e in await worker.store.mail.at("job:h1")] == [True]

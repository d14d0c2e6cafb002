"""`render_report`: a job that is begun once, and reported or asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.examples.upstream import Upstream
from tools.report import look_at_report, render_report
from worker import Job, NotConfigured, Settings, ToolContext, ToolError
from worker.app import Worker
from worker.model.scripted import ScriptedModel, answer, calls

Context = Callable[..., ToolContext]
REPORT = {"title": "Q3", "text": "# Sales\n\n12 of 14"}


@pytest.fixture(autouse=True)
def _configured(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWORKER_RENDER_URL", f"{upstream.url}/reports/")


async def test_the_key_of_the_call_names_the_job(upstream: Upstream, context: Context):
    """So a repeat after a crash asks for the same report, and for no second one."""
    jobs = [await render_report.invoke(context(idempotency_key="k1"), REPORT) for _ in range(2)]

    assert jobs == [Job("k1", expires_seconds=21_600, poll_after_seconds=60)] * 2
    assert upstream.asked == ["/reports/k1"] * 2
    assert (render_report.effect, render_report.job) == ("idempotent", True)


@pytest.mark.parametrize(
    "report", [{**REPORT, "title": ""}, {**REPORT, "text": ""}, {"title": "x"}]
)
async def test_what_is_no_report_is_not_begun(upstream: Upstream, context: Context, report: Any):
    """The schema keeps it from the service."""
    with pytest.raises(ToolError):
        await render_report.invoke(context(idempotency_key="k1"), report)
    assert upstream.asked == []


async def test_a_service_that_refuses(upstream: Upstream, context: Context):
    """It is a failure of the dependency, and nothing is waited for."""
    upstream.status = 503

    with pytest.raises(httpx.HTTPStatusError):
        await render_report.invoke(context(idempotency_key="k1"), REPORT)
    assert render_report.stub == "报告暂时无法生成"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"state": "running"}, None),
        ({"state": "done", "document": "https://x/1.pdf"}, {"document": "https://x/1.pdf"}),
        ({"state": "failed", "error": "no paper"}, ToolError),
        ({"state": "lost"}, ValueError),
        ([], ValueError),
    ],
)
async def test_how_far_it_is(upstream: Upstream, context: Context, said: Any, found: Any):
    """Not yet, done, failed for good, or an answer that says nothing, which is asked for again."""
    upstream.body = json.dumps(said).encode()
    if isinstance(found, type):
        with pytest.raises(found):
            await look_at_report(context(), "k1")
    else:
        assert await look_at_report(context(), "k1") == found
    assert upstream.asked == ["/reports/k1"]


async def test_without_a_service_there_is_no_report(context: Context, monkeypatch: Any):
    """The log names the setting."""
    monkeypatch.delenv("LOOPWORKER_RENDER_URL")

    with pytest.raises(NotConfigured, match="LOOPWORKER_RENDER_URL is not set"):
        await render_report.invoke(context(idempotency_key="k1"), REPORT)


async def test_a_report_from_question_to_answer(upstream: Upstream):
    """The run waits without holding anything until the service has sent the document."""
    model = ScriptedModel(calls(("render_report", REPORT)), answer("报告在 https://x/1.pdf"))
    settings = Settings(queue_url="memory://", admin="off", http="off", log_level="error")
    async with Worker(settings, tools=[render_report], model=model) as worker:
        task_id = await worker.submit("做一份报告")
        waiting: list[dict[str, Any]] = []
        while not waiting:
            waiting = await worker.desk.waiting.of_task(task_id)
            assert await worker.store.result(task_id) is None
            await worker.result("nobody", wait_seconds=0.01)
        said = json.dumps({"result": {"document": "https://x/1.pdf"}}).encode()
        handle = waiting[0]["handle"]
        await worker.desk.waiting.report(handle, said, content_type="application/json")
        result = await worker.result(task_id, wait_seconds=10)

    assert upstream.asked == [f"/reports/{handle}"]
    assert result is not None
    assert (result.status, result.answer) == ("completed", "报告在 https://x/1.pdf")
    told = [m.body["content"] for m in model.requests[-1].messages if m.role == "tool"]
    assert [json.loads(each) for each in told] == [{"document": "https://x/1.pdf"}]

"""Jobs and the moments in which a worker may die, lose its store, or find more than it expected."""

from __future__ import annotations

import pytest

from tests.running.test_jobs import ASKS, rendering
from tests.running.test_resuming import interrupted, left_behind, taken_up
from tests.running.waits import kinds, last_words, parked, report, until
from worker import Job, Task, tool
from worker.core.digest import idempotency_key
from worker.core.errors import StoreUnavailable
from worker.core.events import JobStarted, ModelReplied, Parked, ToolStarted
from worker.model.scripted import answer, calls
from worker.web.waiting import NotAccepted

AT = 1_790_000_000.0
ASKED = ModelReplied(AT, ASKS)
KEY = idempotency_key("t1", 1, "c1")
BEGUN = ToolStarted(AT, "c1", KEY)
STARTED = JobStarted(AT, "c1", "job-7", 4_000_000_000.0)


async def test_a_job_in_doubt_is_never_begun_again(start):
    """Nobody knows whether the write has begun it, so the model is told that."""
    begun = []
    async with start(answer("ok"), tools=[rendering(begun)], running=False) as worker:
        result = await interrupted(worker, ASKED, BEGUN)

    assert ([call.source for call in result.tool_calls], begun) == (["unknown"], [])


async def test_a_result_proves_that_a_job_in_doubt_has_begun(start):
    """Reported under the key of its call: then it must have begun, and its result counts."""
    begun = []
    tools = [rendering(begun, lambda key: Job())]
    async with start(last_words, tools=tools, running=False) as worker:
        await worker._open()
        await report(worker, KEY, "done all the same")
        await left_behind(worker, ASKED, BEGUN)
        result = await taken_up(worker)

    assert (result.answer, begun) == ("told: done all the same", [])


@pytest.mark.parametrize(("found", "times"), [("job-7", 0), (None, 1)])
async def test_verify_finds_the_job(start, found, times):
    """Its handle: it is waited for. None: it is begun now."""
    begun = []
    tools = [rendering(begun, verify=lambda ctx, page: found and Job(found))]
    async with start(last_words, tools=tools, running=False) as worker:
        await worker._open()
        await report(worker, "job-7", "done")
        await left_behind(worker, ASKED, BEGUN)
        result = await taken_up(worker)

    assert (result.answer, len(begun)) == ("told: done", times)


async def test_an_idempotent_job_is_begun_again_with_its_key(start):
    """That is what it declares."""
    begun = []
    tools = [rendering(begun, effect="idempotent")]
    async with start(last_words, tools=tools, running=False) as worker:
        await worker._open()
        await report(worker, "job-7", "done")
        await left_behind(worker, ASKED, BEGUN)
        result = await taken_up(worker)

    assert (result.answer, begun) == ("told: done", [KEY])


@pytest.mark.parametrize("tail", [[], [Parked(AT, "job", 4_000_000_000.0, "c1")]])
async def test_the_mailbox_is_made_whole_from_the_journal(start, tail):
    """Dead between the journal and the mailbox: who takes the run up expects the result anew."""
    async with start(last_words, tools=[rendering([])], running=False) as worker:
        await worker._open()
        await report(worker, "job-7", "done")
        await left_behind(worker, ASKED, BEGUN, STARTED, *tail)
        result = await taken_up(worker)
        (waited,) = await worker.store.mail.at("job:job-7")

    assert (result.answer, waited.answered) == ("told: done", True)


@pytest.mark.parametrize("call", ["expect", "read", "answered", "expected"])
async def test_an_outage_of_the_mailbox(start, monkeypatch, call):
    """The delivery fails and the next one goes on; nothing is begun or told twice."""
    begun, failures = [], iter([True])
    queue = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "lease_seconds": 0.5}
    async with start(ASKS, last_words, tools=[rendering(begun)], queue=queue) as worker:
        mail = worker.store.mail
        real = getattr(mail, call)

        async def failing(*words, **more):
            if begun and next(failures, False):
                raise StoreUnavailable("away")
            return await real(*words, **more)

        monkeypatch.setattr(mail, call, failing, raising=True)
        await worker.submit(Task("t1", "render"))
        await until(lambda: begun)

        async def reported():
            try:
                return await report(worker, "job-7", "done")
            except StoreUnavailable:
                return None

        await until(reported)
        result = await worker.result("t1", wait_seconds=20)
        view = await worker.store.view("t1")

        assert (result.answer, len(begun)) == ("told: done", 1)
        assert (kinds(view).count("job_started"), kinds(view).count("tool_returned")) == (1, 1)


async def test_a_dead_letter_that_waited_takes_its_result_after_the_redrive(start):
    """What came while it was dead is not lost, and the job is not begun again."""
    begun = []
    async with start(last_words, tools=[rendering(begun)], running=False) as worker:
        await worker._open()
        await left_behind(worker, ASKED, BEGUN, STARTED, Parked(AT, "job", None, "c1"))
        await worker.submit(Task("t1", "send the mail"))
        (lease,) = await worker.queue.claim(owner="x", lease_seconds=30, wait_seconds=1)
        await worker.queue.dead_letter(lease, reason="by hand")
        await worker.housekeeper.once()
        died = await worker.store.result("t1")
        await report(worker, "job-7", "done")
        redriven = await worker.desk.redrive("t1")
        result = await taken_up(worker)

    assert (died.status, redriven) == ("error", True)
    assert (result.answer, begun) == ("told: done", [])


async def test_a_result_for_a_run_that_is_over(start):
    """Completed, or at its deadline: 409 for another, 410 where none had come."""
    async with start(ASKS, answer("ok"), tools=[rendering([])]) as worker:
        task_id = await worker.submit("render")
        await parked(worker, task_id)
        await report(worker, "job-7", "done")
        await worker.result(task_id, wait_seconds=10)
        with pytest.raises(NotAccepted) as other:
            await report(worker, "job-7", "other")

    assert other.value.code == 409


async def test_a_job_of_a_tool_that_has_left(start, tmp_path):
    """After a deploy without the tool its result is still taken, and nothing is asked for."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with start(ASKS, tools=[rendering([])], queue_url=url) as first:
        await first.submit(Task("t1", "render"))
        await parked(first, "t1")
        await report(first, "job-7", "done")

    @tool(effect="read")
    async def other() -> str:
        """Other."""
        return ""

    async with start(last_words, tools=[other], queue_url=url) as second:
        result = await second.result("t1", wait_seconds=10)

    assert result.answer == "told: done"


async def test_the_second_job_of_one_handle(start):
    """A handle names one job: whoever waits for it again has the result that came first."""
    script = [ASKS, calls(("render", {"page": "y"})), last_words]
    async with start(*script, tools=[rendering([])]) as worker:
        task_id = await worker.submit("render")
        await parked(worker, task_id)
        await report(worker, "job-7", "done")
        result = await worker.result(task_id, wait_seconds=10)

    assert (result.answer, len(result.tool_calls)) == ("told: done", 2)

"""Runs in the foreground that have to wait for a person or a job."""

from __future__ import annotations

import asyncio
import os
from select import select

import pytest

from tests.running.waits import ASKS, decide, last_words, refunding, until
from worker import Job, Task, tool
from worker.cli.asking import _answer as answer_of
from worker.cli.consent import Consent
from worker.model.scripted import answer, calls
from worker.web.stream import follow

TASK = Task("t", "refund CN1")


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Whoever waits looks for news every moment."""
    monkeypatch.setattr("worker.foreground._NEWS_SECONDS", 0.02)


async def test_it_goes_on_when_somebody_decides(start):
    """Wherever that is done; the run is told to whoever asked for it once it waits."""
    made, told = [], []

    async def waits(task_id):
        told.append((task_id, [each["call"] for each in await worker.desk.waiting.of_task("t")]))

    async with start(ASKS, last_words, tools=[refunding(made)], running=False) as worker:
        await worker.start(claim=False)
        asking = asyncio.create_task(worker.ask(TASK, parked=waits))
        await until(lambda: told)
        await decide(worker, "t")
        result = await asking
        await worker.stop()

    assert (result.answer, made, told) == ("told: refunded 20", [("CN1", 20)], [("t", ["c1"])])


async def test_it_may_be_cancelled_while_it_waits(start):
    """By whoever can reach the store: then there is nothing to wait for any more."""
    async with start(ASKS, tools=[refunding([])], running=False) as worker:
        await worker.start(claim=False)
        asking = asyncio.create_task(worker.ask(TASK))
        await until(lambda: worker.desk.waiting.of_task("t"))

        async def is_cancelled():
            view = await worker.desk.cancel("t")
            return view is not None and view.result is not None

        await until(is_cancelled)
        result = await asking
        await worker.stop()

    assert result.status == "cancelled"


async def test_nobody_is_there_to_be_asked(start, capsys):
    """Without a terminal and with a store that nobody reaches the call is denied."""
    made = []
    async with start(ASKS, last_words, tools=[refunding(made)], running=False) as worker:
        await worker.start(claim=False)
        consent = Consent(worker.desk.waiting, is_shared=False)
        result = await worker.ask(TASK, parked=consent)
        await worker.stop()

    assert (made, [d.reason for d in result.degraded]) == ([], ["approval_denied"])
    assert "denied: refund needs an approval" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "ran"), [(b"y\n", [("CN1", 20)]), (b"\n", []), (b"\x04", [])])
async def test_the_person_at_the_terminal_is_asked(start, monkeypatch, typed, ran):
    """What the tool would do is shown, and only a yes lets it run."""
    made, (master, slave) = [], os.openpty()
    with os.fdopen(slave, "r", closefd=False) as keys, os.fdopen(slave, "w") as screen:
        monkeypatch.setattr("sys.stdin", keys)
        monkeypatch.setattr("sys.stderr", screen)
        async with start(ASKS, answer("ok"), tools=[refunding(made)], running=False) as worker:
            await worker.start(claim=False)
            os.write(master, typed)
            result = await worker.ask(TASK, parked=Consent(worker.desk.waiting, is_shared=False))
            await worker.stop()
        shown = os.read(master, 10_000).decode()

    os.close(master)
    assert (result.status, made) == ("completed", ran)
    assert 'refund {"amount": 20, "order": "CN1"}' in shown.replace("\r\n", "")
    assert "allow this call? [y/N]" in shown


async def test_the_question_is_the_last_thing_on_the_screen(start, monkeypatch):
    """The steps that led to it stand above it, not over it, however late they are read."""

    async def late(*arguments, **options):
        await asyncio.sleep(0.05)
        yield None  # what a look finds that began before the run was parked
        async for update in follow(*arguments, **options):
            yield update

    monkeypatch.setattr("worker.web.stream.follow", late)
    master, slave = os.openpty()
    with os.fdopen(slave, "r", closefd=False) as keys, os.fdopen(slave, "w") as screen:
        monkeypatch.setattr("sys.stdin", keys)
        monkeypatch.setattr("sys.stderr", screen)
        async with start(ASKS, answer("ok"), tools=[refunding([])], running=False) as worker:
            asking = asyncio.create_task(answer_of(worker, TASK, None))
            shown = ""

            def asked():
                nonlocal shown
                shown += os.read(master, 10_000).decode() if select([master], [], [], 0)[0] else ""
                return "[y/N]" in shown

            await until(asked)
            os.write(master, b"y\n")
            assert (await asking).status == "completed"

    os.close(master)
    before, _, after = shown.partition("loopworker: allow this call? [y/N] ")
    assert "Waiting: a person has to approve" in before
    assert after == ""


async def test_a_shared_store_is_waited_on(start, capsys):
    """The line to type is told once, and a job with its handle."""

    @tool(job=True)
    async def render(page: str) -> Job:
        """Render."""
        return Job("job-7")

    asks = calls(("refund", {"order": "CN1", "amount": 20}), ("render", {"page": "x"}))
    tools = [refunding([]), render]
    async with start(asks, answer("ok"), tools=tools, running=False) as worker:
        await worker.start(claim=False)
        consent = Consent(worker.desk.waiting, is_shared=True)
        asking = asyncio.create_task(worker.ask(TASK, parked=consent))
        said = ""

        def told():
            nonlocal said
            said += capsys.readouterr().err
            return "job-7" in said and "approve|deny t c1" in said

        await until(told)
        await consent("t")
        await decide(worker, "t")
        await worker.desk.waiting.report("job-7", b"done", content_type="text/plain")
        result = await asking
        await worker.stop()

    assert (result.status, said.count("approve|deny"), said.count("job-7")) == ("completed", 1, 1)

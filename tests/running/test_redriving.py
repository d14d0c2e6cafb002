"""What the caller hears of a task that died and was redriven: every result, each once."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.running.waits import until
from worker import Task
from worker.core.errors import ModelError
from worker.model.scripted import answer
from worker.queues.port import Ticket
from worker.telemetry.signals import ResultPublished

BROKEN = ModelError("no such model", status="protocol_error")
URLS = ["memory://", "sqlite:///{folder}/tasks.db?synchronous=off"]
pytestmark = pytest.mark.parametrize("url", URLS, ids=["memory", "sqlite"])


async def heard(worker, count):
    """Take so many results from the caller's queue: their ids, and what the bodies say."""
    answers = worker.queue.inner.sibling("answers")
    found = []
    while len(found) < count:
        leases = await answers.claim(owner="me", lease_seconds=5, wait_seconds=5, limit=9)
        assert leases, f"only {found}"
        for lease in leases:
            body = json.loads(lease.body)
            found.append((lease.id, body["id"], body["status"], body["redrives"]))
            await answers.ack(lease)
    assert await answers.claim(owner="me", lease_seconds=5, wait_seconds=0.1) == []
    return found


async def redrive(worker, task_id):
    """Redrive a task once it lies in the dead letters, a moment after its result."""
    async with asyncio.timeout(5):
        while not await worker.desk.redrive(task_id):  # noqa: ASYNC110  (no signal of it)
            await asyncio.sleep(0.01)


async def test_the_result_after_a_redrive_is_heard_as_well(start, ask, url, tmp_path):
    """The first failure, the second, and the answer are three results with ids of their own."""
    async with start(BROKEN, BROKEN, answer("42"), queue_url=url.format(folder=tmp_path)) as worker:
        await ask(worker, Task("t", "q", reply_to="queue:answers"))
        first = await heard(worker, 1)
        for _ in range(2):
            await redrive(worker, "t")
            assert await worker.result("t", wait_seconds=5)
        rest = await heard(worker, 2)
        result = await worker.store.result("t")

    assert first == [("t/result", "t/result", "protocol_error", 0)]
    assert rest == [
        ("t/result/2", "t/result/2", "protocol_error", 1),
        ("t/result/3", "t/result/3", "completed", 2),
    ]
    assert (result.id, result.answer) == ("t/result/3", "42")


async def test_a_repeat_of_the_second_result_is_no_third(start, ask, url, tmp_path):
    """A crash between result and acknowledgement repeats the second result under its own id."""
    async with start(BROKEN, answer("42"), queue_url=url.format(folder=tmp_path)) as worker:
        await ask(worker, Task("t", "q", reply_to="queue:answers"))
        await redrive(worker, "t")
        assert await worker.result("t", wait_seconds=5)
        heard_ids = [one[0] for one in await heard(worker, 2)]
        # The same task once more, as after a crash: another row of the queue for it.
        again = json.dumps({"id": "t", "input": "q", "reply_to": "queue:answers"}).encode()
        await worker.queue.cancel("t")
        await worker.queue.prune(older_than_seconds=-1)
        await worker.queue.put(Ticket("t", again))
        await until(lambda: len(worker.ears.of(ResultPublished)) >= 3)
        more = await heard(worker, 0)

    assert heard_ids == ["t/result", "t/result/2"]
    assert more == []


async def test_a_task_that_did_not_run_again_is_told_apart_too(start, ask, url, tmp_path):
    """Redriven and then cancelled while it waits, or rejected once more: a result of its own."""
    async with start(BROKEN, queue_url=url.format(folder=tmp_path)) as worker:
        await ask(worker, Task("t", "q", reply_to="queue:answers"))
        await worker.queue.put(Ticket("bad", b'{"input": 7}'))
        rejected = await worker.result("bad", wait_seconds=5)
        await redrive(worker, "bad")
        again = await worker.result("bad", wait_seconds=5)
        worker.begin_drain()
        await worker._working
        await redrive(worker, "t")
        view = await worker.desk.cancel("t")
        results = await heard(worker, 2)

    assert (rejected.id, again.id) == ("bad/result", "bad/result/2")
    assert (again.status, view.result.id) == ("rejected", "t/result/2")
    assert [(one[0], one[2]) for one in results] == [
        ("t/result", "protocol_error"),
        ("t/result/2", "cancelled"),
    ]


async def test_who_redrives_late_costs_nobody_a_result(start, ask, url, tmp_path):
    """Two redrive it at once; one of them is heard only when the task has been answered."""
    async with start(BROKEN, answer("42"), queue_url=url.format(folder=tmp_path)) as worker:
        await ask(worker, Task("t", "q"))
        reopen = worker.store.inner.reopen

        async def late(task_id, **which):
            worker.store.inner.reopen = reopen
            assert await worker.desk.redrive("t")
            assert await worker.result("t", wait_seconds=5)
            await reopen(task_id, **which)

        async def is_dead():
            return await worker.queue.state("t") == "dead"

        await until(is_dead)
        worker.store.inner.reopen = late
        was_redriven = await worker.desk.redrive("t")
        result = await worker.store.result("t")

    assert was_redriven is False
    assert (result.answer, result.redrives) == ("42", 1)

"""A task that its claim gives up has its result at once, and a full reply queue harms nobody."""

from __future__ import annotations

import json

import pytest

from tests.running.waits import until
from worker.consuming import housekeeping
from worker.core.errors import QueueFull, QueueUnavailable
from worker.core.limits import Status
from worker.core.task import Result
from worker.model.scripted import answer
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.queues.reasons import delivered_too_often
from worker.store import open_store
from worker.telemetry.signals import QueueFailed

QUEUE = {"poll_seconds": 20.0, "backoff_seconds": 0.0, "max_deliveries": 1, "lease_seconds": 5.0}
TASK = json.dumps({"input": "q", "reply_to": "queue:answers"}).encode()


@pytest.fixture
def no_sweep(monkeypatch):
    """The sweep of the housekeeper comes once, at the start, and then not within this test."""
    monkeypatch.setattr(housekeeping, "MEASURE_SECONDS", 3600.0)


async def begin(queue, *names, lease_seconds):
    """Put tasks and take them, for the last time that they are delivered."""
    for name in names:
        await queue.put(Ticket(name, TASK))
    leases = await queue.claim(
        owner="dying", lease_seconds=lease_seconds, wait_seconds=1, limit=len(names)
    )
    assert [lease.id for lease in leases] == list(names)
    return leases


async def test_the_dead_are_answered_for_at_once(start, no_sweep, tmp_path):
    """Results are there and published as soon as a claim has given the tasks up, not with a sweep."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    other = open_queue(f"{url}?synchronous=off")  # with connections of its own, like a process
    leases = await begin(other, "a", "b", lease_seconds=60)
    async with start(otherwise=answer("x"), queue_url=url, queue=QUEUE) as worker:
        await until(lambda: worker.housekeeper._dead_seen >= 0)
        await other.extend_many(leases, lease_seconds=0.05)  # and nobody will renew them
        results = [await worker.result(name, wait_seconds=5) for name in ("a", "b")]
        answers, heard = other.sibling("answers"), []
        while len(heard) < 2:  # each is stored first, and published a moment later
            found = await answers.claim(owner="me", lease_seconds=5, wait_seconds=5, limit=5)
            assert found
            heard += found
    await other.close()

    assert ["delivered 1 times" in result.error for result in results] == [True, True]
    assert sorted(lease.id for lease in heard) == ["a/result", "b/result"]


async def test_an_outage_while_the_dead_are_answered_for_is_told(
    start, no_sweep, monkeypatch, tmp_path
):
    """It ends nothing: the next one that is given up is answered for at once again."""
    publish = housekeeping.Publisher.publish

    async def publishing(self, result, reply_to):
        if result.task_id == "a":
            raise QueueUnavailable("away")
        await publish(self, result, reply_to)

    monkeypatch.setattr(housekeeping.Publisher, "publish", publishing)
    url = f"sqlite:///{tmp_path}/tasks.db"
    other = open_queue(url)
    leases = await begin(other, "a", "b", lease_seconds=60)
    async with start(otherwise=answer("x"), queue_url=url, queue=QUEUE) as worker:
        await until(lambda: worker.housekeeper._dead_seen >= 0)
        for lease in leases:
            await other.dead_letter(lease, reason=delivered_too_often(1))
        worker.housekeeper.dead_told("a")
        await until(lambda: worker.ears.of(QueueFailed))
        worker.housekeeper.dead_told("b")
        result = await worker.result("b", wait_seconds=5)
    await other.close()

    assert [told.error for told in worker.ears.of(QueueFailed)] == ["away"]
    assert (result.task_id, result.status) == ("b", "error")


async def test_what_nobody_answered_for_is_found_by_the_sweep(start, no_sweep, tmp_path):
    """A worker that died between giving a task up and answering for it: the next one answers."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    dying = open_queue(url, max_deliveries=1)
    await begin(dying, "a", lease_seconds=0.05)

    async def is_given_up():
        assert await dying.claim(owner="w", lease_seconds=5, wait_seconds=0) == []
        return await dying.state("a") == "dead"

    await until(is_given_up)
    await dying.close()
    async with start(otherwise=answer("x"), queue_url=url, queue=QUEUE) as worker:
        result = await worker.result("a", wait_seconds=5)

    assert (result.status, "delivered 1 times" in result.error) == ("error", True)


async def test_a_result_that_its_last_owner_could_not_publish_is_published(start, tmp_path):
    """It ended the run and died before anybody heard; the claim that gives the task up is heard."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    dying, store = open_queue(url, max_deliveries=1), open_store(url)
    await begin(dying, "a", lease_seconds=0.05)
    await store.put_result(Result("a", Status.COMPLETED, answer="heard"))
    async with start(otherwise=answer("x"), queue_url=url, queue=QUEUE):
        heard = await dying.sibling("answers").claim(
            owner="me", lease_seconds=5, wait_seconds=5, limit=5
        )
    await store.close()
    await dying.close()

    assert [json.loads(lease.body)["answer"] for lease in heard] == ["heard"]


async def test_a_full_reply_queue_keeps_one_result_back_and_no_worker(start, monkeypatch, tmp_path):
    """The worker lives on, others are answered for, and the sweep tries again until there is room."""
    monkeypatch.setattr(housekeeping, "MEASURE_SECONDS", 0.05)
    tries = []
    publish = housekeeping.Publisher.publish

    async def publishing(self, result, reply_to):
        tries.append(result.task_id)
        if result.task_id == "a" and tries.count("a") < 3:
            raise QueueFull
        await publish(self, result, reply_to)

    monkeypatch.setattr(housekeeping.Publisher, "publish", publishing)
    url = f"sqlite:///{tmp_path}/tasks.db"
    other = open_queue(url)
    for lease in await begin(other, "a", "b", lease_seconds=5):
        await other.dead_letter(lease, reason=delivered_too_often(1))
    await other.close()
    async with start(otherwise=answer("x"), queue_url=url, queue=QUEUE) as worker:
        results = [await worker.result(name, wait_seconds=5) for name in ("b", "a")]
        answered = await worker.submit("still here?")
        last = await worker.result(answered, wait_seconds=5)
        await until(lambda: tries.count("a") >= 3)

    assert [result.status for result in results] == ["error", "error"]
    assert tries.count("a") == 3
    assert last.status == "completed"


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ({"input": "q", "tools": ["nowhere"], "reply_to": "queue:answers"}, ["t/result"]),
        ({"reply_to": "queue:answers"}, ["t/result"]),
        ({"input": "q", "tools": ["nowhere"]}, []),
        ({"reply_to": "queue:tasks"}, []),
        (["reply_to"], []),
    ],
    ids=["unknown tool", "no input", "no address", "not an address", "a list"],
)
async def test_a_rejected_task_tells_whoever_waits_for_it(start, said, heard):
    """The address is taken from what can be read, or the caller would wait for ever."""
    async with start() as worker:
        body = {**said, "version": 1} if isinstance(said, dict) else {"input": said}
        await worker.queue.put(Ticket("t", json.dumps(body).encode()))
        result = await worker.result("t", wait_seconds=5)
        await worker.stop()
        leases = await worker.queue.inner.sibling("answers").claim(
            owner="caller", lease_seconds=5, wait_seconds=0
        )

    assert result.status == "rejected"
    assert [lease.id for lease in leases] == heard
    assert [json.loads(lease.body)["status"] for lease in leases] == ["rejected"] * len(heard)

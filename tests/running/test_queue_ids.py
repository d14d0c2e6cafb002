"""A row that some other program wrote: its id in the queue is the id of the task."""

from __future__ import annotations

import asyncio

from worker.consuming.housekeeping import Housekeeper
from worker.core.errors import ModelError
from worker.model.scripted import answer
from worker.queues.memory import MemoryQueue
from worker.queues.port import Ticket
from worker.store.memory import MemoryStore
from worker.telemetry.tell import Telemetry

BODY = b'{"id": "body1", "input": "hello"}'


async def test_a_dead_row_is_redriven_by_its_own_id(start):
    """The result lies under the row's id, and a redrive of that id runs the task again."""
    async with start(ModelError("401", status="auth_error"), answer("fine")) as worker:
        await worker.queue.put(Ticket(id="row1", body=BODY))
        first = await worker.result("row1", wait_seconds=5)
        async with asyncio.timeout(5):
            while not await worker.desk.redrive("row1"):  # noqa: ASYNC110  (no signal of it)
                await asyncio.sleep(0.001)
        second = await worker.result("row1", wait_seconds=5)

        assert first is not None and first.status == "auth_error"
        assert second is not None and second.status == "completed"
        assert await worker.result("body1") is None


async def test_two_rows_that_name_one_id_are_two_tasks(start):
    """Neither is taken for a repeat of the other: the queue has told them apart."""
    async with start(answer("one"), answer("two")) as worker:
        for name in ("row1", "row2"):
            await worker.queue.put(Ticket(id=name, body=BODY))
        results = [await worker.result(name, wait_seconds=5) for name in ("row1", "row2")]

        assert sorted(result.answer for result in results) == ["one", "two"]


async def bury(queue, store, body):
    """Let a row kill its only worker; returns who has to answer for it."""
    await queue.put(Ticket(id="row1", body=body))
    await queue.claim(owner="w1", lease_seconds=0, wait_seconds=0)
    assert await queue.claim(owner="w2", lease_seconds=9, wait_seconds=0) == []
    return Housekeeper(
        queue,
        store,
        Telemetry(),
        retention_seconds=9.0,
        prune_seconds=9.0,
        worker="w2",
        clock=lambda: 0.0,
        wall=lambda: 0.0,
    )


async def test_the_dead_are_answered_for_by_the_id_of_the_row():
    """A row that killed its workers gets its result under the id that the queue lists."""
    queue, store = MemoryQueue(max_deliveries=1), MemoryStore()
    keeper = await bury(queue, store, BODY)

    assert await keeper.answer_for_the_dead()
    assert await store.result("row1") is not None


async def test_the_dead_are_not_answered_into_the_queue_of_the_tasks():
    """A result that would be taken for a task is stored, and published nowhere."""
    queue, store = MemoryQueue(max_deliveries=1), MemoryStore()
    keeper = await bury(queue, store, b'{"input": "hello", "reply_to": "queue:tasks"}')

    assert await keeper.answer_for_the_dead()
    assert await store.result("row1") is not None
    assert (await queue.depth()).ready == 0

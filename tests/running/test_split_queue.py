"""A whole worker on a queue that is split: sessions, cancelling, dead letters and results are as ever."""

from __future__ import annotations

import asyncio

from worker.core.sharding import shard_of
from worker.core.task import Task
from worker.model.scripted import answer
from worker.queues.port import Ticket

SHARDS = 4


async def results_of(worker, names):
    """Wait for the results of these tasks."""
    return [await worker.result(name, wait_seconds=10) for name in names]


async def test_sessions_go_on_in_their_order(start):
    """Each turn of a conversation sees the one before, however many run beside it."""
    async with start(otherwise=answer("yes"), queue_shards=SHARDS) as worker:
        sessions = [f"s{n}" for n in range(6)]
        assert len({shard_of(session, SHARDS) for session in sessions}) > 1
        names = [(session, f"{session}-{turn}") for turn in range(4) for session in sessions]
        for session, name in names:
            await worker.submit(Task(name, name, session_id=session))
        results = await results_of(worker, [name for _, name in names])
        told = {s: [m["content"] for m in await worker.store.conversation(s)] for s in sessions}

    assert {result.status for result in results} == {"completed"}
    for session in sessions:
        asked = [text for text in told[session] if text.startswith(session)]
        assert asked == [f"{session}-{turn}" for turn in range(4)]


async def test_a_task_put_by_hand_into_any_shard_is_run(start):
    """Other programs need not know the hash, where nothing has to stay together."""
    async with start(otherwise=answer("yes"), queue_shards=SHARDS) as worker:
        for number, shard in enumerate(worker.queue.parts):
            await shard.put(Ticket(f"by-hand-{number}", b"hello"))
        results = await results_of(worker, [f"by-hand-{n}" for n in range(SHARDS)])

    assert [result.status for result in results] == ["completed"] * SHARDS


async def test_waiting_and_dead_tasks_are_found_in_whatever_shard(start):
    """The desk asks by id alone."""
    async with start(otherwise=answer("yes"), queue_shards=SHARDS) as worker:
        later = worker.consumer._desk._wall() + 3600
        for number in range(12):
            await worker.submit(Task(f"t{number}", "x", not_before=later))
        views = [await worker.desk.look(f"t{number}") for number in range(12)]
        cancelled = [await worker.desk.cancel(f"t{number}") for number in range(12)]
        bad = [shard for shard in worker.queue.parts if shard.name == "tasks-shard-3"]
        await bad[0].put(Ticket("bad", b'{"input": 7}'))
        await results_of(worker, ["bad"])
        async with asyncio.timeout(10):
            while not await worker.queue.dead():  # noqa: ASYNC110  (no signal of it)
                await asyncio.sleep(0.01)

        assert {view.status for view in views} == {"queued"}
        assert {view.status for view in cancelled} == {"finished"}
        assert [letter.id for letter in await worker.queue.dead()] == ["bad"]
        assert await worker.desk.redrive("bad") is True

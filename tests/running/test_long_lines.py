"""A session with very many tasks: others are served beside it, and it takes one slot."""

from __future__ import annotations

import asyncio

import pytest

from worker import Task
from worker.telemetry.signals import QueueCall, StoreCall


def told(worker, kind, name):
    """What was told of the calls of one name."""
    return [call for call in worker.ears.of(kind, "settled") if call.name == name]


@pytest.mark.parametrize(
    ("engine", "count", "concurrency"),
    [("memory://", 100, 1), ("memory://", 100, 4), ("sqlite:///{}/t.db", 40, 1)],
)
async def test_others_are_served_beside_a_long_line(start, tmp_path, engine, count, concurrency):
    """Somebody holds the session: everything else is done, and who waits looks about once."""
    held, asked = asyncio.Event(), []

    async def model(request):
        question = request.messages[-1].body["content"]
        asked.append(question)
        if question == "t0":
            await held.wait()
        return f"re {question}"

    names = [f"t{number}" for number in range(count)]
    others = [f"other {number}" for number in range(10)]
    slots = concurrency + 1  # one for the task that has the session
    async with start(
        otherwise=model, queue_url=engine.format(tmp_path), concurrency=slots
    ) as worker:
        for name in names:
            await worker.submit(Task(name, name, session_id="s"))
        for name in others:
            await worker.submit(Task(name, name))
        for name in others:
            await worker.result(name, wait_seconds=20)
        before = list(asked)
        looks = len(told(worker, StoreCall, "lock_session"))
        held.set()
        for name in names:
            await worker.result(name, wait_seconds=20)
        claimed = sum(call.messages for call in told(worker, QueueCall, "claim"))

    assert sorted(before) == sorted(["t0", *others])
    assert [name for name in asked if name in names] == names
    assert looks <= 3 * count
    assert claimed <= 5 * count

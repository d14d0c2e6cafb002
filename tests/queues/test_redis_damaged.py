"""Rows of the Redis queue that a hand has deleted or damaged: everybody else's tasks go on."""

from __future__ import annotations

import time

import pytest
import redis.asyncio

from tests.servers.redisserver import own_url, redis_server
from worker.queues import open_queue
from worker.queues.port import Ticket

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A server for this file."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def queue(broker):
    """A queue of its own."""
    queue = open_queue(own_url(broker.port), max_deliveries=3)
    yield queue
    await queue.close()


@pytest.fixture
async def hand(broker):
    """Who writes into the server past the queue."""
    async with redis.asyncio.Redis(port=broker.port) as client:
        yield client


async def gone(hand, row):
    """The row is deleted."""
    await hand.delete(row)


async def replaced(hand, row):
    """Something else has its name."""
    await hand.delete(row)
    await hand.set(row, "x")


async def scrawled(hand, row):
    """Nothing in it can be read but its state."""
    for field in await hand.hkeys(row):
        if field not in (b"state", b"token"):
            await hand.hset(row, field, b"\xff")


async def emptied(hand, row):
    """Only one field is left."""
    await hand.hdel(row, *[field for field in await hand.hkeys(row) if field != b"state"])


DAMAGES = [gone, replaced, scrawled, emptied]


async def in_state(queue, state, task_id):
    """Put a task and bring it there."""
    delay = time.time() + 0.2 if state == "delayed" else None
    await queue.put(Ticket(task_id, b"x", not_before=delay))
    if state in ("leased", "dead"):
        (lease,) = await queue.claim(owner="w1", lease_seconds=0.2, wait_seconds=0)
        if state == "dead":
            await queue.dead_letter(lease, reason="test")


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("state", ["ready", "delayed", "leased", "dead"])
async def test_a_damaged_row_stops_nobody(queue, hand, state, damage):
    """Tasks before and behind it are claimed and settled, and the dead are listed."""
    await in_state(queue, "dead", "letter")
    await in_state(queue, state, "odd")
    await damage(hand, f"{queue.keys[1]}:t:odd")
    await queue.put(Ticket("good", b"x"))

    seen = set()
    while "good" not in seen or (state in ("delayed", "leased") and not await over(queue, hand)):
        for lease in await queue.claim(owner="w2", lease_seconds=30, wait_seconds=1, limit=9):
            seen.add(lease.id)
            await queue.ack(lease)
    letters = {letter.id for letter in await queue.dead()}

    assert seen <= {"good", "odd"}
    assert "letter" in letters
    assert (await queue.depth()).leased == 0
    await queue.place("odd")


async def over(queue, hand):
    """Whether nothing is left that falls due."""
    names = [f"{queue.keys[1]}:{name}" for name in ("ready", "delayed", "leased")]
    return not any([await hand.zcard(name) for name in names])

"""Shards on servers of their own: one is killed in the middle of the work, and comes back."""

from __future__ import annotations

import asyncio

import pytest

from tests.servers.redisserver import own_url, redis_server
from worker.core.errors import QueueUnavailable
from worker.core.sharding import Sharding
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.queues.sharded import ShardedQueue

pytestmark = pytest.mark.system
LASTING = ("--appendonly", "yes", "--appendfsync", "always")
TASKS = 60


async def put_all(queue, names):
    """Hand tasks in; returns the names of those whose server was away."""
    outcomes = await asyncio.gather(
        *(queue.put(Ticket(name, b"?")) for name in names), return_exceptions=True
    )
    away = {n for n, o in zip(names, outcomes, strict=True) if isinstance(o, QueueUnavailable)}
    assert all(isinstance(o, bool | QueueUnavailable) for o in outcomes), outcomes
    return away


async def work_off(queue, done):
    """Claim and settle until nothing comes."""
    while leases := await queue.claim(owner="w", lease_seconds=30, wait_seconds=0.3, limit=8):
        for lease in leases:
            await queue.ack(lease)
            done.append(lease.id)


async def test_the_others_are_worked_at_while_one_server_is_dead(tmp_path):
    """Its tasks are missing for as long, and only they; afterwards all are done, each once."""
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    with redis_server(folders[0], *LASTING) as first, redis_server(folders[1], *LASTING) as second:
        shards = {n: open_queue(own_url(s.port)) for n, s in enumerate((first, second))}
        queue = ShardedQueue(shards, name="tasks", sharding=Sharding(2), depth_max=1000)
        names = [f"t{number}" for number in range(TASKS)]
        assert await put_all(queue, names[:40]) == set()
        second.kill()

        done: list[str] = []
        await work_off(queue, done)
        away = await put_all(queue, names[40:])
        await work_off(queue, done)
        second.start()
        late = await put_all(queue, sorted(away))
        while len(done) < TASKS:  # a server that failed is left alone for a moment
            await work_off(queue, done)
        await queue.close()

    assert 0 < len(away) < 20
    assert late == set()
    assert sorted(done) == sorted(names)

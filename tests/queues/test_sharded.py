"""A queue that is split: every shard has its turn, none is forgotten, one that is away harms no other."""

from __future__ import annotations

import asyncio

import pytest

from worker.core.errors import QueueUnavailable
from worker.core.sharding import Sharding, shard_name
from worker.queues import open_queue
from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.queues.port import Ticket
from worker.queues.sharded import ShardedQueue
from worker.testing.harness import PATIENCE_SECONDS

PLAN = {"owner": "w", "lease_seconds": 30}


def split(brokers, sharding, **options):
    """A queue whose shards lie on these brokers, in turn."""
    shards = {
        n: MemoryQueue(brokers[n % len(brokers)], name=shard_name("tasks", n))
        for n in sharding.known
    }
    return ShardedQueue(shards, name="tasks", sharding=sharding, **options)


def ids(leases):
    """The ids of what was claimed."""
    return sorted(lease.id for lease in leases)


async def fill(queue, count):
    """Put tasks that are spread."""
    for number in range(count):
        await queue.put(Ticket(f"t{number}", b"?"))


async def test_one_queue_is_no_split_at_all():
    """Without shards nothing stands between the worker and the engine."""
    for sharding in (None, Sharding(), Sharding(1, only=(0,))):
        queue = open_queue("memory://", sharding=sharding)
        assert type(queue) is MemoryQueue
        assert queue.name == "tasks"


async def test_one_claim_asks_one_shard_while_there_is_work():
    """A busy queue costs as many commands as one that is not split."""
    queue = split([MemoryBroker()], Sharding(8))
    asked = []
    for shard in queue.parts:
        claim = shard.claim

        async def counted(claim=claim, **wish):
            asked.append(wish)
            return await claim(**wish)

        shard.claim = counted
    await fill(queue, 800)

    for _ in range(16):
        assert len(await queue.claim(**PLAN, wait_seconds=1, limit=10)) == 10

    assert len(asked) == 16


async def test_every_shard_has_its_turn():
    """However full one shard is, the task of another comes within one round."""
    queue = split([MemoryBroker()], Sharding(8))
    for number in range(100):
        await queue.put(Ticket(f"t{number}", b'{"session_id": "loud"}'))
    await queue.put(Ticket("quiet", b'{"session_id": "q"}'))

    found = [lease.id for _ in range(8) for lease in await queue.claim(**PLAN, wait_seconds=0)]

    assert "quiet" in found


async def test_waiting_claims_take_no_more_than_their_limit():
    """Also when tasks come into all shards at one moment, and what is too much goes back at once."""
    queue, other = (split([broker], Sharding(8)) for broker in [MemoryBroker()] * 2)
    claim = asyncio.create_task(queue.claim(**PLAN, wait_seconds=PATIENCE_SECONDS, limit=2))
    await asyncio.sleep(0)
    await fill(other, 64)

    first = await claim
    rest = await other.claim(**PLAN, wait_seconds=0, limit=100)

    assert 1 <= len(first) <= 2
    assert len(first) + len(rest) == 64
    assert {lease.deliveries for lease in rest} == {1}


async def test_a_server_that_is_away_harms_no_other():
    """Tasks of the others are claimed, also while one is waited for; its own wait for it."""
    brokers = [MemoryBroker(), MemoryBroker()]
    queue = split(brokers, Sharding(2))
    await fill(queue, 40)
    brokers[1].outage = True

    there = await queue.claim(**PLAN, wait_seconds=0, limit=100)
    nothing = await queue.claim(**PLAN, wait_seconds=0.01, limit=100)
    brokers[0].outage = True
    with pytest.raises(QueueUnavailable):
        await queue.claim(**PLAN, wait_seconds=0, limit=100)
    brokers[0].outage = brokers[1].outage = False
    queue = split(brokers, Sharding(2))
    later = await queue.claim(**PLAN, wait_seconds=0, limit=100)

    assert 0 < len(there) < 40
    assert nothing == []
    assert ids(there + later) == sorted(f"t{n}" for n in range(40))


async def test_a_full_queue_counts_what_answers():
    """One server that is away keeps nobody from handing tasks in at the others."""
    brokers = [MemoryBroker(), MemoryBroker()]
    queue = split(brokers, Sharding(2), depth_max=100)
    brokers[1].outage = True
    outcomes = {"in": 0, "away": 0}
    for number in range(40):
        try:
            await queue.put(Ticket(f"t{number}", b"?"))
            outcomes["in"] += 1
        except QueueUnavailable:
            outcomes["away"] += 1

    assert outcomes["in"] > 5
    assert outcomes["away"] > 5


@pytest.mark.parametrize(("before", "after"), [(1, 8), (3, 8), (8, 8)])
async def test_a_wider_split_loses_nothing(before, after):
    """What was put before is claimed, found, called off and redriven, wherever it lies."""
    broker = MemoryBroker()
    old = split([broker], Sharding(before))
    await fill(old, 60)
    (dead,) = await old.claim(**PLAN, wait_seconds=0)
    await old.dead_letter(dead, reason="x")
    new = split([broker], Sharding(after))

    assert [letter.id for letter in await new.dead()] == [dead.id]
    assert await new.redrive(dead.id) is True
    assert await new.state("t7") == "ready"
    assert await new.cancel("t7") is True
    found = await new.claim(**PLAN, wait_seconds=0, limit=100)
    assert ids(found) == sorted(f"t{n}" for n in range(60) if n != 7)


async def test_a_narrower_split_loses_nothing_that_is_still_read():
    """The shards that are left over are emptied by whoever is told to read them."""
    broker = MemoryBroker()
    await fill(split([broker], Sharding(8)), 60)
    narrow = split([broker], Sharding(2, only=tuple(range(8))))
    await narrow.put(Ticket("new", b"?"))

    assert await narrow.state("t7") == "ready"
    found = await narrow.claim(**PLAN, wait_seconds=0, limit=100)
    assert len(found) == 61
    assert (await narrow.depth()).leased == 61


async def test_a_worker_may_read_some_shards_only():
    """It claims from those, and looks after all."""
    broker = MemoryBroker()
    whole, part = split([broker], Sharding(4)), split([broker], Sharding(4, only=(1, 3)))
    await fill(part, 60)

    mine = await part.claim(**PLAN, wait_seconds=0, limit=100)
    rest = await whole.claim(**PLAN, wait_seconds=0, limit=100)

    assert 0 < len(mine) < 60
    assert len(mine) + len(rest) == 60
    assert (await part.depth()).leased == 60
    assert [queue.name for queue in part.parts] == ["tasks-shard-1", "tasks-shard-3"]
    assert [queue.name for queue in part.others] == ["tasks", "tasks-shard-2"]


async def test_an_id_put_twice_is_shown_where_it_is_not_over():
    """After a change of the split an id may be known in one shard and wait in another."""
    broker = MemoryBroker()
    old = split([broker], Sharding(1))
    await old.put(Ticket("t2", b"?"))
    (lease,) = await old.claim(**PLAN, wait_seconds=0)
    await old.ack(lease)
    new = split([broker], Sharding(7))
    assert await new.put(Ticket("t2", b"?")) is True

    assert await new.state("t2") == "ready"


async def test_each_shard_may_have_a_server(tmp_path):
    """{shard} in the URL is its number; here a file each, and so a writer each."""
    url = f"sqlite:///{tmp_path}/tasks-{{shard}}.db"
    queue = open_queue(url, sharding=Sharding(3))
    await fill(queue, 30)
    found = await queue.claim(**PLAN, wait_seconds=0, limit=100)
    for lease in found:
        await queue.ack(lease)
    await queue.close()

    assert sorted(path.name for path in tmp_path.glob("*.db")) == [
        *("tasks-0.db", "tasks-1.db", "tasks-2.db"),
    ]
    assert len(found) == 30

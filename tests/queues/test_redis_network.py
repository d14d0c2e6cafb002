"""A network between the worker and a Redis server that forgets its connections, or loses answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import redis.asyncio

from tests.servers.proxy import Proxy
from tests.servers.redisserver import own_url, redis_server
from worker.core.errors import QueueUnavailable
from worker.queues.port import Ticket
from worker.queues.redis import RedisQueue
from worker.redislink import LARGE_BYTES, RedisLink, settings_of

pytestmark = pytest.mark.system
LARGE = b"x" * (LARGE_BYTES + 1)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    """A server behind a proxy."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        proxy = Proxy(server.port)
        yield proxy
        proxy.close()


@pytest.fixture
async def queue(proxy):
    """A queue that gives a connection up after a second."""
    settings = replace(settings_of(own_url(proxy.port)), answer_seconds=1.0)
    queue = RedisQueue(RedisLink(settings, unavailable=QueueUnavailable))
    yield queue
    await queue.close()


async def test_a_network_that_forgets_its_connections_costs_one_wait(queue, proxy):
    """Of many that went silent together one is waited for; then all are made anew."""
    tickets = [Ticket(id=f"t-{number}", body=LARGE) for number in range(6)]
    await asyncio.gather(*[queue.put(ticket) for ticket in tickets])  # as many connections
    proxy.forget()
    with pytest.raises(QueueUnavailable, match="Timeout"):
        await queue.depth()
    async with asyncio.timeout(0.9):
        again = await asyncio.gather(*[queue.put(ticket) for ticket in tickets])

    assert again == [False] * 6


async def test_of_calls_that_went_together_none_is_known_when_the_answers_get_lost(queue, proxy):
    """Each is told so; made again, what was done is found done."""
    tickets = [Ticket(id=f"u-{number}", body=b"{}") for number in range(5)]
    await queue.depth()
    with proxy.losing_answers():
        puts = [queue.put(ticket) for ticket in tickets]
        told = await asyncio.gather(*puts, return_exceptions=True)
    again = [await queue.put(ticket) for ticket in tickets]

    assert [type(error) for error in told] == [QueueUnavailable] * 5
    assert again == [False] * 5
    assert (await queue.depth()).ready == 5


async def test_a_loop_beside_keeps_its_connection_until_it_ends(queue, proxy):
    """The heartbeat's: it renews and listens every moment, and must not connect each time."""
    await queue.put(Ticket(id="v", body=b"{}"))
    [lease] = await queue.claim(owner="w", lease_seconds=60, wait_seconds=0)
    seen = []

    async def beat():
        async with redis.asyncio.Redis(port=proxy.server_port) as operator:
            for _ in range(4):
                assert await queue.extend_many([lease], lease_seconds=60) == []
                told = await operator.info()
                seen.append((told["total_connections_received"], told["connected_clients"]))

    for _ in range(2):
        await asyncio.to_thread(asyncio.run, beat())
    await queue.ack(lease)
    received, connected = zip(*seen, strict=True)

    assert received[3] == received[0] and received[7] == received[4]
    assert connected[7] <= connected[0]  # that of the first loop is closed


async def test_a_cancel_is_heard_whenever_it_comes(queue):
    """Also in the turn in which the driver has just written, where Python 3.11 loses it."""

    async def ask_for_ever():
        while True:
            await queue.put(Ticket(id="v", body=LARGE))

    for turns in range(80):
        asking = asyncio.create_task(ask_for_ever())
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking], timeout=2)

        assert asking.cancelled(), f"after {turns} turns"

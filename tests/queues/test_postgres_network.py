"""Connections to PostgreSQL: lost, silent, shared, and let go of."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.queues.postgresrig import OURS, link_of, native
from tests.servers.deaflink import DeafLink
from tests.servers.postgresserver import own_url
from tests.servers.proxy import Proxy
from tests.system.processes import until
from worker.core.errors import QueueUnavailable, StoreUnavailable
from worker.postgres.bells import Bells
from worker.postgres.link import _BEGIN, STRAY_SECONDS
from worker.postgres.url import settings_of
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.queues.postgres import PostgresQueue
from worker.queues.postgres_tables import QUEUE
from worker.store import open_store
from worker.store import postgres_sessions as sessions
from worker.store.port import SessionClaim

pytestmark = pytest.mark.system


@pytest.fixture
def proxy(postgres):
    """What may go silent between worker and server."""
    proxy = Proxy(postgres.port)
    yield proxy
    proxy.close()


async def test_a_silent_network_is_an_outage_within_its_time(proxy):
    """Old connections neither answer nor end: the call fails all the same, and the next works."""
    queue = PostgresQueue(link_of(own_url(proxy.port), answer_seconds=0.3))
    await queue.put(Ticket(id="a", body=b"1"))
    proxy.silence()
    for call in (queue.put(Ticket(id="b", body=b"1")), queue.depth()):
        with pytest.raises(QueueUnavailable):
            async with asyncio.timeout(5):
                await call
    proxy.pass_on()
    depth = await queue.depth()
    await queue.close()

    assert depth.ready in (1, 2)  # whether the silent put arrived, nobody can know


async def test_a_network_that_forgets_its_connections_costs_one_wait(proxy):
    """Of many that went silent together one is waited for; then all are made anew."""
    queue = PostgresQueue(link_of(own_url(proxy.port), answer_seconds=1.0))
    await asyncio.gather(*[queue.depth() for _ in range(6)])  # as many connections
    proxy.forget()
    with pytest.raises(QueueUnavailable):
        await queue.depth()
    async with asyncio.timeout(0.9):
        await queue.depth()
    await queue.close()


async def test_a_reply_that_gets_lost_loses_no_task_and_makes_no_double(postgres):
    """What was done is found done: a put is known, a lease runs out, an ack is not refused."""
    moved = 0.0
    settings = replace(settings_of(own_url(postgres.port)), shift=lambda: moved)
    link = DeafLink(settings, part=QUEUE, unavailable=QueueUnavailable)
    queue = PostgresQueue(link)

    async def unheard(call):
        link.is_deaf = True
        with pytest.raises(QueueUnavailable):
            await call
        link.is_deaf = False

    await unheard(queue.put(Ticket(id="a", body=b"1")))
    known = await queue.put(Ticket(id="a", body=b"1"))
    await unheard(queue.claim(owner="w", lease_seconds=30, wait_seconds=0))
    hidden = await queue.claim(owner="w", lease_seconds=30, wait_seconds=0)
    moved = 31.0
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=0)
    await unheard(queue.ack(lease))
    await queue.ack(lease)
    state = await queue.state("a")
    await queue.close()

    assert (known, hidden, lease.deliveries, state) == (False, [], 2, "done")


async def test_a_restarted_server_fails_no_call(postgres):
    """Connections that ended while they were at rest are not used again."""
    queue = open_queue(own_url(postgres.port))
    await queue.put(Ticket(id="a", body=b"1"))
    await asyncio.gather(*[queue.depth() for _ in range(6)])  # as many connections
    postgres.stop()
    postgres.start()
    depths = await asyncio.gather(*[queue.depth() for _ in range(6)])
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.close()

    assert [depth.ready for depth in depths] == [1] * 6
    assert lease.id == "a"


async def test_a_notification_wakes_a_waiting_claim(postgres):
    """Also where the next look is far away, and after the connection that listens was lost."""
    url = own_url(postgres.port)
    link = link_of(url)
    bells = Bells(link, deaf_seconds=60)
    queue, other = PostgresQueue(link, bells=bells), open_queue(url)
    for task_id in ("a", "b"):
        claim = asyncio.create_task(queue.claim(owner="w", lease_seconds=30, wait_seconds=60))
        async with asyncio.timeout(10):
            await until(lambda: int(native(postgres, LISTENING)), within=10, what="a listener")
            await other.put(Ticket(id=task_id, body=b"1"))
            [lease] = await claim
        native(postgres, LISTENING.replace("count(*)", "pg_terminate_backend(pid, 5000)"))
        assert lease.id == task_id
    await bells.close()
    await queue.close()
    await other.close()


LISTENING = (
    "select count(*) from pg_stat_activity where application_name = 'loopworker'"
    " and query in ('select 1') or query like 'listen %'"
)


async def test_close_leaves_no_connection(postgres):
    """What was opened is gone when the queue is."""
    queue = open_queue(own_url(postgres.port))
    claims = [queue.claim(owner="w", lease_seconds=30, wait_seconds=0.1) for _ in range(12)]
    await asyncio.gather(*claims)
    await queue.close()
    await until(lambda: not int(native(postgres, OURS)), within=10, what="no connection left")


async def test_queue_and_store_of_one_address_share_connections(postgres):
    """One after the other they need one; the last that closes lets go of it, and none is left."""
    url = own_url(postgres.port)
    queue, store = open_queue(url), open_store(url)
    await queue.put(Ticket(id="a", body=b"1"))
    await store.request_cancel("a")
    # The server lists one that was closed a moment ago, by the look at opening, a moment longer.
    await until(lambda: int(native(postgres, OURS)) == 1, within=10, what="one connection")
    await queue.close()
    await store.request_cancel("b")
    await store.close()
    await until(lambda: not int(native(postgres, OURS)), within=10, what="no connection left")


async def test_a_heartbeat_keeps_its_connection(postgres):
    """Another event loop has connections of its own, for as long as it lives."""
    store = open_store(own_url(postgres.port))
    run = (await store.open("a", owner="w", lease_seconds=30)).run

    async def beat():
        servers = set()
        for _ in range(3):
            assert await store.renew_many([run], lease_seconds=30) == []
            assert await store.cancelled_among(["a"]) == []
            servers |= set(native(postgres, OURS.replace("count(*)", "pid")).split())
        return servers

    servers = await asyncio.to_thread(asyncio.run, beat())
    await store.release(run)
    await store.close()
    await until(lambda: not int(native(postgres, OURS)), within=10, what="no connection left")

    assert len(servers) == 2  # that of this loop, and that of the other


async def test_no_transaction_is_open_while_a_task_is_worked_at(postgres):
    """Rows that are dead can be cleared away, however long a task lasts."""
    url = own_url(postgres.port)
    queue, store = open_queue(url), open_store(url)
    await queue.put(Ticket(id="a", body=b"1"))
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    run = (await store.open("a", owner="w", lease_seconds=30)).run
    await store.append(run, [])
    await queue.extend(lease, lease_seconds=30)
    in_one = OURS + " and xact_start is not null"
    await until(lambda: not int(native(postgres, in_one)), within=5, what="no open transaction")
    connections = int(native(postgres, OURS))
    await queue.ack(lease)
    await queue.close()
    await store.close()

    assert connections > 0


async def test_a_transaction_that_goes_silent_holds_nobody_up(postgres, monkeypatch):
    """The server itself ends it, and whoever waits for its locks goes on meanwhile."""
    monkeypatch.setattr("worker.postgres.link._BEGIN", STRAY)
    url = own_url(postgres.port)
    store, other = open_store(url), open_store(url)
    claim, locked, over = SessionClaim("s"), asyncio.Event(), asyncio.Event()

    async def hang(tx):
        await sessions.locked(tx, claim)
        locked.set()
        await over.wait()

    silent = asyncio.create_task(store._link.transact(hang))
    await locked.wait()
    opened = await other.open("b", owner="w", lease_seconds=30, session=claim)
    over.set()
    with pytest.raises(StoreUnavailable):
        await silent
    await store.close()
    await other.close()

    assert opened.run is not None


STRAY = _BEGIN.replace(f"{STRAY_SECONDS}s", "200ms")

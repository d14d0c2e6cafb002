"""What holds for every queue whose connection has a thread of its own: NATS and RabbitMQ."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.servers import natsserver, rabbitserver
from tests.servers.proxy import Proxy
from tests.servers.server import free_port
from worker.core.errors import ConfigError, QueueUnavailable
from worker.queues import open_queue
from worker.queues.linked import LinkedQueue
from worker.queues.nats import NatsQueue
from worker.queues.nats_address import address_of as nats_address
from worker.queues.nats_link import NatsLink
from worker.queues.port import Ticket
from worker.queues.rabbit_address import address_of as rabbit_address
from worker.queues.rabbit_link import RabbitLink
from worker.queues.rabbitmq import RabbitQueue
from worker.store import open_store

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]  # RabbitMQ takes its time to start


@dataclass(frozen=True)
class Broker:
    """A server, and how its queue is opened."""

    port: int
    own_url: Callable[[int], str]
    over: Callable[..., LinkedQueue]


def nats_over(url, **options):
    """A queue on NATS."""
    return NatsQueue(NatsLink(nats_address(url), **options))


def rabbit_over(url, **options):
    """A queue on RabbitMQ."""
    return RabbitQueue(RabbitLink(rabbit_address(url), **options))


@pytest.fixture(scope="module", params=["nats", "rabbitmq"])
def broker(request, tmp_path_factory):
    """A server of each kind."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "nats":
        with natsserver.nats_server(folder) as server:
            yield Broker(server.port, natsserver.own_url, nats_over)
    else:
        with rabbitserver.rabbit_server(folder) as server:
            yield Broker(server.port, rabbitserver.own_url, rabbit_over)


@asynccontextmanager
async def proxied(broker, **options):
    """A queue behind a proxy."""
    proxy = Proxy(broker.port)
    queue = broker.over(broker.own_url(proxy.port), **options)
    yield proxy, queue
    proxy.pass_on()
    await queue.close()
    proxy.close()


@pytest.mark.parametrize(
    ("url", "driver", "modules", "extra"),
    [
        ("nats://localhost", "nats", "worker.queues.nats", "nats"),
        ("amqp://localhost", "aio_pika", "worker.queues.rabbit", "rabbitmq"),
    ],
)
def test_a_missing_driver_names_the_extra(monkeypatch, url, driver, modules, extra):
    """What to install, not a traceback."""
    monkeypatch.setitem(sys.modules, driver, None)
    for name in [name for name in sys.modules if name.startswith(modules)]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=rf"pip install 'loopworker\[{extra}\]'"):
        open_queue(url)


@pytest.mark.parametrize("scheme", ["nats", "tls", "amqp", "amqps"])
def test_it_is_no_store(scheme):
    """A broker keeps no journal, and says what to set."""
    with pytest.raises(ConfigError, match="LOOPWORKER_STORE_URL"):
        open_store(f"{scheme}://localhost")


@pytest.mark.parametrize(("scheme", "named"), [("nats", "NATS"), ("amqp", "RabbitMQ")])
async def test_a_server_that_is_not_there_is_an_outage(scheme, named):
    """It may come later: the queue opens, and each call says what is wrong, without the password."""
    queue = open_queue(f"{scheme}://someone:hunter22@127.0.0.1:{free_port()}")
    with pytest.raises(QueueUnavailable, match=rf"{named} at 127\.0\.0\.1:") as caught:
        await queue.put(Ticket(id="a", body=b"1"))
    await queue.close()

    assert "hunter22" not in str(caught.value) + repr(queue)


async def test_a_network_that_goes_silent_is_an_outage(broker):
    """Connections stay open and say nothing: each call ends in its time, and they are made anew."""
    async with proxied(broker, answer_seconds=1.0) as (proxy, queue):
        await queue.put(Ticket(id="t-1", body=b"{}"))
        proxy.silence()
        with pytest.raises(QueueUnavailable):
            await queue.depth()
        proxy.pass_on()
        depth = await queue.depth()

    assert depth.ready == 1


async def test_a_waiting_claim_hears_of_the_end_of_its_connection(broker):
    """It does not wait for its time to end; the next one has the task."""
    async with proxied(broker) as (proxy, queue):
        await queue.depth()
        claim = asyncio.create_task(queue.claim(owner="w", lease_seconds=30, wait_seconds=60))
        await asyncio.sleep(0)
        proxy.refuse()
        with pytest.raises(QueueUnavailable):
            await asyncio.wait_for(claim, 10)
        proxy.pass_on()
        await queue.put(Ticket(id="t-1", body=b"1"))
        [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
        await queue.ack(lease)

    assert (lease.id, lease.deliveries, lease.lapses) == ("t-1", 1, 0)


async def test_what_a_cancelled_claim_got_is_free_when_that_is_told(broker):
    """Whenever it is cancelled: whoever asks next has the task, at once and uncounted."""
    queue = await asyncio.to_thread(open_queue, broker.own_url(broker.port))
    await queue.put(Ticket(id="t-1", body=b"1"))
    wish = {"owner": "w", "lease_seconds": 300, "limit": 1}
    cancelled = 0
    for turns in range(40):
        claim = asyncio.create_task(queue.claim(wait_seconds=5, **wish))
        await asyncio.sleep(turns * 0.0002)
        claim.cancel()
        await asyncio.wait([claim])
        cancelled += claim.cancelled()
        leases = await queue.claim(wait_seconds=0, **wish) if claim.cancelled() else claim.result()
        assert [(lease.id, lease.deliveries) for lease in leases] == [("t-1", 1)]
        await queue.nack(leases[0], delay_seconds=0, counted=False, reason="again")
    await queue.close()

    assert cancelled > 3

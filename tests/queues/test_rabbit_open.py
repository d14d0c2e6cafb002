"""What is particular to the RabbitMQ queue: how a server is set up, cut connections, other programs."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import time
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import pytest

from tests.servers.proxy import Proxy
from tests.servers.rabbitserver import own_url, rabbit_server
from tests.servers.server import program
from worker.cli.lasting import check_lasting
from worker.core.errors import ConfigError, LeaseLost, QueueUnavailable
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.queues.rabbit_address import address_of
from worker.queues.rabbit_link import RabbitLink, impatient, unfit
from worker.queues.rabbitmq import RabbitQueue
from worker.settings import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]  # its server takes its time to start
README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A server."""
    with rabbit_server(tmp_path_factory.mktemp("rabbit")) as server:
        yield server


@asynccontextmanager
async def proxied(server, **options):
    """A queue behind a proxy."""
    proxy = Proxy(server.port)
    queue = RabbitQueue(RabbitLink(address_of(own_url(proxy.port)), **options))
    yield proxy, queue
    proxy.pass_on()
    await queue.close()
    proxy.close()


@asynccontextmanager
async def another_program(broker):
    """A channel of a program that knows nothing of us."""
    async with (
        await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/") as connection,
        connection.channel() as channel,
    ):
        yield channel


async def waiting_in(channel, name):
    """How many messages wait in a queue."""
    declared = await channel.declare_queue(name, passive=True)
    return declared.declaration_result.message_count


async def take_all(queue, *, count=1):
    """Claim so many, and settle them: ids, deliveries and lapses."""
    leases = []
    while len(leases) < count:
        found = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5, limit=10)
        assert found
        leases += found
    for lease in leases:
        await queue.ack(lease)
    return [(lease.id, lease.deliveries, lease.lapses) for lease in leases]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://", "no address of a RabbitMQ server"),
        ("amqp://localhost:abc", "no address of a RabbitMQ server"),
        ("amqp://localhost:0", "no address of a RabbitMQ server"),
        ("amqp://localhost/a/b", "no address of a RabbitMQ server"),
        ("amqp://:hidden#b@localhost", "in a password or vhost %23 for"),
        ("amqp://localhost?heartbeat=3", "'heartbeat' is no option"),
        ("amqp://localhost?prefix=a.b", "letters, digits, - and _ only"),
        ("amqps://localhost?tls_cert=a.pem", "belong together"),
        ("amqps://localhost?tls_ca=missing.pem", "No such file"),
    ],
)
def test_an_address_that_cannot_be_read(url, said):
    """Which part is wrong, and how it is written, without a part of the password."""
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        open_queue(url)

    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "path", "where"),
    [
        ("amqp://localhost", "/%2F", "localhost:5672"),
        ("amqps://me:pass@host/", "/%2F", "host:5671"),
        ("amqp://host:99/mine?prefix=x-", "/mine", "host:99"),
    ],
)
def test_addresses(url, path, where):
    """The usual virtual host and port, and the account where nobody sees it."""
    address = address_of(url)

    assert (address.url.endswith(path), address.where) == (True, where)
    assert "pass" not in repr(address)


@pytest.mark.parametrize(
    ("account", "said"),
    [("guest:wrong-secret@", "lets nobody in"), ("guest:guest@", "does not allow it")],
)
def test_a_server_that_lets_nobody_in(broker, account, said):
    """A wrong password, or a virtual host that is not there: when the queue is opened."""
    host = "nowhere" if "allow" in said else ""
    with pytest.raises(ConfigError, match=said) as caught:
        open_queue(f"amqp://{account}127.0.0.1:{broker.port}/{host}")

    assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("version", "is_fit"), [((3, 9), False), ((3, 10), True), ((4, 1), True), ((), False)]
)
def test_versions(version, is_fit):
    """Dead letters that cannot be lost came with 3.10."""
    assert ("3.10 or a later one" in unfit(version)) is not is_fit


async def test_doctor_tells_of_a_server_that_takes_long_tasks_away(broker):
    """Before 3.12 its consumer_timeout cannot be set from here: with both figures, and what to do."""
    url = own_url(broker.port)
    found = {
        deadline: await check_lasting(Settings(queue_url=url, deadline=deadline))
        for deadline in (600.0, 7200.0)
    }

    assert found[600.0] == []
    [finding] = found[7200.0]
    assert (finding.mark, finding.code) == ("odd", 0)
    assert "LOOPWORKER_DEADLINE is 7200 s: set consumer_timeout above it" in finding.text
    assert "guest:guest" not in finding.text
    assert impatient((3, 12), longest_seconds=7200.0) == ""


async def test_a_queue_that_is_set_up_otherwise_is_refused(broker):
    """Somebody has a queue of that name, which may lose tasks; with what to do."""
    url = own_url(broker.port)
    name = address_of(url).prefix + "tasks"
    async with another_program(broker) as channel:
        await channel.declare_queue(name, durable=True)
        with pytest.raises(ConfigError, match=r"is no queue of loopworker.*\?prefix=name-"):
            await asyncio.to_thread(open_queue, url)


async def test_a_put_refused_by_a_dead_server_does_not_come_later(broker):
    """What was told to have failed is not sent when the server is back."""
    async with proxied(broker) as (proxy, queue):
        await queue.put(Ticket(id="before", body=b"1"))
        proxy.refuse()
        for _ in range(3):  # before the connection is known to be cut, and after
            with pytest.raises(QueueUnavailable):
                await queue.put(Ticket(id="t-1", body=b"1"))
        proxy.pass_on()
        depth = await queue.depth()

    assert depth.ready == 1


async def test_who_is_cut_off_has_lost_its_lease(broker):
    """The server gives the task to another one at once, and counts; the first is told."""
    async with proxied(broker) as (proxy, queue):
        await queue.put(Ticket(id="t-1", body=b"1"))
        [lease] = await queue.claim(owner="w", lease_seconds=300, wait_seconds=5)
        proxy.refuse()
        with pytest.raises(QueueUnavailable):
            await queue.extend(lease, lease_seconds=300)
            await queue.depth()
        proxy.pass_on()
        taken = await take_all(queue)
        with pytest.raises(LeaseLost):
            await queue.ack(lease)

    assert taken == [("t-1", 2, 1)]


async def test_what_was_due_while_nobody_listened_is_taken_by_who_comes(broker):
    """It comes in the moment in which a connection is made anew, and is not left lying there."""
    url = own_url(broker.port)
    first, later = (
        RabbitQueue(RabbitLink(address_of(url))),
        RabbitQueue(RabbitLink(address_of(url))),
    )
    for number in range(3):
        await first.put(Ticket(id=f"t-{number}", body=b"1", not_before=time.time() + 0.25))
    await first.close()
    async with another_program(broker) as channel, asyncio.timeout(10):
        due = f"{address_of(url).prefix}tasks.due"
        while await waiting_in(channel, due) < 3:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.02)
    taken = await take_all(later, count=3)
    await later.close()

    assert {task_id for task_id, _, _ in taken} == {"t-0", "t-1", "t-2"}


async def test_a_delay_of_several_steps_is_not_cut_short(broker):
    """It waits in one queue after the other, for as long as it was asked to in all."""
    queue = await asyncio.to_thread(open_queue, own_url(broker.port))
    await queue.put(Ticket(id="t-1", body=b"1"))
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    began = time.monotonic()
    await queue.nack(lease, delay_seconds=0.7, counted=False, reason="later")
    taken = await take_all(queue)
    waited = time.monotonic() - began
    await queue.close()

    assert taken == [("t-1", 1, 0)]
    assert waited >= 0.7


async def test_who_says_nothing_counts_as_at_work(broker):
    """A worker that is cut off may have a task in hand: the queue does not look empty."""
    url = own_url(broker.port)
    async with proxied(broker) as (proxy, _):
        cut = RabbitQueue(RabbitLink(address_of(url.replace(str(broker.port), str(proxy.port)))))
        other = RabbitQueue(RabbitLink(address_of(url)))
        await cut.put(Ticket(id="t-1", body=b"1"))
        await cut.claim(owner="w", lease_seconds=30, wait_seconds=5)
        before = await other.depth()
        proxy.silence()
        silent = await other.depth()
        await other.close()
        proxy.pass_on()
        await cut.close()

    assert (before.leased, silent.leased) == (1, 1)


async def test_a_task_that_could_not_be_handed_back_is_still_in_hand(broker):
    """The queue that it should go to was deleted: the second time it goes, and is noted once."""
    url = own_url(broker.port)
    queue = await asyncio.to_thread(open_queue, url)
    await queue.put(Ticket(id="t-1", body=b"1"))
    for _ in range(2):
        [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
        async with another_program(broker) as channel:
            await channel.queue_delete(f"{address_of(url).prefix}tasks.delayed.250")
        try:
            await queue.nack(lease, delay_seconds=0.25, counted=True, reason="slow")
        except QueueUnavailable:
            await queue.nack(lease, delay_seconds=0.25, counted=True, reason="slow again")
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.dead_letter(lease, reason="no use")
    [letter] = await queue.dead()
    await queue.close()

    assert letter.history == ("delivery 1: slow", "delivery 2: slow again", "no use")


async def test_one_that_cannot_be_given_up_holds_nobody_up(broker):
    """A claim that finds a worn-out task, and no place for it, brings the others all the same."""
    url = own_url(broker.port)
    queue, told = RabbitQueue(RabbitLink(address_of(url)), max_deliveries=1), []
    queue.on_dead(told.append)
    await queue.put(Ticket(id="worn", body=b"1"))
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    for name in ("a", "b"):
        await queue.put(Ticket(id=name, body=b"1"))
    await queue.nack(lease, delay_seconds=0, counted=True, reason="slow")
    await queue.put(Ticket(id="c", body=b"1"))
    async with another_program(broker) as channel:
        await channel.queue_delete(f"{address_of(url).prefix}tasks.dead")
    taken = await take_all(queue, count=3)
    async with asyncio.timeout(20):
        while not told:
            await queue.claim(owner="w", lease_seconds=30, wait_seconds=1)
    await queue.close()

    assert {task_id for task_id, _, _ in taken} == {"a", "b", "c"}
    assert told == ["worn"]


async def test_a_task_that_could_not_be_given_up_comes_again(broker):
    """There is no place for dead letters: when its lease is over, somebody else has it."""
    url = own_url(broker.port)
    queue = await asyncio.to_thread(open_queue, url)
    await queue.put(Ticket(id="t-1", body=b"1"))
    [lease] = await queue.claim(owner="w", lease_seconds=1, wait_seconds=5)
    async with another_program(broker) as channel:
        await channel.queue_delete(f"{address_of(url).prefix}tasks.dead")
    with pytest.raises(QueueUnavailable, match="refuses more"):
        await queue.dead_letter(lease, reason="no use")
    taken = await take_all(queue)
    await queue.close()

    assert taken == [("t-1", 2, 1)]


async def test_a_task_put_in_by_another_program_is_taken(broker):
    """The line of the README, as it stands there."""
    line = re.search(r"`(amqp-publish [^`]*)`", README.read_text()).group(1)
    url = own_url(broker.port)
    name = address_of(url).prefix + "tasks"
    queue = await asyncio.to_thread(open_queue, url)
    program("amqp-publish")
    words = [name if word == "tasks" else word for word in shlex.split(line)]
    words[1:1] = ["-u", f"amqp://guest:guest@127.0.0.1:{broker.port}"]
    await asyncio.to_thread(subprocess.run, words, check=True, timeout=20)
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.ack(lease)
    await queue.close()

    assert (lease.id, json.loads(lease.body)) == ("t-1", {"input": "…"})


async def test_messages_of_other_programs(broker):
    """Without an id each is a task of its own; a priority and a time are kept."""
    url = own_url(broker.port)
    name = address_of(url).prefix + "tasks"
    queue = await asyncio.to_thread(open_queue, url)
    async with another_program(broker) as channel:
        raw = await channel.get_underlay_channel()
        for _ in range(2):
            await raw.basic_publish(b"plain", routing_key=name)
        await channel.default_exchange.publish(aio_pika.Message(b"high", priority=9), name)
        headers = {"not_before": "4000000000"}
        later = aio_pika.Message(b"later", message_id="later", headers=headers)
        await channel.default_exchange.publish(later, name)
    leases = []
    async with asyncio.timeout(20):
        while len(leases) < 3 or await queue.place("later") is None:
            leases += await queue.claim(owner="w", lease_seconds=30, wait_seconds=1, limit=10)
    depth = await queue.depth()
    place = await queue.place("later")
    await queue.close()

    assert sorted((lease.body, lease.priority) for lease in leases) == [
        *((b"high", 9), (b"plain", 0), (b"plain", 0)),
    ]
    assert len({lease.id for lease in leases}) == 3
    assert (depth.delayed, depth.leased) == (1, 3)
    assert place is not None and place.state == "delayed"


async def test_what_the_server_gives_up_lies_in_the_dead_letters(broker):
    """Rejected by another program, or by a policy of the server: with what the server says of it."""
    url = own_url(broker.port)
    queue = await asyncio.to_thread(open_queue, url)
    await queue.put(Ticket(id="t-1", body=b"1"))
    async with another_program(broker) as channel:
        theirs = await channel.get_queue(address_of(url).prefix + "tasks", ensure=False)
        await (await theirs.get()).reject(requeue=False)
    letters = []
    async with asyncio.timeout(10):
        while not letters:
            letters = await queue.dead()
    is_back = await queue.redrive("t-1")
    taken = await take_all(queue)
    await queue.close()

    assert [(one.id, one.reason) for one in letters] == [
        ("t-1", "given up by the server: rejected"),
    ]
    assert (is_back, taken) == (True, [("t-1", 1, 0)])


async def test_where_a_task_is_that_nobody_remembers(broker):
    """A process that came later asks the others; with them gone, only the dead are found."""
    url = own_url(broker.port)
    first, second = [await asyncio.to_thread(open_queue, url) for _ in range(2)]
    for name in ("waits", "dead"):
        await first.put(Ticket(id=name, body=b"1"))
    [lease] = await first.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await first.nack(lease, delay_seconds=0, counted=False, reason="drain")
    told = await second.place("waits")
    leases = []
    while len(leases) < 2:
        found = await first.claim(owner="w", lease_seconds=30, wait_seconds=5, limit=2)
        assert found
        leases += found
    for lease in leases:
        if lease.id == "dead":
            await first.dead_letter(lease, reason="no use")
    await first.close()
    later = [await second.state(name) for name in ("waits", "dead", "unknown")]
    await second.close()

    assert told is not None and (told.state, told.note) == ("ready", "drain")
    assert later == [None, "dead", None]

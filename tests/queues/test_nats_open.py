"""What is particular to the NATS queue: servers and streams, outages, tasks put in by others."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.natscli import nats_pub
from tests.servers.natsserver import nats_server, own_url
from tests.servers.proxy import Proxy
from worker.core.errors import ConfigError, QueueFull, QueueUnavailable
from worker.queues import open_queue
from worker.queues.nats import NatsQueue
from worker.queues.nats_address import address_of
from worker.queues.nats_link import NatsLink, unfit
from worker.queues.nats_names import intake_of, stream_of, token_of
from worker.queues.nats_streams import NatsStreams
from worker.queues.port import Ticket

pytestmark = pytest.mark.system
README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A server that lets everybody in."""
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@contextmanager
def proxied(server):
    """A server behind a proxy, and an address of an own part of it."""
    proxy = Proxy(server.port)
    yield proxy, address_of(own_url(proxy.port))
    proxy.close()


async def take_all(queue):
    """Claim everything, and settle it: ids and deliveries."""
    leases = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5, limit=10)
    for lease in leases:
        await queue.ack(lease)
    return [(lease.id, lease.deliveries) for lease in leases]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nats://", "no address of a NATS server"),
        ("nats://localhost:abc", "no address of a NATS server"),
        ("nats://localhost:0", "no address of a NATS server"),
        ("nats://localhost/tasks", "no address of a NATS server"),
        ("nats://:hidden#b@localhost", "in a password %23 for #"),
        ("nats://a,,b", "no address of a NATS server"),
        ("nats://localhost?timeout=3", "'timeout' is no option"),
        ("nats://localhost?prefix=a.b", "letters, digits, - and _ only"),
        ("tls://localhost?tls_cert=a.pem", "belong together"),
        ("tls://localhost?tls_ca=missing.pem", "No such file"),
    ],
)
def test_an_address_that_cannot_be_read(url, said):
    """Which part is wrong, and how it is written, without a part of the password."""
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        open_queue(url)

    assert "hidden" not in str(caught.value)


def test_a_cluster():
    """Hosts are parted by commas, and the account is for all of them."""
    address = address_of("nats://me:pass@a,b:4223,[::1]/?prefix=x-")

    assert address.servers == (
        *("nats://me:pass@a:4222", "nats://me:pass@b:4223", "nats://me:pass@[::1]:4222"),
    )
    assert (address.where, address.prefix) == ("a:4222,b:4223,[::1]:4222", "x-")
    assert "pass" not in repr(address)


def test_a_wrong_password_is_told_without_it(tmp_path):
    """When the queue is opened, with the address of the server."""
    with nats_server(tmp_path, "authorization { user: me, password: right }") as server:
        with pytest.raises(ConfigError, match="lets nobody in") as caught:
            open_queue(f"nats://me:wrong-secret@127.0.0.1:{server.port}")
        asyncio.run(open_queue(f"nats://me:right@127.0.0.1:{server.port}").close())

    assert "wrong-secret" not in str(caught.value)


def test_a_server_without_jetstream_is_refused(tmp_path):
    """With what to write into its file."""
    with (
        nats_server(tmp_path, jetstream="off") as server,
        pytest.raises(ConfigError, match="JetStream is off; start the server with -js"),
    ):
        open_queue(f"nats://127.0.0.1:{server.port}")


@pytest.mark.parametrize(("version", "is_fit"), [((2, 9), False), ((2, 10), True), ((3, 0), True)])
def test_versions(version, is_fit):
    """The clock of the server comes with 2.10."""
    assert ("2.10 or a later one" in unfit(version, has_jetstream=True)) is not is_fit


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"storage": "memory"}, "set storage file"),
        ({"max_age": 3600 * 10**9}, "set max_age 0"),
        ({"max_bytes": 10**6}, "set max_bytes -1"),
        ({"discard": "old", "max_msgs": 1000}, "set discard new, max_msgs -1"),
        ({"max_msgs_per_subject": 5}, "set max_msgs_per_subject 1"),
    ],
)
def test_a_stream_that_may_lose_tasks_is_refused(broker, odd, said):
    """Made by somebody else, or changed: with what is wrong and how it has to be."""
    url = own_url(broker.port)
    name = address_of(url).prefix + "tasks"
    fine = {"storage": "file", "discard": "new", "max_msgs_per_subject": 1}
    subject = f"loopworker.{token_of(name)}.>"
    asked = {**fine, **odd, "name": stream_of(name), "subjects": [subject], "max_consumers": -1}
    told(broker, f"$JS.API.STREAM.CREATE.{stream_of(name)}", asked)

    with pytest.raises(ConfigError, match=said):
        open_queue(url)


def told(broker, subject, asked):
    """Ask the server as an operator's program would."""

    async def ask():
        link = NatsLink(address_of(own_url(broker.port)))

        async def request():
            connection = await link.connected()
            return await connection.client.request(subject, json.dumps(asked).encode(), timeout=5)

        answer = json.loads((await link.run(request())).data)
        await link.close()
        return answer

    answer = asyncio.run(ask())
    assert "error" not in answer
    return answer


async def test_a_put_refused_by_a_dead_server_does_not_come_later(tmp_path):
    """What was told to have failed is not sent after the return of the server."""
    with nats_server(tmp_path) as server:
        queue = open_queue(own_url(server.port))
        await queue.put(Ticket(id="before", body=b"1"))
        await asyncio.to_thread(server.kill)
        for _ in range(3):  # before the connection is known to be cut, and after
            with pytest.raises(QueueUnavailable):
                await queue.put(Ticket(id="t-1", body=b"1"))
        await asyncio.to_thread(server.start)
        depth = await queue.depth()
        is_new = await queue.put(Ticket(id="t-1", body=b"1"))
        taken = await take_all(queue)
        await queue.close()

    assert (depth.ready, is_new, taken) == (1, True, [("before", 1), ("t-1", 1)])


async def test_a_put_whose_answer_got_lost_is_known_by_who_made_it(broker):
    """It had its effect: made again it is the same one, and for everybody else a double."""
    with proxied(broker) as (proxy, address):
        queue = NatsQueue(NatsLink(address))
        await queue.put(Ticket(id="before", body=b"1"))
        with proxy.losing_answers(), pytest.raises(QueueUnavailable):
            await queue.put(Ticket(id="t-1", body=b"1"))
        other = NatsQueue(NatsLink(address))
        known = [await each.put(Ticket(id="t-1", body=b"1")) for each in (other, queue, queue)]
        taken = await take_all(queue)
        await queue.close()
        await other.close()

    assert known == [False, True, False]
    assert taken == [("before", 1), ("t-1", 1)]


async def test_what_a_failed_claim_had_picked_is_picked_again(broker):
    """The index had it as the next one when the connection went: it does not forget it."""
    with proxied(broker) as (proxy, address):
        queue = NatsQueue(NatsLink(address, answer_seconds=0.3))
        wish = {"owner": "w", "lease_seconds": 30}
        assert await queue.claim(wait_seconds=0, **wish) == []
        await queue.put(Ticket(id="t-1", body=b"1"))
        await queue.depth()
        proxy.silence()
        with pytest.raises(QueueUnavailable):
            await queue.claim(wait_seconds=0, **wish)
        proxy.pass_on()
        taken = await take_all(queue)
        await queue.close()

    assert taken == [("t-1", 1)]


async def test_what_a_claim_got_is_worth_more_than_what_it_did_not(broker, monkeypatch):
    """Of two tasks one cannot be read just then: the claim brings the other, and the next one both."""
    queue = open_queue(own_url(broker.port))
    for name in ("a", "b"):
        await queue.put(Ticket(id=name, body=b"1"))
    read = NatsStreams.read

    async def read_but_one(streams, stream, subject):
        if subject.endswith(token_of("b")):
            raise QueueUnavailable("not now")
        return await read(streams, stream, subject)

    with monkeypatch.context() as patch:
        patch.setattr(NatsStreams, "read", read_but_one)
        first = await queue.claim(owner="w", lease_seconds=30, wait_seconds=0, limit=10)
    then = await queue.claim(owner="w", lease_seconds=30, wait_seconds=0, limit=10)
    await queue.close()

    assert ([lease.id for lease in first], [lease.id for lease in then]) == (["a"], ["b"])


async def test_delayed_tasks_leave_room_for_others(broker):
    """Far more than a consumer of NATS may have unacknowledged: a fresh task does not wait for them."""
    queue = open_queue(own_url(broker.port))
    names = {f"t{number}" for number in range(1_200)}
    await asyncio.gather(*(queue.put(Ticket(id=name, body=b"1")) for name in names))
    hidden = set()
    while hidden < names:
        leases = await queue.claim(owner="w", lease_seconds=60, wait_seconds=10, limit=100)
        assert leases
        later = [
            queue.nack(lease, delay_seconds=300, counted=True, reason="later") for lease in leases
        ]
        await asyncio.gather(*later)
        hidden |= {lease.id for lease in leases}
    await queue.put(Ticket(id="fresh", body=b"1"))
    taken = await take_all(queue)
    depth = await queue.depth()
    await queue.close()

    assert (taken, depth.delayed) == ([("fresh", 1)], len(names))


async def test_a_worker_that_starts_leaves_delayed_tasks_alone(broker):
    """It finds the stream as it has to be, and neither makes nor changes it."""
    url = own_url(broker.port)
    queue = open_queue(url)
    await queue.put(Ticket(id="a", body=b"1"))
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.nack(lease, delay_seconds=1.0, counted=True, reason="later")
    others = [open_queue(url) for _ in range(3)]
    places = [await other.state("a") for other in others]
    [again] = await others[0].claim(owner="w", lease_seconds=30, wait_seconds=10)
    for each in (queue, *others):
        await each.close()

    assert places == ["delayed"] * 3
    assert (again.id, again.deliveries) == ("a", 2)


async def test_a_stream_that_was_deleted_and_made_anew(broker):
    """What was in it is gone, and nothing of it is believed any more."""
    url = own_url(broker.port)
    queue = open_queue(url)
    for name in ("a", "b"):
        await queue.put(Ticket(id=name, body=b"1"))
    stream = stream_of(address_of(url).prefix + "tasks")
    await asyncio.to_thread(told, broker, f"$JS.API.STREAM.DELETE.{stream}", {})
    depth = await queue.depth()
    await queue.put(Ticket(id="a", body=b"1"))
    taken = await take_all(queue)
    await queue.close()

    assert (depth.ready, taken) == (0, [("a", 1)])


async def test_a_server_without_room_takes_no_more(tmp_path):
    """Its file store is full: a submit is refused, and nothing of it is written."""
    with nats_server(tmp_path, jetstream="max_file_store: 1MB") as server:
        queue = open_queue(own_url(server.port))
        with pytest.raises(QueueFull, match="nothing written"):
            for number in range(20):
                await queue.put(Ticket(id=f"t-{number}", body=b"x" * 100_000))
        depth = await queue.depth()
        await queue.close()

    assert depth.ready == number


async def test_a_task_put_in_by_another_program_is_taken(broker):
    """The line of the README, as it stands there; the header is the key against doubles."""
    line = re.search(r"`(nats pub [^`]*)`", README.read_text()).group(1)
    url = own_url(broker.port)
    name = address_of(url).prefix + "tasks"
    queues = [open_queue(url), open_queue(url)]
    await asyncio.gather(
        *[each.claim(owner="w", lease_seconds=30, wait_seconds=0) for each in queues]
    )
    await asyncio.to_thread(
        lambda: [
            nats_pub(each.replace("loopworker.tasks", f"loopworker.{name}"), port=broker.port)
            for each in (line, line, "nats pub loopworker.tasks 现在几点?")
        ]
    )
    leases = []
    while len(leases) < 2:
        found = await queues[0].claim(owner="w", lease_seconds=30, wait_seconds=5, limit=10)
        assert found
        leases += found
    more = await queues[1].claim(owner="w", lease_seconds=30, wait_seconds=0, limit=10)
    for queue in queues:
        await queue.close()

    assert {lease.body.decode() for lease in leases} == {'{"input": "…"}', "现在几点?"}
    assert "t-1" in {lease.id for lease in leases}
    assert more == []


async def test_what_others_published_outlives_a_worker_that_could_not_write_it(broker):
    """It is published before the row can be written; the next worker has it."""
    url = own_url(broker.port)
    name = address_of(url).prefix + "tasks"
    stream, subject = intake_of(name)
    link = NatsLink(address_of(url))
    await link.run(NatsStreams(link).create(stream, subject, keeps_last=False))
    await link.close()
    await asyncio.to_thread(nats_pub, f"nats pub {subject} hello", port=broker.port)
    queue = open_queue(url)
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.close()

    assert lease.body == b"hello"


def test_subjects_are_one_word():
    """Whatever an id or a name is, it makes one word of a subject, of its own."""
    texts = ["a", "A", "a.b", "*", ">", "a b", "", "käse", "x" * 1000, "x" * 1001]
    tokens = {token_of(text) for text in texts}
    names = {each for text in texts for each in (stream_of(text), *intake_of(text))}

    assert len(tokens) == len(texts)
    assert all(len(token) < 300 and not set(token) & set(".*> ") for token in tokens)
    assert stream_of("tasks") == "loopworker_tasks"
    assert intake_of("tasks") == ("loopworker_in_tasks", "loopworker.tasks")
    assert len(names) == 3 * len(texts)

"""What is particular to the Redis queue: how a server is set up, addresses, tasks put in by others."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import redis.asyncio

from tests.servers.proxy import Proxy
from tests.servers.redisserver import own_url, redis_server
from tests.servers.server import free_port, program
from worker.core.errors import ConfigError, QueueFull, QueueUnavailable
from worker.queues import open_queue, redis_scripts
from worker.queues.port import Ticket
from worker.queues.redis import RedisQueue
from worker.redisfit import CHECK, unfit
from worker.redislink import RedisLink, settings_of
from worker.redistalk import Script
from worker.store import (
    open_store,
    redis_journal,
    redis_lastgood,
    redis_letters,
    redis_peers,
    redis_sessions,
)

MORE = (redis_lastgood, redis_letters, redis_peers, redis_sessions)

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A server with a password."""
    with redis_server(tmp_path_factory.mktemp("redis"), "--requirepass", "hidden") as server:
        yield server


def address(broker, password="hidden"):
    """An own part of the server."""
    return own_url(broker.port).replace("//", f"//:{password}@")


def native(broker, *words):
    """What an operator or another program types."""
    command = [program("redis-cli"), "-p", str(broker.port), "-a", "hidden", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_may_throw_tasks_away_is_refused(broker, policy):
    """With the reason and what to do about it, before a task is in it."""
    native(broker, "CONFIG", "SET", "maxmemory-policy", policy)
    try:
        with pytest.raises(ConfigError, match="set maxmemory-policy noeviction"):
            open_queue(address(broker))
    finally:
        native(broker, "CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_a_wrong_password_is_told_without_it(broker):
    """The address of the server, and no secret."""
    with pytest.raises(ConfigError, match="lets nobody in") as caught:
        open_queue(address(broker, "wrong-secret"))

    assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://localhost/?timeout=3", "'timeout' is no option"),
        ("redis://localhost/?prefix=a{b}", "must not hold { or }"),
        ("redis://localhost:abc/", "no address of a Redis server"),
        ("redis://[localhost/", "no address of a Redis server"),
        ("redis://localhost/tasks", "no address of a Redis server"),
        ("redis://localhost:0/", "no address of a Redis server"),
        ("redis://", "no address of a Redis server"),
        ("redis://localhost/?ssl_cert_reqs=none", "'ssl_cert_reqs' is no option of a redis://"),
        ("rediss://localhost/?ssl_cert_reqs=maybe", "one of none, optional, required"),
        ("redis://:a#b@localhost/0", "in a password %23 for #"),
    ],
)
def test_an_address_that_cannot_be_read(url, said):
    """Which part is wrong, and how it is written."""
    with pytest.raises(ConfigError, match=said):
        open_queue(url)


def test_a_database_that_is_not_there_is_refused(broker):
    """With what the server says of it, when the queue is opened."""
    with pytest.raises(ConfigError, match="DB index is out of range"):
        open_queue(address(broker).replace("/0?", "/99?"))


async def test_a_server_that_is_not_there_is_an_outage():
    """It may come later: the queue opens, and each call says what is wrong."""
    queue = open_queue(f"redis://:hidden@127.0.0.1:{free_port()}/")
    with pytest.raises(QueueUnavailable, match=r"Redis at 127\.0\.0\.1:") as caught:
        await queue.depth()
    await queue.close()

    assert "hidden" not in str(caught.value)


async def test_a_network_that_goes_silent_is_an_outage(broker):
    """Connections stay open and say nothing: each call ends in its time, and they are made anew."""
    proxy = Proxy(broker.port)
    settings = settings_of(address(broker).replace(str(broker.port), str(proxy.port)))
    link = RedisLink(replace(settings, answer_seconds=0.2), unavailable=QueueUnavailable)
    queue = RedisQueue(link)
    await queue.put(Ticket(id="t-1", body=b"{}"))
    proxy.silence()
    with pytest.raises(QueueUnavailable, match="Timeout"):
        await queue.depth()
    proxy.pass_on()
    depth = await queue.depth()
    await queue.close()
    proxy.close()

    assert depth.ready == 1


async def test_a_task_put_in_by_another_program_is_taken(broker):
    """The one command of the README; the id is the key against doubles."""
    url = address(broker)
    stream = url.partition("prefix=")[2] + "tasks"
    for _ in range(2):
        native(broker, "XADD", stream, "*", "id", "t-1", "payload", '{"input": "现在几点?"}')
    queue = open_queue(url)
    first, *more = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5, limit=10)
    await queue.ack(first)
    await queue.close()

    assert (first.id, json.loads(first.body), more) == ("t-1", {"input": "现在几点?"}, [])


@pytest.mark.parametrize(
    ("id", "is_kept"),
    [
        ("käse/现在 🎈%s:{x}", True),
        (b"\xed\xa0\x80", False),  # half of a pair
        (b"\xe0\x80\x80", False),  # longer than it has to be
        (b"\xf4\x90\x80\x80", False),  # beyond the last character
        (b"\xe4\xc3\xa9\xb8\xad", False),  # a character within the bytes of another
        (b"", False),
    ],
)
async def test_an_id_that_is_no_text_gives_way_to_the_number_of_the_entry(broker, id, is_kept):
    """Whatever is in it, the task is settled under the id that it was handed out by."""
    url = address(broker)
    stream = url.partition("prefix=")[2] + "tasks"
    async with redis.asyncio.Redis(port=broker.port, password="hidden") as other:
        entry = await other.xadd(stream, {"id": id, "payload": "{}", "not_before": "1e13"})
    queue = open_queue(url)
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.ack(lease)
    depth = await queue.depth()
    await queue.close()

    assert lease.id == (id if is_kept else entry.decode())
    assert (depth.leased, depth.delayed, depth.ready) == (0, 0, 0)


async def test_a_full_server_takes_no_more_and_gives_back_what_it_has(broker):
    """No memory left: submits are refused, claims, renewals and acks go on."""
    queue = open_queue(address(broker))
    for number in range(3):
        await queue.put(Ticket(id=f"t-{number}", body=b'{"input": "hi"}'))
    native(broker, "CONFIG", "SET", "maxmemory", "1kb")
    try:
        with pytest.raises(QueueFull, match="no memory left"):
            await queue.put(Ticket(id="t-9", body=b"{}"))
        leases = await queue.claim(owner="w", lease_seconds=30, wait_seconds=0, limit=10)
        lost = await queue.extend_many(leases, lease_seconds=60)
        handed_back, *rest = leases
        await queue.nack(handed_back, delay_seconds=0, counted=True, reason="no luck")
        for lease in rest:
            await queue.ack(lease)
        depth = await queue.depth()
    finally:
        native(broker, "CONFIG", "SET", "maxmemory", "0")
    await queue.close()

    assert (len(leases), lost, depth.ready, depth.leased) == (3, [], 1, 0)


async def test_a_server_that_came_later_is_looked_at_before_the_first_task(broker):
    """It was out of reach when the queue was opened, and may throw tasks away."""
    url = address(broker)
    queue = RedisQueue(RedisLink(settings_of(url), unavailable=QueueUnavailable))
    native(broker, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(QueueUnavailable, match="set maxmemory-policy noeviction"):
            await queue.put(Ticket(id="t-1", body=b"{}"))
    finally:
        native(broker, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    depth = await queue.depth()
    await queue.close()

    assert depth.ready == 0


@pytest.mark.parametrize(
    ("version", "is_fit"), [("6.2.14", False), ("7.0.0", True), ("8.1.0", True), ("10.0", True)]
)
def test_versions(version, is_fit):
    """Flags of scripts came with 7.0."""
    assert ("Redis 7.0" in unfit({"redis_version": version})) is not is_fit


async def test_a_call_whose_answer_got_lost_is_not_made_again():
    """It may have had its effect; whoever asked decides."""
    connections = 0

    def hang_up(_, writer):
        nonlocal connections
        connections += 1
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = settings_of(f"redis://127.0.0.1:{port}/")
        queue = RedisQueue(RedisLink(settings, unavailable=QueueUnavailable))
        with pytest.raises(QueueUnavailable):
            await queue.depth()
        await queue.close()

    assert connections == 1


def test_a_missing_driver_names_the_extra(monkeypatch):
    """What to install, not a traceback."""
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "worker.redislink", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'loopworker\[redis\]'"):
        open_queue("redis://localhost/")


async def test_a_server_that_begins_to_throw_tasks_away_is_found_out(broker):
    """Also while its connections live: it is asked from time to time."""
    settings = replace(settings_of(address(broker)), look_seconds=0.0)
    queue = RedisQueue(RedisLink(settings, unavailable=QueueUnavailable))
    await queue.put(Ticket(id="t-1", body=b"{}"))
    native(broker, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        for _ in range(2):
            with pytest.raises(QueueUnavailable, match="set maxmemory-policy noeviction"):
                await queue.put(Ticket(id="t-2", body=b"{}"))
    finally:
        native(broker, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    depth = await queue.depth()
    await queue.close()

    assert depth.ready == 1


ENOUGH = ("+@read", "+@write", "+@scripting", "+@connection", "+info", "+time")


@pytest.mark.parametrize(
    ("rights", "said"),
    [
        ((*ENOUGH, "-evalsha"), "may not run EVALSHA on"),
        ((*ENOUGH, "-eval"), "may not run EVAL on"),
        ((*ENOUGH, "-zpopmin", "-xread"), "may not run ZPOPMIN, XREAD on"),
        ((*ENOUGH, "-info"), "refuses: .* no permissions"),
    ],
)
def test_a_user_who_may_not_do_everything_is_refused(broker, rights, said):
    """When the queue is opened, with what is missing and what to set: waiting would not help."""
    native(broker, "ACL", "SETUSER", "some", "reset", "on", ">word", "~*", *rights)
    with pytest.raises(ConfigError, match=said):
        open_queue(address(broker).replace("//:hidden", "//some:word"))


async def test_a_user_with_the_rights_that_are_told_can_work(broker):
    """No more than those, and no keys but its own."""
    url = address(broker).replace("//:hidden", "//some:word")
    stream = url.partition("prefix=")[2] + "tasks"
    keys = (f"~{stream}", f"~{{{stream}}}*")
    native(broker, "ACL", "SETUSER", "some", "reset", "on", ">word", *ENOUGH, *keys)
    queue = open_queue(url)
    await queue.put(Ticket(id="t-1", body=b"{}"))
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=0)
    await queue.ack(lease)
    assert await queue.claim(owner="w", lease_seconds=30, wait_seconds=0.01) == []
    await queue.close()
    with pytest.raises(ConfigError, match=r"may not run .* '~\{.*store\}\*'"):
        open_store(url)


def test_scripts_call_nothing_that_is_not_asked_for():
    """Whoever adds a command to a script adds it to the question for rights."""
    for text in (*every_script(redis_scripts), *every_script(redis_journal, *MORE)):
        used = set(re.findall(r"redis\.call\('(\w+)'", text))
        assert used <= set(re.findall(r"\{'(\w+)'", CHECK)), text


def every_script(*modules):
    """The texts of all scripts of some modules."""
    return [each.text for m in modules for each in vars(m).values() if isinstance(each, Script)]


async def test_a_claim_gives_up_so_many_at_once_and_no_more(broker):
    """The server does nothing else meanwhile; the queue asks again at once for the rest."""
    most, moved = redis_scripts.BURY_BATCH, [0.0]
    settings = replace(settings_of(address(broker)), shift=lambda: moved[0])
    link = RedisLink(settings, unavailable=QueueUnavailable)
    queue = RedisQueue(link, max_deliveries=1)
    for number in range(most + 20):
        await queue.put(Ticket(id=f"t-{number}", body=b"1"))
    leases = await queue.claim(owner="w", lease_seconds=30, wait_seconds=0, limit=most + 20)
    moved[0] = 31.0
    _, dead, due_in, _ = await link.run(redis_scripts.CLAIM, queue.keys, "w", 30, 1, 1)
    told = []
    queue.on_dead(told.append)
    assert await queue.claim(owner="w", lease_seconds=30, wait_seconds=0.5) == []
    depth = await queue.depth()
    await queue.close()

    assert len(leases) == most + 20
    assert (len(dead), float(due_in)) == (most, 0.0)
    assert (len(told), depth.dead) == (20, most + 20)


def test_no_script_removes_what_is_not_settled():
    """Streams are not cut to a length, but for the bell, and no consumer goes with its entries."""
    texts = every_script(redis_scripts)
    cut = [line for text in texts for line in text.splitlines() if re.search("MAXLEN|MINID", line)]

    assert all("XTRIM" not in text and "DELCONSUMER" not in text for text in texts)
    assert all("key('bell')" in line for line in cut), cut


async def test_a_task_of_a_dead_worker_comes_back_on_a_quiet_queue(broker):
    """Nothing else comes, and whoever waits gets it when the lease is over; then the next one."""
    url = address(broker)
    queues = [open_queue(url) for _ in range(3)]
    await queues[0].put(Ticket(id="a", body=b"1"))
    waits = asyncio.get_running_loop().time
    taken = []
    for number, queue in enumerate(queues):  # each of them goes silent with it
        began = waits()
        [lease] = await queue.claim(owner=f"w{number}", lease_seconds=0.5, wait_seconds=20)
        taken.append((lease.deliveries, waits() - began < 10))
    for queue in queues:
        await queue.close()

    assert taken == [(1, True), (2, True), (3, True)]


async def test_a_key_of_another_kind_is_named(broker):
    """By a queue that is opened, and by one that is open when somebody puts it there."""
    url = address(broker)
    stream = url.partition("prefix=")[2] + "tasks"
    queue = open_queue(url)
    native(broker, "LPUSH", stream, "{}")
    native(broker, "SCRIPT", "FLUSH")  # whether the server knows the script or not
    with pytest.raises(QueueUnavailable, match=f"the key '{stream}' holds a list") as caught:
        await queue.depth()
    with pytest.raises(QueueUnavailable, match=f"the key '{stream}' holds a list"):
        await queue.depth()
    await queue.close()
    with pytest.raises(ConfigError, match=f"the key '{stream}' holds a list"):
        open_queue(url)

    assert "put into a stream of that name, by XADD" in str(caught.value)

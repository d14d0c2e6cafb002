"""What is particular to the PostgreSQL queue: its server, addresses, tasks put in by others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace

import psycopg
import pytest

from tests.servers.postgresserver import PASSWORD, own_url, postgres_server
from tests.servers.proxy import Proxy
from tests.servers.server import free_port, program
from tests.system.processes import until
from worker.core.errors import ConfigError, QueueFull, QueueUnavailable
from worker.postgres.bells import Bells
from worker.postgres.link import PostgresLink
from worker.postgres.schema import unfit
from worker.postgres.url import settings_of
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.queues.postgres import PostgresQueue
from worker.queues.postgres_tables import QUEUE
from worker.store import open_store

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def broker():
    """A server that asks for a password."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def proxy(broker):
    """What may go silent between worker and server."""
    proxy = Proxy(broker.port)
    yield proxy
    proxy.close()


def native(broker, statement):
    """What an operator or another program types."""
    tool = program("psql", "/usr/lib/postgresql/*/bin/psql")
    command = [tool, "-h", "127.0.0.1", "-p", str(broker.port), "-U", "tests", "-qtA", "postgres"]
    done = subprocess.run(
        [*command, "-v", "ON_ERROR_STOP=1"],
        input=statement,
        env={"PGPASSWORD": PASSWORD, "PGCLIENTENCODING": "UTF8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def schema_of(url):
    """The part of the server that an address names."""
    return url.partition("schema=")[2]


def link_of(url, **settings):
    """Connections, with other settings than those of the address."""
    return PostgresLink(
        replace(settings_of(url), **settings), part=QUEUE, unavailable=QueueUnavailable
    )


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ("alter system set fsync = off", "alter system reset fsync", "set fsync = on"),
        (
            "alter role tests set synchronous_commit = off",
            "alter role tests reset synchronous_commit",
            "alter role … set synchronous_commit = on",
        ),
    ],
)
def test_a_server_that_may_lose_tasks_is_refused(broker, wrong, right, said):
    """With the reason and what to do about it, before a task is in it."""
    reload = "; select pg_reload_conf(); select pg_sleep(0.1)"
    native(broker, wrong + reload)
    try:
        with pytest.raises(ConfigError, match=said):
            open_queue(own_url(broker.port))
    finally:
        native(broker, right + reload)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"server_version_num": "120022"}, "version 12; PostgreSQL 13 or a later one is needed"),
        ({"server_version_num": "130000"}, ""),
        ({"server_version_num": "180001"}, ""),
        ({"fsync": "off"}, "set fsync = on"),
        ({"full_page_writes": "off"}, "set full_page_writes = on"),
        ({"synchronous_commit": "off"}, "set synchronous_commit = on"),
        ({"synchronous_commit": "remote_apply"}, ""),
        ({"default_transaction_isolation": "serializable"}, "set default_transaction_isolation ="),
        ({"in_recovery": "true"}, "name its primary"),
    ],
)
def test_what_a_server_has_to_be_like(setting, said):
    """Each reason for a refusal by itself, with what to do; what only differs is let pass."""
    sound = {"server_version_num": "150007", "fsync": "on", "in_recovery": "false"}
    wrong = unfit(sound | setting)

    assert said in wrong
    assert bool(said) is bool(wrong)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("tests:", "wrong-user:"), "password authentication failed"),
        (("/postgres?", "/wrong-database?"), 'database "wrong-database" does not exist'),
        (("p%40ss", "wrong-secret"), "password authentication failed"),
    ],
)
def test_whoever_is_let_in_by_nobody(broker, change, said):
    """The address of the server, what it says, and no secret."""
    with pytest.raises(ConfigError, match="lets nobody in") as caught:
        open_queue(own_url(broker.port).replace(*change))

    assert said in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://localhost/x?timeout=3", "'timeout' is no option"),
        ("postgresql://localhost/x?schema=Über", "no name of a schema"),
        ("postgresql://localhost:abc/x", "no address of a PostgreSQL database"),
        ("postgresql://u:hidden/secret@localhost/x", "in a password as %40 %3A %2F"),
        ("postgresql://u:hidden?secret=1@localhost/x", "in a password as %40 %3A %2F"),
        ("postgresql://[u:hidden@localhost/x", "no address of a PostgreSQL database"),
        ("postgres:localhost", "no address of a PostgreSQL database"),
    ],
)
def test_an_address_that_cannot_be_read(url, said):
    """Which part is wrong, how it is written, and nothing that may be a password."""
    with pytest.raises(ConfigError) as caught:
        open_queue(url)

    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_server_that_is_not_there_is_an_outage():
    """It may come later: the queue opens, and each call says what is wrong."""
    queue = open_queue(f"postgres://u:hidden@127.0.0.1:{free_port()}/x")
    with pytest.raises(QueueUnavailable, match=r"PostgreSQL at 127\.0\.0\.1:") as caught:
        await queue.depth()
    await queue.close()

    assert "hidden" not in str(caught.value)


async def test_a_task_put_in_by_another_program_is_taken(broker):
    """The one statement of the README; the id is the key against doubles."""
    url = own_url(broker.port)
    queue = open_queue(url)
    for _ in range(2):
        native(
            broker,
            f"insert into {schema_of(url)}.task (id, queue, payload)"
            """ values ('t-1', 'tasks', '{"input": "现在几点?"}') on conflict do nothing;""",
        )
    first, *more = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5, limit=10)
    await queue.ack(first)
    await queue.close()

    assert (first.id, json.loads(first.body), more) == ("t-1", {"input": "现在几点?"}, [])
    assert (first.deliveries, first.priority) == (1, 0)


async def test_a_text_that_no_column_holds(broker):
    """A zero byte in an id, an owner or a reason becomes visible, and stops nobody."""
    queue = open_queue(own_url(broker.port))
    await queue.put(Ticket(id="a\0b", body=b"1"))
    [lease] = await queue.claim(owner="w\0", lease_seconds=30, wait_seconds=5)
    known = [await queue.put(Ticket(id="a\0b", body=b"1")), await queue.state("a\0b")]
    await queue.dead_letter(lease, reason="broken \0 text")
    [letter] = await queue.dead()
    await queue.close()

    assert known == [False, "leased"]
    assert (letter.id, letter.reason) == ("a\\x00b", "broken \\x00 text")


async def test_a_role_with_too_few_rights(broker):
    """What its owner has to type is said, and then it works."""
    url = own_url(broker.port).replace("//tests:", "//poor:")
    native(broker, f"create role poor login password $${PASSWORD}$$")
    with pytest.raises(ConfigError, match="too few rights") as caught:
        open_queue(url)
    native(broker, str(caught.value).partition("as its owner: ")[2])
    queue = open_queue(url)
    put = await queue.put(Ticket(id="a", body=b"1"))
    await queue.close()

    assert put is True


async def test_tables_of_a_later_version_are_left_alone(broker):
    """Nothing is put in that a later version might not understand."""
    url = own_url(broker.port)
    await open_queue(url).close()
    native(broker, f"update {schema_of(url)}.versions set version = 99")

    with pytest.raises(ConfigError, match="run that later version"):
        open_queue(url)


async def test_many_that_come_at_once_to_an_empty_database(broker):
    """One makes the tables, and nobody fails of it."""
    url = own_url(broker.port)
    queues = await asyncio.gather(*[asyncio.to_thread(open_queue, url) for _ in range(8)])
    put = [await queue.put(Ticket(id="a", body=b"1")) for queue in queues]
    for queue in queues:
        await queue.close()

    assert put == [True, *[False] * 7]


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


class Deaf(PostgresLink):
    """Connections that end between a statement's commit and its reply, while `is_deaf`."""

    is_deaf = False

    async def _execute(self, connection, statement, values):
        cursor = await super()._execute(connection, statement, values)
        if self.is_deaf:
            await connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return cursor


async def test_a_reply_that_gets_lost_loses_no_task_and_makes_no_double(broker):
    """What was done is found done: a put is known, a lease runs out, an ack is not refused."""
    moved = 0.0
    settings = replace(settings_of(own_url(broker.port)), shift=lambda: moved)
    link = Deaf(settings, part=QUEUE, unavailable=QueueUnavailable)
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


async def test_many_puts_at_once_do_not_overfill_a_queue(broker):
    """Each counts before it is let in, with what is under way; afterwards there is room again."""
    queue = open_queue(own_url(broker.port), depth_max=10)
    puts = [queue.put(Ticket(id=f"t-{number}", body=b"1")) for number in range(40)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    full = [outcome for outcome in outcomes if isinstance(outcome, QueueFull)]
    depth = await queue.depth()
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.ack(lease)
    later = await queue.put(Ticket(id="later", body=b"1"))
    await queue.close()

    assert (len(full), depth.ready, later) == (30, 10, True)


async def test_a_restarted_server_fails_no_call(broker):
    """Connections that ended while they were at rest are not used again."""
    queue = open_queue(own_url(broker.port))
    await queue.put(Ticket(id="a", body=b"1"))
    await asyncio.gather(*[queue.depth() for _ in range(6)])  # as many connections
    broker.stop()
    broker.start()
    depths = await asyncio.gather(*[queue.depth() for _ in range(6)])
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.close()

    assert [depth.ready for depth in depths] == [1] * 6
    assert lease.id == "a"


async def test_a_notification_wakes_a_waiting_claim(broker):
    """Also where the next look is far away, and after the connection that listens was lost."""
    url = own_url(broker.port)
    link = link_of(url)
    bells = Bells(link, deaf_seconds=60)
    queue, other = PostgresQueue(link, bells=bells), open_queue(url)
    for task_id in ("a", "b"):
        claim = asyncio.create_task(queue.claim(owner="w", lease_seconds=30, wait_seconds=60))
        async with asyncio.timeout(10):
            await until(lambda: int(native(broker, LISTENING)), within=10, what="a listener")
            await other.put(Ticket(id=task_id, body=b"1"))
            [lease] = await claim
        native(broker, LISTENING.replace("count(*)", "pg_terminate_backend(pid, 5000)"))
        assert lease.id == task_id
    await bells.close()
    await queue.close()
    await other.close()


LISTENING = (
    "select count(*) from pg_stat_activity where application_name = 'loopworker'"
    " and query in ('select 1') or query like 'listen %'"
)


async def test_close_leaves_no_connection(broker):
    """What was opened is gone when the queue is."""
    queue = open_queue(own_url(broker.port))
    claims = [queue.claim(owner="w", lease_seconds=30, wait_seconds=0.1) for _ in range(12)]
    await asyncio.gather(*claims)
    await queue.close()
    await until(lambda: not int(native(broker, OURS)), within=10, what="no connection left")


OURS = "select count(*) from pg_stat_activity where application_name = 'loopworker'"


def test_a_missing_driver_names_the_extra(monkeypatch):
    """What to install, not a traceback."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for module in ("worker.postgres.link", "worker.postgres.url"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'loopworker\[postgresql\]'"):
        open_queue("postgresql://localhost/")


def test_the_store_is_named_apart():
    """Journal and results do not lie there yet, and the error says where they can."""
    with pytest.raises(ConfigError, match="LOOPWORKER_STORE_URL=sqlite:"):
        open_store("postgresql://localhost/x")

"""What is particular to the PostgreSQL queue: its server, addresses, tasks put in by others."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import pytest

from tests.queues.postgresrig import link_of, native, schema_of
from tests.servers.postgresserver import PASSWORD, own_url
from tests.servers.server import free_port
from worker.core.errors import ConfigError, QueueFull, QueueUnavailable
from worker.postgres.schema import unfit
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.queues.postgres import BURIED_MAX, PostgresQueue
from worker.store import open_store

pytestmark = pytest.mark.system


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
def test_a_server_that_may_lose_tasks_is_refused(postgres, wrong, right, said):
    """With the reason and what to do about it, before a task is in it."""
    reload = "; select pg_reload_conf(); select pg_sleep(0.1)"
    native(postgres, wrong + reload)
    try:
        with pytest.raises(ConfigError, match=said):
            open_queue(own_url(postgres.port))
    finally:
        native(postgres, right + reload)


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
def test_whoever_is_let_in_by_nobody(postgres, change, said):
    """The address of the server, what it says, and no secret."""
    with pytest.raises(ConfigError, match="lets nobody in") as caught:
        open_queue(own_url(postgres.port).replace(*change))

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


async def test_a_task_put_in_by_another_program_is_taken(postgres):
    """The one statement of the README; the id is the key against doubles."""
    url = own_url(postgres.port)
    queue = open_queue(url)
    for _ in range(2):
        native(
            postgres,
            f"insert into {schema_of(url)}.task (id, queue, payload)"
            """ values ('t-1', 'tasks', '{"input": "现在几点?"}') on conflict do nothing;""",
        )
    first, *more = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5, limit=10)
    await queue.ack(first)
    await queue.close()

    assert (first.id, json.loads(first.body), more) == ("t-1", {"input": "现在几点?"}, [])
    assert (first.deliveries, first.priority) == (1, 0)


async def test_a_text_that_no_column_holds(postgres):
    """A zero byte in an id, an owner or a reason becomes visible, and stops nobody."""
    queue = open_queue(own_url(postgres.port))
    await queue.put(Ticket(id="a\0b", body=b"1"))
    [lease] = await queue.claim(owner="w\0", lease_seconds=30, wait_seconds=5)
    known = [await queue.put(Ticket(id="a\0b", body=b"1")), await queue.state("a\0b")]
    await queue.dead_letter(lease, reason="broken \0 text")
    [letter] = await queue.dead()
    await queue.close()

    assert known == [False, "leased"]
    assert (letter.id, letter.reason) == ("a\\x00b", "broken \\x00 text")


async def test_a_role_with_too_few_rights(postgres):
    """What its owner has to type is said, and then it works."""
    url = own_url(postgres.port).replace("//tests:", "//poor:")
    native(postgres, f"create role poor login password $${PASSWORD}$$")
    with pytest.raises(ConfigError, match="too few rights") as caught:
        open_queue(url)
    native(postgres, str(caught.value).partition("as its owner: ")[2])
    queue = open_queue(url)
    put = await queue.put(Ticket(id="a", body=b"1"))
    await queue.close()

    assert put is True


async def test_tables_of_a_later_version_are_left_alone(postgres):
    """Nothing is put in that a later version might not understand."""
    url = own_url(postgres.port)
    await open_queue(url).close()
    native(postgres, f"update {schema_of(url)}.versions set version = 99")

    with pytest.raises(ConfigError, match="run that later version"):
        open_queue(url)


async def test_many_that_come_at_once_to_an_empty_database(postgres):
    """One makes the tables, and nobody fails of it."""
    url = own_url(postgres.port)
    queues = await asyncio.gather(*[asyncio.to_thread(open_queue, url) for _ in range(8)])
    put = [await queue.put(Ticket(id="a", body=b"1")) for queue in queues]
    for queue in queues:
        await queue.close()

    assert put == [True, *[False] * 7]


async def test_many_puts_at_once_do_not_overfill_a_queue(postgres):
    """Each counts before it is let in, with what is under way; afterwards there is room again."""
    queue = open_queue(own_url(postgres.port), depth_max=10)
    puts = [queue.put(Ticket(id=f"t-{number}", body=b"1")) for number in range(40)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    full = [outcome for outcome in outcomes if isinstance(outcome, QueueFull)]
    depth = await queue.depth()
    [lease] = await queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    await queue.ack(lease)
    later = await queue.put(Ticket(id="later", body=b"1"))
    await queue.close()

    assert (len(full), depth.ready, later) == (30, 10, True)


@pytest.mark.parametrize("opener", [open_queue, open_store])
def test_a_missing_driver_names_the_extra(monkeypatch, opener):
    """What to install, not a traceback."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for module in ("worker.postgres.link", "worker.postgres.pool", "worker.postgres.url"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'loopworker\[postgresql\]'"):
        opener("postgresql://localhost/")


async def test_a_clock_that_is_set_back_delays_nobody(postgres):
    """What was due when it was put is claimed at once, though its time is in the future by now."""
    moved = 0.0
    queue = PostgresQueue(link_of(own_url(postgres.port), shift=lambda: moved))
    await queue.put(Ticket(id="at once", body=b"1"))
    await queue.put(Ticket(id="later", body=b"1", not_before=time.time() + 60))
    moved = -3600.0
    leases = await queue.claim(owner="w", lease_seconds=10, wait_seconds=0, limit=10)
    await queue.close()

    assert [lease.id for lease in leases] == ["at once"]


async def test_a_claim_gives_up_so_many_at_once_and_no_more(postgres):
    """A drain does not wait for all that were delivered too often; the next claim has the rest."""
    moved, told = [0.0], []
    queue = PostgresQueue(link_of(own_url(postgres.port), shift=lambda: moved[0]), max_deliveries=1)
    queue.on_dead(told.append)
    for number in range(BURIED_MAX + 5):
        await queue.put(Ticket(id=f"t-{number}", body=b"1"))
    wish = {"owner": "w", "lease_seconds": 30, "wait_seconds": 0}
    assert len(await queue.claim(limit=BURIED_MAX + 5, **wish)) == BURIED_MAX + 5
    moved[0] = 31.0
    counts = []
    for _ in range(2):
        assert await queue.claim(**wish) == []
        counts.append(len(told))
    await queue.close()

    assert counts == [BURIED_MAX, BURIED_MAX + 5]

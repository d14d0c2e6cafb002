"""Several processes on one SQLite file, and what is left when one of them is killed."""

from __future__ import annotations

import asyncio
import sqlite3
import time

import pytest

from tests.queues.conftest import Start
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.store import open_store


async def lines(child: asyncio.subprocess.Process, count: int) -> list[str]:
    """The next lines that a child says."""
    assert child.stdout is not None
    said = [(await child.stdout.readline()).decode().strip() for _ in range(count)]
    assert all(said), "the child ended early"
    return said


async def kill_and_read(child: asyncio.subprocess.Process) -> list[str]:
    """Kill -9, then read what had been said before it took effect."""
    child.kill()
    rest, _ = await child.communicate()
    # The last line may have been cut in the middle of being written.
    return rest.decode().rpartition("\n")[0].split()


@pytest.mark.slow
async def test_eight_processes_claim_two_thousand_tasks(url: str, start: Start) -> None:
    """Each task is claimed by one process, none is missing, and nobody meets a locked file."""
    queue = open_queue(url + "?synchronous=off")
    names = {f"t{number}" for number in range(2000)}
    await asyncio.gather(*[queue.put(Ticket(id=name, body=b"x" * 500)) for name in names])
    await queue.close()

    children = [await start("claim", f"w{number}") for number in range(8)]
    said = await asyncio.gather(*[child.communicate() for child in children])

    assert [
        (child.returncode, errors) for child, (_, errors) in zip(children, said, strict=True)
    ] == [(0, b"")] * 8
    claimed = [name for out, _ in said for name in out.decode().split()]
    assert len(claimed) == 2000
    assert set(claimed) == names


async def test_many_processes_create_the_file(url: str, start: Start) -> None:
    """Processes that open a new file at the same moment all get to work in it."""
    children = [await start("put-one", f"t{number}") for number in range(6)]
    said = await asyncio.gather(*[child.communicate() for child in children])

    assert said == [(b"True\n", b"")] * 6


async def test_killed_inside_a_write_transaction(url: str, start: Start) -> None:
    """The lock of a dead process is free at once, and nothing of its half write is seen."""
    child = await start("hang", "half")
    assert await lines(child, 1) == ["inside"]
    await kill_and_read(child)

    queue = open_queue(url)
    began = time.monotonic()
    assert await queue.put(Ticket(id="half", body=b"whole")) is True
    assert time.monotonic() - began < 5
    (lease,) = await queue.claim(owner="w", lease_seconds=5, wait_seconds=1, limit=5)
    assert lease.body == b"whole"
    await queue.close()


async def test_killed_while_putting(url: str, start: Start) -> None:
    """Every put that had returned is in the queue after kill -9, whole."""
    child = await start("put", "t")
    said = await lines(child, 25) + await kill_and_read(child)

    queue = open_queue(url)
    leases = await queue.claim(owner="w", lease_seconds=5, wait_seconds=1, limit=10_000)
    await queue.close()
    assert {lease.id for lease in leases} >= set(said)
    assert {lease.body for lease in leases} == {b"x" * 2000}


async def test_j03_killed_while_appending(url: str, start: Start) -> None:
    """Every append that had returned is in the journal after kill -9, in order, without a gap."""
    child = await start("append", "t")
    said = await lines(child, 25) + await kill_and_read(child)

    store = open_store(url)
    view = await store.view("t")
    await store.close()
    assert view is not None
    numbers = [int(event["data"]["at"]) for event in view.events]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= len(said)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_a_put_of_another_process_wakes_a_claim(url: str, start: Start) -> None:
    """A claim that waits sees what another process puts long before its wait is over."""
    queue = open_queue(url)
    claim = asyncio.create_task(queue.claim(owner="w", lease_seconds=5, wait_seconds=50))
    child = await start("put-one", "t")
    await lines(child, 1)
    began = time.monotonic()

    assert [lease.id for lease in await claim] == ["t"]
    assert time.monotonic() - began < 5
    await queue.close()

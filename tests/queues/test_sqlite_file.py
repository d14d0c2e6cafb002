"""What is particular to the SQLite file: full, locked, pinned, flat, shared, closed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from tests.queues.sqliterig import Rig
from worker.core.errors import QueueFull, QueueUnavailable, StoreUnavailable
from worker.core.events import NoteAdded
from worker.core.task import Result
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.store import open_store


async def one_life(rig: Rig, name: str) -> None:
    """A task from put to ack, with a journal of three appends."""
    await rig.queue.put(Ticket(id=name, body=b"x" * 300))
    (lease,) = await rig.queue.claim(owner="w", lease_seconds=30, wait_seconds=5)
    run = (await rig.store.open(lease.id, owner="w", lease_seconds=30)).run
    assert run is not None
    for number in range(3):
        await rig.store.append(run, [NoteAdded(float(number), "test", "y" * 1000)])
    await rig.store.finish(run, [], Result(task_id=lease.id, status="completed"))
    await rig.queue.ack(lease)


# --- full ------------------------------------------------------------------------------------


async def test_full_file_refuses_puts(tmp_path: Path) -> None:
    """A full file refuses what is new, keeps what it has, and goes on with the work in hand."""
    rig = Rig(tmp_path, page_max=60)
    put = 0
    with pytest.raises(QueueFull) as caught:
        while True:
            await rig.queue.put(Ticket(id=f"t{put}", body=b"x" * 3000))
            put += 1

    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert put > 10
    leases = await rig.queue.claim(owner="w", lease_seconds=30, wait_seconds=0, limit=1000)
    assert [lease.id for lease in leases] == [f"t{number}" for number in range(put)]
    for lease in leases:
        await rig.queue.ack(lease)
    assert await rig.queue.prune(older_than_seconds=0) == put
    assert await rig.queue.put(Ticket(id="after", body=b"x" * 3000)) is True
    await rig.close()


async def test_full_file_refuses_appends(tmp_path: Path) -> None:
    """An append to a full file writes nothing of its batch, and works once there is room."""
    rig = Rig(tmp_path, page_max=60)
    run = (await rig.store.open("t", owner="w", lease_seconds=30)).run
    assert run is not None
    big = [NoteAdded(1.0, "test", "x" * 1_000_000), NoteAdded(2.0, "test", "y")]

    with pytest.raises(StoreUnavailable) as caught:
        await rig.store.append(run, big)
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert run.next_seq == 0
    await rig.store.append(run, big[1:])
    await rig.close()

    roomy = Rig(tmp_path)
    await roomy.store.append(run, big)
    view = await roomy.store.view("t")
    assert view is not None
    assert [event["data"]["at"] for event in view.events] == [2.0, 1.0, 2.0]
    await roomy.close()


async def test_one_too_big_spares_its_neighbours(tmp_path: Path) -> None:
    """Of puts that share a transaction, only the one that does not fit is refused."""
    rig = Rig(tmp_path, page_max=60)
    sizes = [10, 10, 1_000_000, 10, 10]
    puts = [rig.queue.put(Ticket(id=f"t{n}", body=b"x" * s)) for n, s in enumerate(sizes)]

    outcomes = await asyncio.gather(*puts, return_exceptions=True)

    assert [isinstance(outcome, QueueFull) for outcome in outcomes] == [size > 10 for size in sizes]
    assert (await rig.queue.depth()).ready == 4
    await rig.close()


async def test_a_failure_of_one_kind_spares_the_others(tmp_path: Path) -> None:
    """A put that does not fit costs neither the append nor the result that shared its commit."""
    rig = Rig(tmp_path, page_max=60)
    run = (await rig.store.open("t", owner="w", lease_seconds=30)).run
    assert run is not None

    outcomes = await asyncio.gather(
        rig.store.append(run, [NoteAdded(1.0, "test", "x")]),
        rig.queue.put(Ticket(id="big", body=b"x" * 1_000_000)),
        rig.store.put_result(Result(task_id="u", status="rejected")),
        return_exceptions=True,
    )

    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == [None, QueueFull, True]
    view = await rig.store.view("t")
    assert view is not None and len(view.events) == 1
    assert await rig.queue.state("big") is None
    await rig.close()


# --- locked ----------------------------------------------------------------------------------


@pytest.mark.timing
async def test_the_event_loop_goes_on_while_the_file_is_locked(tmp_path: Path) -> None:
    """While another process holds the write lock, the loop ticks and the write waits its turn."""
    rig = Rig(tmp_path)
    rude = sqlite3.connect(rig.path, isolation_level=None, check_same_thread=False)
    rude.execute("begin immediate")
    threading.Timer(1.0, lambda: rude.execute("rollback")).start()
    put = asyncio.create_task(rig.queue.put(Ticket(id="t", body=b"1")))
    lags = []
    began = last = time.monotonic()
    while not put.done():
        await asyncio.sleep(0.01)
        lags.append(time.monotonic() - last)
        last = time.monotonic()

    assert await put is True
    assert last - began > 0.9
    assert sorted(lags)[len(lags) * 9 // 10] < 0.05
    assert max(lags) < 0.4
    rude.close()
    await rig.close()


async def test_locked_for_too_long(tmp_path: Path) -> None:
    """A lock that nobody gives back ends as unavailable, with the driver's error as its cause."""
    rig = Rig(tmp_path, busy_seconds=0.1)
    rude = sqlite3.connect(rig.path, isolation_level=None)
    rude.execute("begin immediate")

    with pytest.raises(QueueUnavailable) as caught:
        await rig.queue.put(Ticket(id="t", body=b"1"))
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    rude.execute("rollback")
    rude.close()
    assert await rig.queue.put(Ticket(id="t", body=b"1")) is True
    await rig.close()


# --- size ------------------------------------------------------------------------------------


async def test_the_log_shrinks_after_a_reader_has_left(rig: Rig) -> None:
    """A reader that pins the log lets it grow; once it has left, an idle file has none."""
    reader = sqlite3.connect(rig.path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from task").fetchone()
    for number in range(20):
        await rig.queue.put(Ticket(id=f"t{number}", body=b"x" * 100_000))
    assert rig.wal_bytes() > 1_000_000

    reader.execute("commit")
    reader.close()
    async with asyncio.timeout(20):
        while rig.wal_bytes() > 0:  # noqa: ASYNC110  (a file's size has no event)
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_retention_zero_stays_flat(rig: Rig) -> None:
    """20,000 tasks that are pruned at once leave file, log and descriptors as 2,000 did."""
    sizes = []
    for turn in range(10):
        for start in range(0, 2000, 100):
            await asyncio.gather(*[one_life(rig, f"{turn}-{start + n}") for n in range(100)])
            await rig.queue.prune(older_than_seconds=0)
            await rig.store.prune(older_than_seconds=0)
        sizes.append((os.stat(rig.path).st_size, rig.wal_bytes(), len(os.listdir("/proc/self/fd"))))

    first, last = sizes[0], sizes[-1]
    assert last[0] <= max(first[0] * 1.2, 8_000_000)
    assert last[1] <= 70_000_000
    assert last[2] <= first[2]
    assert await rig.store.recent() == []


# --- opening and closing -----------------------------------------------------------------------


async def test_queue_and_store_share_the_file(tmp_path: Path) -> None:
    """Opened by one URL they have one writer; when the last is closed, no thread is left."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    queue, store = open_queue(url), open_store(url)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("sqlite-writer") == 1
    await queue.put(Ticket(id="t", body=b"1"))

    await queue.close()
    await store.put_result(Result(task_id="t", status="rejected"))
    await store.close()

    assert "sqlite-writer" not in [thread.name for thread in threading.enumerate()]
    assert sorted(os.listdir(tmp_path)) == ["tasks.db"]

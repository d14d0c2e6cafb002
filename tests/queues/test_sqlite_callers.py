"""Those who call into the SQLite file: cancelled, waiting, many at once, from elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.queues.sqliterig import Rig
from worker.core.errors import SessionBusy
from worker.queues import sqlite
from worker.queues.port import Ticket
from worker.queues.sqlite import SqliteQueue
from worker.store.port import SessionClaim
from worker.store.sqlite import SqliteStore


async def test_a_storm_of_cancellations(rig: Rig) -> None:
    """A thousand cancelled writes are each there or not, and the file works on."""
    for turn in range(200):
        writes = [
            asyncio.create_task(rig.queue.put(Ticket(id=f"{turn}-{n}", body=b"1")))
            for n in range(5)
        ]
        for _ in range(turn % 10):
            await asyncio.sleep(0)
        for write in writes[turn % 2 :]:
            write.cancel()
        await asyncio.wait(writes)

    known = [await rig.queue.state(f"{turn}-{n}") for turn in range(200) for n in range(5)]
    depth = await rig.queue.depth()
    assert depth.ready == sum(state is not None for state in known)
    assert depth.ready >= 100  # those that were not cancelled
    assert await rig.queue.put(Ticket(id="after", body=b"1")) is True


async def test_cancelled_claims_are_handed_back_at_once(rig: Rig) -> None:
    """What a cancelled claim had got is ready again without waiting for the lease, uncounted."""
    for number in range(50):
        await rig.queue.put(Ticket(id=f"t{number}", body=b"1"))
    for turn in range(100):
        claim = asyncio.create_task(
            rig.queue.claim(owner="w", lease_seconds=900, wait_seconds=0, limit=50)
        )
        for _ in range(turn % 10):
            await asyncio.sleep(0)
        claim.cancel()
        await asyncio.wait([claim])
        for lease in [] if claim.cancelled() else claim.result():
            await rig.queue.nack(lease, delay_seconds=0, counted=False, reason="too late")

    leases = []
    while len(leases) < 50:
        got = await rig.queue.claim(owner="w", lease_seconds=900, wait_seconds=10, limit=50)
        assert got, "some task is still leased to a claim that was cancelled"
        leases += got
    assert {lease.deliveries for lease in leases} == {1}


async def test_the_writer_closes_the_file_last(tmp_path: Path) -> None:
    """It waits for a read that is under way, or each of both would leave the log to the other."""
    before = threading.enumerate()
    rig = Rig(tmp_path)
    (writer,) = (t for t in threading.enumerate() if t not in before and "writer" in t.name)
    is_closing = threading.Event()

    def read(connection: sqlite3.Connection) -> bool:
        assert is_closing.wait(10)
        writer.join(0.05)
        return writer.is_alive()

    await rig.queue.put(Ticket(id="t", body=b"1"))
    reading = rig.file.read(read)
    closing = asyncio.create_task(rig.close())
    while rig.file.users:  # noqa: ASYNC110  (there is no signal before the file is closed)
        await asyncio.sleep(0)
    is_closing.set()
    await closing

    assert await reading is True
    assert os.listdir(tmp_path) == ["tasks.db"]


async def test_a_claim_cancelled_with_its_outcome_in_hand(rig: Rig) -> None:
    """Cancelled between the commit and its own next step, a claim hands back what it got."""
    rig.file.at_once = False
    await rig.queue.put(Ticket(id="t", body=b"1"))
    claim = asyncio.create_task(rig.queue.claim(owner="w", lease_seconds=900, wait_seconds=0))
    await asyncio.sleep(0)  # the claim has asked
    time.sleep(0.2)  # noqa: ASYNC251  (the writer answers while this loop stands still)
    asyncio.get_running_loop().call_soon(claim.cancel)  # runs after the answer, before the claim
    await asyncio.wait([claim])
    assert claim.cancelled()

    (lease,) = await rig.queue.claim(owner="w", lease_seconds=900, wait_seconds=10)
    assert (lease.id, lease.deliveries, lease.handings) == ("t", 1, 2)


class HaltingClock:
    """A clock that keeps whoever asks it waiting until it may go on."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> float:
        """Tell the time, when it is time."""
        self.asked.set()
        assert self.go_on.wait(10)
        return time.time()

    async def cancel(self, call: asyncio.Task[Any]) -> None:
        """Cancel a call while its write waits for this clock; it ends after the write."""
        await asyncio.to_thread(self.asked.wait, 10)
        call.cancel()
        await asyncio.sleep(0)
        assert not call.done()
        self.go_on.set()
        await asyncio.wait([call])
        assert call.cancelled()


def seen_by_others(rig: Rig, statement: str) -> Any:
    """What another process would find at this very moment."""
    with contextlib.closing(sqlite3.connect(rig.file.settings.path)) as other:
        return other.execute(statement).fetchone()


async def test_a_claim_cancelled_while_it_is_written(rig: Rig) -> None:
    """Cancelled while it is written, a claim hands back what it has got, and tells of its dead."""
    rig.file.at_once = False
    clock = HaltingClock()
    await rig.queue.put(Ticket(id="poison", body=b"1"))
    await rig.queue.claim(owner="dead", lease_seconds=0, wait_seconds=0)
    await rig.queue.put(Ticket(id="t", body=b"1"))
    slow, told = SqliteQueue(rig.file.again(), clock=clock, max_deliveries=1), list[str]()
    slow.on_dead(told.append)
    claim = asyncio.create_task(slow.claim(owner="w", lease_seconds=900, wait_seconds=0))
    await clock.cancel(claim)

    assert seen_by_others(rig, "select state from task where id = 't'") == ("ready",)
    (lease,) = await rig.queue.claim(owner="w", lease_seconds=900, wait_seconds=10)
    assert (lease.id, lease.deliveries, lease.handings) == ("t", 1, 2)
    assert told == ["poison"]
    await slow.close()


async def test_an_open_cancelled_while_it_is_written(rig: Rig) -> None:
    """Nobody waits for the lease of an open that nobody waits for; the run keeps its session."""
    rig.file.at_once = False
    clock, claim = HaltingClock(), SessionClaim("s")
    slow = SqliteStore(rig.file.again(), clock=clock)
    opening = asyncio.create_task(slow.open("t", owner="w", lease_seconds=900, session=claim))
    await clock.cancel(opening)

    assert seen_by_others(rig, "select state, epoch from run") == ("released", 1)
    with pytest.raises(SessionBusy):
        await rig.store.open("u", owner="x", lease_seconds=5, session=claim)
    opened = await rig.store.open("t", owner="x", lease_seconds=5, session=claim)
    assert opened.run is not None
    assert (opened.run.epoch, opened.taken_over) == (2, False)
    await slow.close()


@pytest.mark.parametrize("how", ["put", "wake"])
async def test_a_task_of_this_process_wakes_a_claim(rig: Rig, how: str) -> None:
    """A waiting claim of another queue object on the same file is woken, not left to poll."""
    other = SqliteQueue(rig.file.again())
    if how == "wake":
        await rig.queue.put(Ticket(id="t", body=b"1"))
        (lease,) = await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=0)
        await rig.queue.nack(lease, delay_seconds=3600, counted=False, reason="waits")
    claim = asyncio.create_task(other.claim(owner="w", lease_seconds=5, wait_seconds=50))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    if how == "wake":
        await rig.queue.wake("t")
    else:
        await rig.queue.put(Ticket(id="t", body=b"1"))

    assert [lease.id for lease in await claim] == ["t"]
    assert time.monotonic() - began < 5
    await other.close()


async def test_what_fails_half_way_is_undone(rig: Rig) -> None:
    """A write that raises after writing leaves nothing, and its companions are kept."""
    statement = "insert into task (id, queue, payload) values (?, 'tasks', 'x')"

    def half(connection: sqlite3.Connection, arguments: list[Any]) -> list[Any]:
        connection.executemany(statement, [(argument,) for argument in arguments])
        if "bad" in arguments:
            raise ValueError("half way")
        return [None] * len(arguments)

    outcomes = await asyncio.gather(
        rig.queue.put(Ticket(id="kept", body=b"1")),
        *[rig.file.write(half, name) for name in ("good", "bad", "better")],
        return_exceptions=True,
    )

    assert [type(outcome) for outcome in outcomes] == [bool, type(None), ValueError, type(None)]
    states = [await rig.queue.state(name) for name in ("kept", "good", "bad", "better")]
    assert states == ["ready", "ready", None, "ready"]


@pytest.mark.parametrize(
    ("value", "body"),
    [
        ("cast(x'636166e9' as text)", b"caf\xe9"),
        ("'café'", "café".encode()),
        ("7", b"7"),
        ("1.5", b"1.5"),
    ],
    ids=["latin-1", "text", "integer", "real"],
)
async def test_whatever_a_shell_inserts_is_handed_out_as_bytes(
    rig: Rig, value: str, body: bytes
) -> None:
    """A row of any type, or in another encoding, is a task like others and stops no claim."""
    with contextlib.closing(sqlite3.connect(rig.path)) as shell:
        row = f"(cast(x'f1' as text), 'tasks', {value}), ('next', 'tasks', 'x')"
        shell.execute(f"insert into task (id, queue, payload) values {row}")
        shell.commit()
    odd, following = await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=1, limit=2)
    await rig.queue.dead_letter(odd, reason="odd")
    await rig.queue.ack(following)

    assert (odd.id, odd.body, following.id) == ("\\xf1", body, "next")
    assert [letter.body for letter in await rig.queue.dead()] == [body]


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("handings", "9223372036854775807"),
        ("lapses, state, lease_until, owner", "9223372036854775807, 'leased', 1, 'gone'"),
        ("history, state, lease_until, owner", "'not JSON', 'leased', 1, 'gone'"),
        ("history", "'{}'"),
    ],
)
async def test_whatever_a_shell_writes_into_the_counts_stops_no_claim(
    rig: Rig, columns: str, values: str
) -> None:
    """Such a row is handed out, noted, given up and tried again like others."""
    with contextlib.closing(sqlite3.connect(rig.path)) as shell:
        shell.execute(
            f"insert into task (id, queue, payload, {columns}) values ('odd', 'tasks', 'x', {values})"
        )
        shell.commit()
    await rig.queue.put(Ticket(id="next", body=b"1"))
    taken = await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=1, limit=2)
    taken += await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=0, limit=2)
    (odd,) = [each for each in taken if each.id == "odd"]
    await rig.queue.nack(odd, delay_seconds=0, counted=True, reason="later")
    (again,) = await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=1)
    await rig.queue.dead_letter(again, reason="odd")
    (letter,) = await rig.queue.dead()

    assert {each.id for each in taken} == {"odd", "next"}
    assert [line.rpartition(": ")[2] for line in letter.history][-2:] == ["later", "odd"]
    assert await rig.queue.redrive("odd")


async def test_count_beyond_all_bounds_is_given_up_at_once(rig: Rig) -> None:
    """A row that claims to have been delivered for ever goes to the dead letters, the rest on."""
    with contextlib.closing(sqlite3.connect(rig.path)) as shell:
        columns, row = (
            "(id, queue, payload, deliveries)",
            "('odd', 'tasks', 'x', 9223372036854775807)",
        )
        shell.execute(f"insert into task {columns} values {row}")
        shell.commit()
    await rig.queue.put(Ticket(id="next", body=b"1"))
    (following,) = await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=1, limit=2)
    (letter,) = await rig.queue.dead()

    assert (following.id, letter.id) == ("next", "odd")


async def test_writes_of_many_share_a_commit(rig: Rig) -> None:
    """Two hundred puts at once cost a handful of transactions, not two hundred."""
    before = rig.file.commits
    rude = sqlite3.connect(rig.path, isolation_level=None)
    rude.execute("begin immediate")  # the first write waits for this, and the others gather
    tickets = [Ticket(id=f"t{n}", body=b"1") for n in range(200)]
    puts = [asyncio.create_task(rig.queue.put(ticket)) for ticket in tickets]
    await asyncio.sleep(0)  # each has handed its write over by now
    rude.execute("rollback")
    rude.close()
    await asyncio.gather(*puts)

    assert rig.file.commits - before <= 5


async def test_an_idle_claim_costs_next_to_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that waits for tasks asks ten times a second for a number, and writes nothing."""
    probes, version = [], rig.file.version

    def counted() -> asyncio.Future[int]:
        probes.append(1)
        return version()

    monkeypatch.setattr(rig.file, "version", counted)
    before = rig.file.commits
    await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=1.5)

    assert 1 <= len(probes) <= 16
    assert rig.file.commits - before <= 3


@pytest.mark.timing
async def test_an_idle_claim_uses_next_to_no_cpu(rig: Rig) -> None:
    """A worker that waits for tasks does ten looks a second, and each costs a thread's turn or two.

    Held against as many bare turns of a thread: what one costs, is the machine's to say.
    """
    await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=0)
    used = time.process_time()
    for _ in range(20):
        await asyncio.sleep(0.1)
        await asyncio.to_thread(time.monotonic)
    turns, used = time.process_time() - used, time.process_time()
    await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=2)

    assert time.process_time() - used < 4 * turns + 0.01


async def test_a_delayed_task_wakes_a_waiting_claim(rig: Rig) -> None:
    """A claim that waits gets a task when it falls due, not at the end of its wait."""
    await rig.queue.put(Ticket(id="t", body=b"1", not_before=time.time() + 0.3))
    began = time.monotonic()

    (lease,) = await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=30)
    assert lease.id == "t"
    assert 0.2 < time.monotonic() - began < 5


async def test_heartbeats_from_another_thread(rig: Rig) -> None:
    """Leases and runs can be kept by an event loop of another thread."""
    await rig.queue.put(Ticket(id="t", body=b"1"))
    leases = await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=5)
    run = (await rig.store.open("t", owner="w", lease_seconds=5)).run
    assert run is not None

    async def beat() -> tuple[Any, Any]:
        return (
            await rig.queue.extend_many(leases, lease_seconds=60),
            await rig.store.renew_many([run], lease_seconds=60),
        )

    assert await asyncio.to_thread(lambda: asyncio.run(beat())) == ([], [])


async def test_another_program_puts_with_the_documented_statement(rig: Rig) -> None:
    """The statement in the adapter's docstring, as it stands there, puts a task."""
    text = sqlite.__doc__ or ""
    (statement,) = [line.strip() for line in text.splitlines() if "INSERT INTO" in line]
    other = sqlite3.connect(rig.path)
    other.execute(statement)
    other.commit()
    other.close()

    (lease,) = await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=5)
    assert (lease.id, lease.body) == ("my-id", '{"input": "…"}'.encode())
    assert abs(lease.enqueued_at - time.time()) < 60
    assert (lease.deliveries, lease.priority) == (1, 0)


@pytest.mark.timing
async def test_ten_thousand_hidden_tasks_do_not_slow_a_claim(rig: Rig) -> None:
    """A long back-off of very many tasks costs the fresh ones nothing."""
    later = time.time() + 3600
    await asyncio.gather(
        *[
            rig.queue.put(Ticket(id=f"d{n}", body=b"1", priority=100, not_before=later))
            for n in range(10_000)
        ]
    )
    for number in range(100):
        await rig.queue.put(Ticket(id=f"t{number}", body=b"1"))
    used = time.process_time()
    for _ in range(100):
        assert await rig.queue.claim(owner="w", lease_seconds=5, wait_seconds=0)

    assert time.process_time() - used < 0.5

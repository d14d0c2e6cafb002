"""The wrappers that tell: what telemetry hears of a queue and of a store."""

from __future__ import annotations

from typing import Any

import pytest

from worker.core.errors import (
    LeaseLost,
    QueueFull,
    QueueUnavailable,
    RunBusy,
    SessionBusy,
    StoreUnavailable,
)
from worker.core.events import NoteAdded
from worker.core.task import Result
from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.queues.port import Ticket
from worker.queues.told import TelledQueue
from worker.store.mailbox import Expectation
from worker.store.memory import MemoryBase, MemoryStore
from worker.store.port import SessionClaim, Turn
from worker.store.told import TelledStore
from worker.telemetry.signals import QueueCall, RunTakenOver, StepUpdated, StoreCall, WriteFenced
from worker.telemetry.tell import Telemetry


class Ears:
    """A listener that keeps every ended operation and every signal."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.signals: list[Any] = []

    def told(self, signal: Any) -> None:
        """Keep a signal."""
        self.signals.append(signal)

    def started(self, operation: Any) -> None:
        """Nothing is known yet."""

    def settled(self, operation: Any, token: Any) -> None:
        """Keep an operation."""
        self.calls.append(operation)


@pytest.fixture
def ears() -> Ears:
    """Somebody who listens."""
    return Ears()


async def test_queue_calls_are_told(ears: Ears) -> None:
    """Each call of the hot path is one operation with its name, queue, engine and messages."""
    queue = TelledQueue(MemoryQueue(name="jobs"), Telemetry([ears]))
    for name in "abcd":
        await queue.put(Ticket(id=name, body=b"1"))
    await queue.put(Ticket(id="a", body=b"1"))
    a, b, c, _ = await queue.claim(owner="w", lease_seconds=9, wait_seconds=0, limit=9)
    await queue.extend(a, lease_seconds=9)
    await queue.extend_many([b, c], lease_seconds=9)
    await queue.ack(a)
    await queue.nack(b, delay_seconds=1, counted=True, reason="x")
    await queue.dead_letter(c, reason="x")
    await queue.depth()

    assert [(call.name, call.messages) for call in ears.calls] == [
        *[("put", 1)] * 4,
        ("put", 0),
        ("claim", 4),
        ("extend", 1),
        ("extend", 2),
        ("ack", 1),
        ("nack", 1),
        ("dead_letter", 1),
    ]
    assert {(type(c), c.queue, c.system, c.error_type) for c in ears.calls} == {
        (QueueCall, "jobs", "memory", None)
    }
    assert await queue.state("d") == "leased"


async def test_queue_errors_are_told_and_pass(ears: Ears) -> None:
    """An outage, a full queue and a lost lease reach the caller, and only the first is ours."""
    broker = MemoryBroker()
    queue = TelledQueue(MemoryQueue(broker, depth_max=1), Telemetry([ears]))
    await queue.put(Ticket(id="a", body=b"1"))
    with pytest.raises(QueueFull):
        await queue.put(Ticket(id="b", body=b"1"))
    (lease,) = await queue.claim(owner="w", lease_seconds=9, wait_seconds=0)
    await queue.nack(lease, delay_seconds=0, counted=True, reason="x")
    with pytest.raises(LeaseLost):
        await queue.extend(lease, lease_seconds=9)
    broker.outage = True
    with pytest.raises(QueueUnavailable):
        await queue.claim(owner="w", lease_seconds=9, wait_seconds=0)

    failed = [(call.name, call.error_type) for call in ears.calls if call.error_type]
    assert failed == [("put", "other"), ("extend", "other"), ("claim", "connection")]
    assert "out of order" in ears.calls[-1].error


async def test_siblings_tell_too(ears: Ears) -> None:
    """The queue that a result is published to is told under its own name, and opened once."""
    queue = TelledQueue(MemoryQueue(), Telemetry([ears]))
    await queue.sibling("results").put(Ticket(id="a", body=b"1"))

    assert [(call.queue, call.name) for call in ears.calls] == [("results", "put")]
    assert queue.sibling("results") is queue.sibling("results")


async def test_store_calls_are_told(ears: Ears) -> None:
    """Each write of a run is one operation, with how many events it carried or found."""
    store = TelledStore(MemoryStore(), Telemetry([ears]))
    run = (await store.open("t", owner="w", lease_seconds=9)).run
    assert run is not None
    await store.append(run, [NoteAdded(1.0, "test", "x")] * 3)
    await store.renew(run, lease_seconds=9)
    await store.renew_many([run], lease_seconds=9)
    await store.release(run)
    run = (await store.open("t", owner="w", lease_seconds=9)).run
    assert run is not None
    await store.finish(run, [NoteAdded(1.0, "test", "x")], Result(task_id="t", status="completed"))

    assert [(call.name, call.events) for call in ears.calls] == [
        ("open", 0),
        ("append", 3),
        ("renew", 0),
        ("renew", 0),
        ("release", 0),
        ("open", 3),
        ("finish", 1),
    ]
    assert {(type(c), c.system, c.error_type) for c in ears.calls} == {(StoreCall, "memory", None)}
    assert ears.signals == []


async def test_fenced_writes_and_takeovers_are_told(ears: Ears) -> None:
    """Who takes a run over, and whose write an epoch refuses, are signals of their own."""
    base = MemoryBase(clock=lambda: clock[0])
    clock = [0.0]
    store = TelledStore(MemoryStore(base), Telemetry([ears]))
    stale = (await store.open("t", owner="w1", lease_seconds=9)).run
    assert stale is not None
    await store.append(stale, [NoteAdded(1.0, "test", "x")])
    with pytest.raises(RunBusy):
        await store.open("t", owner="w2", lease_seconds=9)
    clock[0] = 10.0
    run = (await store.open("t", owner="w2", lease_seconds=9)).run
    assert run is not None
    with pytest.raises(LeaseLost):
        await store.append(stale, [NoteAdded(1.0, "test", "x")])
    assert await store.renew_many([stale], lease_seconds=9) == [stale]
    base.outage = True
    with pytest.raises(StoreUnavailable):
        await store.append(run, [])

    assert ears.signals == [
        RunTakenOver("t", run.epoch, 1),
        WriteFenced("t", "append"),
        WriteFenced("t", "renew"),
    ]
    assert [call.error_type for call in ears.calls if call.error_type] == [
        "other",
        "other",
        "connection",
    ]


async def test_sessions_are_told(ears: Ears) -> None:
    """Whether there was a conversation, that somebody has it, and how much was saved."""
    store = TelledStore(MemoryStore(), Telemetry([ears]))
    claim = SessionClaim("s")
    turn = Turn(({"role": "user", "content": "q"},), ttl_seconds=60, bytes_max=1000)
    for name in "ab":
        run = (await store.open(name, owner="w", lease_seconds=9, session=claim)).run
        assert run is not None
        with pytest.raises(SessionBusy):
            await store.open(f"c-{name}", owner="w", lease_seconds=9, session=claim)
        result = Result(task_id=name, status="completed")
        await store.finish(run, [], result, turn=turn if name == "a" else None)
        await store.put_result(Result(task_id=f"c-{name}", status="cancelled"))

    calls = [(c.name, c.answer, c.size_bytes > 0) for c in ears.calls if c.name != "put_result"]
    assert calls == [
        ("load_session", "miss", False),
        ("lock_session", "conflict", False),
        ("save_session", None, True),
        ("load_session", None, False),
        ("lock_session", "conflict", False),
        ("finish", None, False),
    ]


async def test_a_result_without_a_run_is_told_as_the_end(ears: Ears) -> None:
    """Who waits for a task that was refused or cancelled hears of its end, once."""
    store = TelledStore(MemoryStore(), Telemetry([ears]))
    for _ in range(2):
        await store.put_result(Result(task_id="t", status="rejected"))

    assert ears.signals == [StepUpdated("t", 0, "", is_final=True)]


async def test_mail_is_told(ears: Ears) -> None:
    """What is expected, posted and taken; who only looks is not told of."""
    mail = TelledStore(MemoryStore(), Telemetry([ears])).mail
    await mail.expect(Expectation("a", "t", "c1", "job", "render", "{}", "d", 1.0, 2.0))
    await mail.post("a", b"done")
    assert [posted.body for posted in await mail.read(["a"])] == [b"done"]
    await mail.answered("t", ["a"])
    assert [expected.answered for expected in await mail.expected("t")] == [True]

    assert [call.name for call in ears.calls] == ["expect", "post", "hear"]

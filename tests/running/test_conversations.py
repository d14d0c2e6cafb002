"""Tasks of one session: one at a time, in order, each knowing what was said before."""

from __future__ import annotations

import asyncio
import time

import pytest

from worker import Task, tool
from worker.core import settlement
from worker.core.errors import ModelError
from worker.core.history import is_paired
from worker.core.limits import Status
from worker.model.scripted import answer, calls
from worker.store.port import SessionClaim
from worker.telemetry.signals import QueueCall, StoreCall, TaskSettled
from worker.testing.duplicates import duplicating

ENGINES = ["memory://", "sqlite"]


@pytest.fixture(params=ENGINES)
def engine(request, tmp_path):
    """Where tasks and conversations are kept."""
    return f"sqlite:///{tmp_path}/t.db" if request.param == "sqlite" else request.param


@tool
async def price(symbol: str) -> str:
    """Latest price of a ticker.

    Args:
        symbol: The ticker.
    """
    return f"{symbol} is 12.50"


class Gate:
    """A model that answers with the question, holds some back, and sees who is asked at once."""

    def __init__(self, *, held=()):
        self.held = {name: asyncio.Event() for name in held}
        self.asked = []
        self.now = []
        self.most = 0

    async def __call__(self, request):
        question = request.messages[-1].body["content"]
        self.asked.append(question)
        self.now.append(question)
        self.most = max(self.most, len(set(self.now)))
        if question in self.held:
            await self.held[question].wait()
        await asyncio.sleep(0)
        self.now.remove(question)
        return f"re {question}"


async def until(holds, seconds=10):
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not (value := holds()):  # noqa: ASYNC110  (some have no signal)
            await asyncio.sleep(0.002)
        return value


def said(messages):
    """The texts of questions and answers."""
    return [m["content"] for m in messages if m["role"] in ("user", "assistant") and m["content"]]


def busy(worker):
    """How often a task was told that its session is busy."""
    found = worker.ears.of(StoreCall, "settled")
    return sum(call.name == "lock_session" for call in found)


async def results(worker, names):
    """The results of tasks, in the order of their names."""
    return [await worker.result(name, wait_seconds=10) for name in names]


async def test_the_second_turn_knows_the_first(start, ask, engine):
    """Question, call, result and answer of the first task stand before the second question."""
    script = [calls(("price", {"symbol": "ACME"})), answer("it is 12.50"), answer("12.50, I said")]
    async with start(*script, tools=[price], queue_url=engine) as worker:
        await ask(worker, Task("t1", "price of ACME?", session_id="s"))
        second = await ask(worker, Task("t2", "what was it?", session_id="s"))
        sent = [message.body for message in worker.model.requests[-1].messages]
        kept = await worker.store.conversation("s")

        assert (second.answer, second.session_id) == ("12.50, I said", "s")
        roles = ["system", "user", "assistant", "tool", "assistant", "user"]
        assert [m["role"] for m in sent] == roles
        assert sent[3]["content"] == "ACME is 12.50"
        assert said(kept) == ["price of ACME?", "it is 12.50", "what was it?", "12.50, I said"]
        assert is_paired(kept)


async def test_sessions_and_tenants_know_nothing_of_each_other(start, ask, engine):
    """Another session, another tenant and a task without a session begin with an empty page."""
    async with start(otherwise="fine", queue_url=engine) as worker:
        await ask(worker, Task("t1", "a secret", session_id="s", tenant="one"))
        for number, more in enumerate(
            [{"session_id": "s"}, {"session_id": "s", "tenant": "two"}, {"tenant": "one"}]
        ):
            await ask(worker, Task(f"u{number}", "hello", **more))
        sent = [len(request.messages) for request in worker.model.requests]

        assert sent == [2, 2, 2, 2]


async def test_tasks_of_a_session_run_one_after_another(start, engine):
    """However many slots there are: never two at once, in the order in which they were put."""
    gate = Gate()
    names = [f"t{number}" for number in range(12)]
    async with start(otherwise=gate, queue_url=engine) as worker:
        for name in names:
            await worker.submit(Task(name, name, session_id="s"))
        await results(worker, names)
        kept = await worker.store.conversation("s")

        assert (gate.asked, gate.most) == (names, 1)
        assert said(kept) == [text for name in names for text in (name, f"re {name}")]
        for number, request in enumerate(worker.model.requests):
            assert len(request.messages) == 2 + 2 * number


@pytest.fixture
def patient(monkeypatch):
    """Who waits for a session never looks again by itself: only a wake brings it."""
    monkeypatch.setattr(settlement, "_BUSY_SECONDS", 60.0)
    monkeypatch.setattr(settlement, "_BUSY_SECONDS_EACH", 60.0)


async def test_waiting_costs_few_claims(start, engine, patient):
    """Who waits is parked until it is woken: two claims each, and no slot is held."""
    gate = Gate(held=["first"])
    names = [f"t{number}" for number in range(20)]
    async with start(otherwise=gate, queue_url=engine, concurrency=4) as worker:
        await worker.submit(Task("first", "first", session_id="s"))
        await until(lambda: gate.asked)
        for name in names:
            await worker.submit(Task(name, name, session_id="s"))
        await until(lambda: busy(worker) >= len(names))
        beside = await worker.submit(Task("beside", "beside"))
        await results(worker, [beside])
        await until(lambda: len(worker.consumer.held) == 1)
        gate.held["first"].set()
        await results(worker, names)
        claimed = sum(c.messages for c in worker.ears.of(QueueCall, "settled") if c.name == "claim")

        assert gate.asked == ["first", "beside", *names]
        assert claimed == 2 + 2 * len(names)
        assert busy(worker) == len(names)


async def test_who_is_not_woken_looks_again(start, engine):
    """Nobody is left who could wake it: then its delay brings it."""
    async with start(otherwise=Gate(), queue_url=engine) as worker:
        held = await worker.store.open(
            "other", owner="x", lease_seconds=9, session=SessionClaim("s")
        )
        await worker.submit(Task("t1", "t1", session_id="s"))
        await until(lambda: busy(worker) >= 2)
        await worker.store.release(held.run)

        assert (await results(worker, ["t1"]))[0].answer == "re t1"
        delays = [settled.delay_seconds for settled in worker.ears.of(TaskSettled)]
        assert delays[:2] == [0.2, 0.4]


async def test_a_task_that_is_to_be_tried_again_keeps_its_session(start, engine):
    """A later task does not overtake one that waits for its next delivery."""
    down = ModelError("down", status=Status.MODEL_UNAVAILABLE, transient=True)
    queue = {"backoff_seconds": 0.3, "poll_seconds": 0.05, "lease_seconds": 5.0}
    script = [down, answer("one"), answer("two")]
    async with start(*script, queue_url=engine, queue=queue) as worker:
        await worker.submit(Task("t1", "first", session_id="s"))
        await until(lambda: worker.model.requests)
        await worker.submit(Task("t2", "second", session_id="s"))
        first, second = await results(worker, ["t1", "t2"])

        assert (first.answer, second.answer) == ("one", "two")
        assert said(await worker.store.conversation("s")) == ["first", "one", "second", "two"]


async def test_a_dead_task_leaves_an_honest_note_and_its_redrive_an_answer(start, ask, engine):
    """A failed turn is told as unanswered; redriven, the run's new end takes its place."""
    dead = ModelError("401", status=Status.AUTH_ERROR)
    script = [dead, answer("two"), answer("one, at last")]
    async with start(*script, queue_url=engine) as worker:
        await ask(worker, Task("t1", "first", session_id="s"))
        await ask(worker, Task("t2", "second", session_id="s"))
        between = said(await worker.store.conversation("s"))
        async with asyncio.timeout(5):
            while not await worker.desk.redrive("t1"):  # noqa: ASYNC110  (no signal of it)
                await asyncio.sleep(0.001)
        again = (await results(worker, ["t1"]))[0]
        kept = said(await worker.store.conversation("s"))

        note = "[This question got no answer: auth_error.]"
        assert between == ["first", note, "second", "two"]
        assert again.answer == "one, at last"
        assert kept == ["second", "two", "first", "one, at last"]


async def test_a_deadline_passes_while_the_session_is_busy(start):
    """Who comes too late is told so at once, without having had the session."""
    gate = Gate(held=["t1"])
    async with start(otherwise=gate) as worker:
        await worker.submit(Task("t1", "t1", session_id="s"))
        await until(lambda: gate.asked)
        late = Task("t2", "t2", session_id="s", deadline=time.time() + 0.8)
        await worker.submit(late)
        result = (await results(worker, ["t2"]))[0]
        gate.held["t1"].set()
        await worker.submit(Task("t3", "t3", session_id="s"))
        await results(worker, ["t3"])

        assert (result.status, result.session_id) == ("deadline", "s")
        assert "session was busy" in result.error
        assert gate.asked == ["t1", "t3"]


async def test_who_is_cancelled_while_it_waits_holds_nobody_up(start, engine):
    """The next one behind it has its turn."""
    gate = Gate(held=["t1"])
    async with start(otherwise=gate, queue_url=engine) as worker:
        for name in ("t1", "t2", "t3"):
            await worker.submit(Task(name, name, session_id="s"))
        await until(lambda: busy(worker) >= 2)
        async with asyncio.timeout(5):
            while (await worker.desk.cancel("t2")).status != "finished":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        gate.held["t1"].set()
        outcomes = await results(worker, ["t1", "t2", "t3"])

        assert [r.status for r in outcomes] == ["completed", "cancelled", "completed"]
        assert gate.asked == ["t1", "t3"]


async def test_priority_counts_within_a_session(start, engine):
    """Of those who wait the most urgent goes first, as in the queue."""
    gate = Gate(held=["first"])
    async with start(otherwise=gate, queue_url=engine) as worker:
        await worker.submit(Task("first", "first", session_id="s"))
        await until(lambda: gate.asked)
        for name, priority in (("low", -5), ("mid", 0), ("high", 5)):
            await worker.submit(Task(name, name, session_id="s", priority=priority))
        await until(lambda: busy(worker) >= 3)
        gate.held["first"].set()
        await results(worker, ["low", "mid", "high"])

        assert gate.asked == ["first", "high", "mid", "low"]


async def test_a_conflict_costs_neither_answer_nor_turn(start, ask):
    """A save on a stale version is told, and done again behind what is there."""
    async with start(otherwise=lambda request: "fine") as worker:
        await ask(worker, Task("t1", "first", session_id="s"))
        opening = worker.store.inner.open

        async def stale(*arguments, **more):
            opened = await opening(*arguments, **more)
            opened.run.session.version -= 1
            return opened

        worker.store.inner.open = stale
        result = await ask(worker, Task("t2", "second", session_id="s"))
        saves = [
            call.error_type
            for call in worker.ears.of(StoreCall, "settled")
            if call.name == "save_session"
        ]

        assert result.status == "completed"
        assert saves == [None, "conflict", None]
        assert said(await worker.store.conversation("s")) == ["first", "fine", "second", "fine"]


async def test_duplicate_deliveries_add_one_turn(start, engine):
    """Delivered twice, a task is answered once and remembered once."""
    gate = Gate()
    names = [f"t{number}" for number in range(6)]
    async with start(otherwise=gate, queue_url=engine, running=False) as worker:
        await worker.start(claim=False)
        worker.queue.inner = duplicating(worker.queue.inner)
        working = asyncio.create_task(worker._work())
        for name in names:
            await worker.submit(Task(name, name, session_id="s"))
        await results(worker, names)
        kept = said(await worker.store.conversation("s"))
        worker.begin_drain()
        await working
        await worker.stop()

        assert kept == [text for name in names for text in (name, f"re {name}")]
        assert gate.most == 1


async def test_a_task_without_a_session_costs_nothing_more(start, ask):
    """It is told, opened and ended as ever."""
    async with start(answer("fine")) as worker:
        await ask(worker, Task("t1", "hello"))
        names = [call.name for call in worker.ears.of(StoreCall, "settled")]

        assert [name for name in names if name not in ("renew", "result")] == ["open", "finish"]


async def test_a_task_with_a_session_is_told_as_load_and_save(start, ask):
    """One read with the opening, one save with the end; the first finds nothing."""
    async with start(answer("fine"), answer("fine")) as worker:
        for name in ("t1", "t2"):
            await ask(worker, Task(name, "hello", session_id="s"))
        told = [
            (call.name, call.answer, call.size_bytes > 0)
            for call in worker.ears.of(StoreCall, "settled")
            if call.name.endswith("_session")
        ]
        page = worker.seen.metrics.render()[0].decode()

        assert told == [
            ("load_session", "miss", False),
            ("save_session", None, True),
            ("load_session", None, False),
            ("save_session", None, True),
        ]
        counted = 'loopworker_session_store_operations_total{operation="load",outcome="miss"} 1.0'
        assert counted in page


async def test_asking_goes_on_with_a_session(start, engine):
    """`ask` reads and keeps the conversation, and waits for who has it."""
    waited = []
    async with start(otherwise=Gate(), queue_url=engine) as worker:
        first = await worker.ask(Task("a1", "one", session_id="s"))
        claim = SessionClaim("s")
        held = await worker.store.open("other", owner="x", lease_seconds=9, session=claim)

        async def let_go():
            await until(lambda: waited)
            await worker.store.release(held.run)

        letting = asyncio.create_task(let_go())
        second = await worker.ask(
            Task("a2", "two", session_id="s"), waiting=lambda: waited.append(1)
        )
        await letting

        assert (first.answer, second.answer, waited) == ("re one", "re two", [1])
        assert said(await worker.store.conversation("s")) == ["one", "re one", "two", "re two"]

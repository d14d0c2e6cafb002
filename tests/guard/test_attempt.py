"""Attempts end at their time limit, whatever the tool does, and slots follow the work."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

from tests.guard.stage import Stage, Tool, call_policy, reached, until
from worker.core.errors import AttemptFailed
from worker.core.messages import Source
from worker.guard.guard import AttemptInfo, Fallback, Guard, GuardPolicy
from worker.telemetry.tell import Telemetry
from worker.testing.simclock import simulated

TRACE: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="none")


class Deaf:
    """An async tool that swallows every cancellation until it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, _info: AttemptInfo) -> str:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        return "too late"


@pytest.fixture
def guard() -> Iterator[Guard]:
    """A guard in real time, for tools in threads."""
    made = Guard("files", GuardPolicy(limit=2, queue_max=0), telemetry=Telemetry())
    yield made
    made.close()


@simulated
async def test_a_deaf_async_tool_is_left_behind_and_keeps_its_slot() -> None:
    """It is cancelled once, given the grace, then a zombie with a slot until it really ends."""
    stage = Stage(limit=1, queue_max=0, cancel_grace_seconds=0.2)
    deaf = Deaf()

    outcome = await stage.call(deaf, timeout_seconds=1)

    assert (outcome.reason, outcome.error_type) == ("timeout", "timeout")
    assert stage.loop.time() == pytest.approx(1.2)
    assert deaf.cancelled == 1
    assert (stage.guard.bulkhead.zombies, stage.guard.bulkhead.in_use) == (1, 1)
    assert (await stage.call(Tool())).reason == "bulkhead_full"

    deaf.let_go.set()
    await until(lambda: stage.guard.bulkhead.zombies == 0)

    assert stage.guard.bulkhead.in_use == 0
    assert (await stage.call(Tool("next"))).value == "next"


@simulated
async def test_a_polite_tool_that_ends_within_the_grace_is_no_zombie() -> None:
    """A tool that cleans up in 0.1 s after its time limit leaves nothing behind."""
    stage = Stage(cancel_grace_seconds=0.2)

    async def polite(_info: AttemptInfo) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)

    outcome = await stage.call(polite, timeout_seconds=1)

    assert outcome.reason == "timeout"
    assert stage.loop.time() == pytest.approx(1.1)
    assert (stage.guard.bulkhead.zombies, stage.guard.bulkhead.in_use) == (0, 0)


@simulated
async def test_cancelling_a_call_of_a_deaf_tool_takes_the_grace_only() -> None:
    """The caller gets its CancelledError after 0.2 s, though the tool goes on."""
    stage = Stage(cancel_grace_seconds=0.2)
    deaf = Deaf()
    call = asyncio.create_task(stage.call(deaf, timeout_seconds=60, deadline_seconds=60))
    await until(lambda: stage.guard.bulkhead.in_use == 1)
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])

    assert call.cancelled()
    assert stage.loop.time() == pytest.approx(0.2)
    assert stage.guard.bulkhead.zombies == 1
    deaf.let_go.set()
    await until(lambda: stage.guard.bulkhead.in_use == 0)


@simulated
async def test_cancelled_in_the_tick_of_the_timeout_is_cancelled() -> None:
    """When the time limit and the caller's cancel fall together, the caller's word counts."""
    stage = Stage(fail_max=1)
    call = asyncio.create_task(stage.call(Tool((60, "x")), timeout_seconds=1))
    stage.loop.call_at(1.0, call.cancel)
    await asyncio.wait([call])

    assert call.cancelled()
    assert stage.guard.state == "closed"


@simulated
async def test_a_tool_that_cancels_itself_has_failed() -> None:
    """CancelledError out of a tool that nobody cancelled is a failure, not our cancellation."""
    stage = Stage(fail_max=1)

    outcome = await stage.call(Tool(asyncio.CancelledError()))

    assert type(outcome.error).__name__ == "ToolSelfCancelled"
    assert outcome.source is Source.ERROR
    assert stage.guard.state == "open"


@simulated
async def test_an_outer_timeout_stays_a_timeout_of_its_owner() -> None:
    """asyncio.timeout around a guarded call raises TimeoutError there and counts nothing here."""
    stage = Stage(fail_max=1)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await stage.call(Tool((60, "x")), attempts=3)

    assert stage.guard.state == "closed"
    assert stage.heard.counted("ignored") == 1


@simulated
async def test_stop_iteration_from_an_async_tool_is_a_failure() -> None:
    """An empty iterator in the tool is not taken for success."""
    stage = Stage(fail_max=1)

    outcome = await stage.call(Tool(StopIteration()))

    assert isinstance(outcome.error, RuntimeError)
    assert stage.guard.state == "open"


async def test_a_hung_sync_tool_is_left_behind_until_it_ends(guard: Guard) -> None:
    """Its call returns at the time limit; its thread and slot stay taken until it returns."""
    let_go = threading.Event()

    outcome = await guard.call(
        lambda _info: let_go.wait(10), call_policy(timeout_seconds=0.02, deadline_seconds=1)
    )

    assert outcome.reason == "timeout"
    assert (guard.bulkhead.zombies, guard.bulkhead.in_use) == (1, 1)
    let_go.set()
    await reached(lambda: guard.bulkhead.in_use == 0)
    assert guard.bulkhead.zombies == 0


async def test_hung_sync_tools_leave_dns_alone(guard: Guard) -> None:
    """They never occupy the loop's default threads, where names are looked up."""
    let_go = threading.Event()
    policy = call_policy(timeout_seconds=0.02, deadline_seconds=1)
    await asyncio.gather(*(guard.call(lambda _i: let_go.wait(10), policy) for _ in range(2)))

    names = {thread.name for thread in threading.enumerate()}

    assert {"guard-files-1", "guard-files-2"} <= names
    assert not any(name.startswith("asyncio_") for name in names)
    assert all(t.daemon for t in threading.enumerate() if t.name.startswith("guard-"))
    let_go.set()


async def test_the_alternative_runs_though_every_thread_hangs(guard: Guard) -> None:
    """A sync alternative does not stand in line behind the tool that it stands in for."""
    let_go = threading.Event()
    policy = call_policy(
        timeout_seconds=0.02,
        deadline_seconds=1,
        fallback=Fallback(alternative=lambda info: f"other {info.arguments}"),
    )
    info = AttemptInfo(arguments="AAPL")
    outcomes = [await guard.call(lambda _i: let_go.wait(10), policy, info=info) for _ in range(3)]

    assert [outcome.value for outcome in outcomes] == ["other AAPL"] * 3
    assert [outcome.reason for outcome in outcomes] == ["timeout", "timeout", "bulkhead_full"]
    let_go.set()


class Panic(BaseException):
    """What a driver may raise that is no Exception: pyo3's panics, gevent's timeouts."""


NO_EXCEPTIONS = [SystemExit, KeyboardInterrupt, GeneratorExit, Panic]


@pytest.mark.parametrize("kind", NO_EXCEPTIONS)
@simulated
async def test_an_async_tool_cannot_end_the_loop(kind: type[BaseException]) -> None:
    """sys.exit in an async tool is a failure of that tool; its neighbour never hears of it."""
    stage = Stage(limit=2)
    neighbour = asyncio.create_task(stage.call(Tool((1, "fine"))))
    error = kind("x")

    outcome = await stage.call(Tool(error))

    assert type(outcome.error) is AttemptFailed
    assert (outcome.source, outcome.error_type) == (Source.ERROR, "internal")
    assert kind.__name__ in str(outcome.error)
    assert outcome.error.__cause__ is error
    assert stage.guard.snapshot()["consecutive_failures"] == 1
    assert (await neighbour).value == "fine"
    assert stage.guard.bulkhead.in_use == 0


async def test_what_a_thread_has_made_cannot_end_the_loop_either(guard: Guard) -> None:
    """A plain function that returns a coroutine is held to the same."""
    outcome = await guard.call(lambda info: Tool(SystemExit(3))(info), call_policy())

    assert type(outcome.error) is AttemptFailed
    assert guard.bulkhead.in_use == 0


@simulated
async def test_an_async_tool_that_leaves_while_it_is_cancelled_cannot_end_the_loop() -> None:
    """sys.exit as the answer to a time limit is seen by nobody, and the slot comes back."""
    stage = Stage(limit=1)

    async def rude(_info: AttemptInfo) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise SystemExit(3) from None

    outcome = await stage.call(rude, timeout_seconds=1)

    assert outcome.reason == "timeout"
    assert stage.guard.bulkhead.in_use == 0


@pytest.mark.parametrize("kind", NO_EXCEPTIONS)
async def test_a_thread_outlives_whatever_its_tool_raises(
    guard: Guard, kind: type[BaseException]
) -> None:
    """It is settled by name at once, not at the time limit, and its thread serves the next."""

    def tool(_info: AttemptInfo) -> None:
        raise kind("x")

    outcome = await guard.call(tool, call_policy(timeout_seconds=5))

    assert type(outcome.error) is AttemptFailed
    assert (outcome.error_type, kind.__name__ in str(outcome.error)) == ("internal", True)
    assert (guard.bulkhead.zombies, guard.bulkhead.in_use) == (0, 0)
    for _ in range(3):
        assert (await guard.call(lambda _info: "ok", call_policy())).value == "ok"
    assert guard._runner._threads is not None
    assert guard._runner._threads.started <= 2


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), KeyError("x")])
async def test_whatever_a_sync_tool_raises_is_its_failure(
    guard: Guard, error: BaseException
) -> None:
    """sys.exit in a thread, a stray StopIteration or a plain error: an outcome, no lost slot."""

    def tool(_info: AttemptInfo) -> None:
        raise error

    outcome = await guard.call(tool, call_policy())

    assert outcome.source is Source.ERROR
    assert guard.snapshot()["consecutive_failures"] == 1
    assert guard.bulkhead.in_use == 0


async def test_context_variables_reach_the_tool(guard: Guard) -> None:
    """Trace ids are there in sync and async tools, and what a tool sets stays inside."""

    def sync_tool(_info: AttemptInfo) -> str:
        seen = TRACE.get()
        TRACE.set("changed")
        return seen

    async def async_tool(info: AttemptInfo) -> str:
        return sync_tool(info)

    TRACE.set("abc")

    assert (await guard.call(sync_tool, call_policy())).value == "abc"
    assert (await guard.call(async_tool, call_policy())).value == "abc"
    assert TRACE.get() == "abc"


async def test_idle_threads_are_used_again(guard: Guard) -> None:
    """Calls one after another need one thread, not one each."""
    for _ in range(20):
        await guard.call(lambda _info: "ok", call_policy())

    assert guard._runner._threads is not None
    assert guard._runner._threads.started <= 2


async def test_cancelling_a_call_of_a_sync_tool_returns_at_once(guard: Guard) -> None:
    """The caller gets CancelledError; the slot comes back when the thread does."""
    began, let_go = threading.Event(), threading.Event()

    def tool(_info: AttemptInfo) -> None:
        began.set()
        let_go.wait(10)

    call = asyncio.create_task(guard.call(tool, call_policy()))
    await reached(began.is_set)
    call.cancel()
    await asyncio.wait([call], timeout=5)

    assert call.cancelled()
    assert guard.bulkhead.zombies == 1
    let_go.set()
    await reached(lambda: guard.bulkhead.in_use == 0)


@simulated
async def test_the_queue_is_first_come_first_served() -> None:
    """Waiting calls run in the order in which they came, never more at once than the limit."""
    stage = Stage(limit=1, queue_seconds=60)
    order: list[int] = []

    def tool(number: int) -> object:
        async def run(_info: AttemptInfo) -> None:
            order.append(number)
            await asyncio.sleep(1)

        return run

    await asyncio.gather(*(stage.call(tool(number)) for number in range(8)))

    assert order == list(range(8))
    assert stage.guard.bulkhead.in_use_peak == 1


@simulated
async def test_the_breaker_is_asked_again_when_a_slot_comes() -> None:
    """A breaker that opened while a call waited in the queue rejects it."""
    stage = Stage(limit=1, fail_max=1)
    running = asyncio.create_task(stage.call(Tool((0.4, OSError()))))
    await until(lambda: stage.guard.bulkhead.in_use == 1)
    later = Tool()

    outcome = await stage.call(later)
    await running

    assert (outcome.reason, later.calls) == ("breaker_open", 0)
    assert stage.guard.bulkhead.in_use == 0


@simulated
async def test_a_timeout_is_settled_before_its_slot_is_passed_on() -> None:
    """The next in the queue knows of the time-out that made room for it."""
    stage = Stage(limit=1, fail_max=1, queue_seconds=9)
    running = asyncio.create_task(stage.call(Tool((60, "x")), timeout_seconds=1))
    await until(lambda: stage.guard.bulkhead.in_use == 1)
    later = Tool()

    outcome = await stage.call(later)
    await running

    assert (outcome.reason, later.calls) == ("breaker_open", 0)


@simulated
async def test_waiting_for_a_slot_is_bounded() -> None:
    """Half a second in the queue and no longer; with less time left, the deadline is the reason."""
    stage = Stage(limit=1)
    running = asyncio.create_task(stage.call(Tool((2, "x"))))
    await until(lambda: stage.guard.bulkhead.in_use == 1)

    assert (await stage.call(Tool())).reason == "bulkhead_full"
    assert stage.loop.time() == pytest.approx(0.5)
    assert (await stage.call(Tool(), deadline=0.6)).reason == "deadline"
    assert stage.loop.time() == pytest.approx(0.6)
    await running

"""Public reports of broken breakers, one test each; numbers are the rows of the design page."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from pybreaker import CircuitBreakerError

from tests.guard.stage import Heard, Stage, Tool, call_policy, until
from worker.core.messages import Source
from worker.guard.admission import Admission, Permit
from worker.guard.breaker import BreakerOpen
from worker.guard.guard import Fallback, Guard, GuardPolicy, Ruling, Verdict
from worker.guard.verdict import SUCCEEDED
from worker.telemetry.signals import BreakerChanged, BreakerCounted
from worker.telemetry.tell import Telemetry
from worker.testing.simclock import simulated

FAILED = Ruling(Verdict.FAILURE, "connection", "connection")
STUB = Fallback(stub="行情暂不可用")


@simulated
async def test_row_01_a_coroutine_that_raises_trips() -> None:
    """danielfm/pybreaker#7: after two failures of an async tool the third call never runs."""
    stage = Stage(fail_max=2)
    tool = Tool(ValueError("nonsense"))

    for _ in range(3):
        outcome = await stage.call(tool)

    assert tool.calls == 2
    assert outcome.reason == "breaker_open"
    assert stage.heard.moves() == [("closed", "open", "consecutive")]


async def test_row_02_parallel_sync_calls_do_not_queue_behind_the_breaker() -> None:
    """danielfm/pybreaker#55: four sync tools run side by side, and an operator need not wait."""
    everyone = threading.Barrier(5)
    guard = Guard("quotes", GuardPolicy(), telemetry=Telemetry())

    def tool(_info: object) -> str:
        everyone.wait(timeout=5)  # passes only when all four and the operator are here
        return "ok"

    def operate() -> None:
        guard.force_open(who="ops", why="drill")  # while all four are running
        everyone.wait(timeout=5)

    calls = [asyncio.create_task(guard.call(tool, call_policy())) for _ in range(4)]
    await until(lambda: guard.bulkhead.in_use == 4)
    operator = asyncio.to_thread(operate)
    outcomes, _ = await asyncio.gather(asyncio.gather(*calls), operator)

    assert [outcome.value for outcome in outcomes] == ["ok"] * 4
    assert guard.state == "forced_open"
    guard.close()


def test_row_02_threads_share_the_breaker_without_serialising() -> None:
    """danielfm/pybreaker#55: threads hold permits at the same time, and no count is lost."""
    admission = Admission("quotes", GuardPolicy(), telemetry=Telemetry())
    everyone = threading.Barrier(4)

    def serve() -> None:
        permit = admission.admit()
        everyone.wait(timeout=5)  # passes only while all four hold a permit
        assert isinstance(permit, Permit)
        admission.settle(permit, SUCCEEDED)
        for _ in range(500):
            permit = admission.admit()
            assert isinstance(permit, Permit)
            admission.settle(permit, SUCCEEDED)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)

    assert admission.snapshot()["counts"] == {"success": 4 * 501}


@simulated
async def test_row_04_noticing_open_does_not_extend_the_window() -> None:
    """danielfm/pybreaker#24: half-open comes one window after the trip, whoever looks at it."""
    stage = Stage(fail_max=1, open_seconds=5)
    await stage.call(Tool(OSError()))
    for _ in range(4):
        await asyncio.sleep(1)
        assert (await stage.call(Tool())).reason == "breaker_open"
    await asyncio.sleep(1)

    outcome = await stage.call(Tool("back"))

    assert outcome.value == "back"
    assert stage.loop.time() == 5


@simulated
async def test_row_06_every_failure_reaches_the_listener_once_and_in_order() -> None:
    """danielfm/pybreaker#16: each counted failure is told once, the last before the change."""
    stage = Stage(fail_max=3)
    for _ in range(3):
        await stage.call(Tool(OSError()))

    told = [
        "failure" if isinstance(signal, BreakerCounted) else signal.to_state
        for signal in stage.heard.signals
        if isinstance(signal, BreakerCounted | BreakerChanged)
    ]
    assert told == ["failure", "failure", "failure", "open"]


@simulated
async def test_row_07_a_rejection_says_who_why_and_how_long() -> None:
    """danielfm/pybreaker#82: after 10 s of a 30 s window a rejection carries 20 s and a name."""
    stage = Stage(fail_max=1, open_seconds=30)
    await stage.call(Tool(OSError()))
    await asyncio.sleep(10)

    outcome = await stage.call(Tool())

    rejected = outcome.error
    assert isinstance(rejected, BreakerOpen)
    assert isinstance(rejected, CircuitBreakerError)
    assert (rejected.dependency, rejected.reason) == ("quotes", "breaker_open")
    assert rejected.retry_after_seconds == pytest.approx(20)
    assert outcome.retry_after_seconds == pytest.approx(20)
    assert (outcome.error_type, outcome.attempts) == ("circuit_open", 0)


@simulated
async def test_row_09_one_trial_at_a_time() -> None:
    """App-vNext/Polly#216: of 20 callers during a slow trial one runs and 19 get the stub."""
    stage = Stage(fail_max=1, limit=20)
    await stage.half_open_due()
    tool = Tool((1, "fresh"))

    outcomes = await asyncio.gather(*(stage.call(tool, fallback=STUB) for _ in range(20)))

    assert tool.calls == 1
    assert [outcome.value for outcome in outcomes] == ["fresh"] + ["行情暂不可用"] * 19
    assert {outcome.reason for outcome in outcomes[1:]} == {"trial_in_flight"}
    assert stage.guard.state == "closed"


@simulated
async def test_row_11_late_failures_open_nothing_again() -> None:
    """App-vNext/Polly#218: three late failures: one open event, same window, own errors."""
    stage = Stage(fail_max=1, open_seconds=5)
    errors = [OSError(f"late {number}") for number in range(3)]
    late = [asyncio.create_task(stage.call(Tool((1, error)))) for error in errors]
    await asyncio.sleep(0)
    await stage.call(Tool(OSError("the trip")))

    outcomes = await asyncio.gather(*late)

    assert [outcome.error for outcome in outcomes] == errors
    assert stage.heard.moves() == [("closed", "open", "consecutive")]
    assert stage.guard.open_seconds_left == pytest.approx(4)
    assert stage.heard.counted("late") == 3


@simulated
async def test_row_11_the_tripping_caller_sees_its_own_error() -> None:
    """App-vNext/Polly#218: the failure that opens the breaker comes back as what it was."""
    stage = Stage(fail_max=1)
    error = OSError("mine")

    outcome = await stage.call(Tool(error))

    assert stage.guard.state == "open"
    assert outcome.error is error
    assert outcome.reason == "internal"


@simulated
async def test_row_12_a_late_success_closes_nothing() -> None:
    """ray-project/ray#65068: a call of before the trip that succeeds leaves the breaker open."""
    stage = Stage(fail_max=1)
    late = asyncio.create_task(stage.call(Tool((1, "late"))))
    await asyncio.sleep(0)
    await stage.call(Tool(OSError()))

    outcome = await late

    assert (outcome.value, outcome.source) == ("late", Source.LIVE)
    assert stage.guard.state == "open"


@simulated
async def test_row_12_a_late_success_does_not_decide_a_trial() -> None:
    """ray-project/ray#65068: nor does it close a half-open breaker whose trial is running."""
    stage = Stage(fail_max=1, open_seconds=1)
    late = asyncio.create_task(stage.call(Tool((3, "late"))))
    await asyncio.sleep(0)
    await stage.half_open_due()
    trial = asyncio.create_task(stage.call(Tool((3, OSError()))))

    await late

    assert stage.guard.state == "half_open"
    await trial
    assert stage.guard.state == "open"


def neutral(_error: BaseException) -> Ruling:
    """Call every error nobody's fault."""
    return Ruling(Verdict.NEUTRAL, "other", "other")


@simulated
async def test_row_14_a_neutral_trial_neither_sticks_nor_closes() -> None:
    """App-vNext/Polly#1979: its slot is free at once, half-open stays, the next is the trial."""
    stage = Stage(fail_max=1)
    await stage.half_open_due()

    await stage.call(Tool(ValueError()), classify=neutral)

    assert stage.guard.state == "half_open"
    assert stage.guard.peek() is None
    assert (await stage.call(Tool("back"))).value == "back"
    assert stage.guard.state == "closed"


@simulated
async def test_row_14_a_cancelled_trial_frees_its_slot() -> None:
    """App-vNext/Polly#1979: a trial that its caller gave up makes room for the next one."""
    stage = Stage(fail_max=1)
    await stage.half_open_due()
    trial = asyncio.create_task(stage.call(Tool((3, "never"))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stage.guard.peek() is not None
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial

    assert stage.guard.state == "half_open"
    assert stage.guard.peek() is None


@simulated
async def test_row_16_neutral_trials_never_use_up_the_permits() -> None:
    """resilience4j/resilience4j#544: after 30 ignored trials the 31st still decides."""
    stage = Stage(fail_max=1)
    await stage.half_open_due()
    for _ in range(30):
        await stage.call(Tool(ValueError()), classify=neutral)

    await stage.call(Tool("back"))

    assert stage.guard.state == "closed"
    assert stage.heard.counted("ignored") == 30


@simulated
async def test_row_17_a_hanging_trial_is_settled_by_its_time_limit() -> None:
    """resilience4j/resilience4j#935: it fails after the attempt timeout, and a window starts."""
    stage = Stage(fail_max=1, open_seconds=5)
    await stage.half_open_due()
    began = stage.loop.time()

    outcome = await stage.call(Tool((10**6, "never")), timeout_seconds=2)

    assert outcome.reason == "timeout"
    assert stage.loop.time() - began == pytest.approx(2)
    assert stage.guard.state == "open"
    assert stage.guard.open_seconds_left == pytest.approx(10)  # doubled


@simulated
async def test_row_18_peeking_takes_nothing() -> None:
    """resilience4j/resilience4j#858: a health page that polls leaves the trial to the caller."""
    stage = Stage(fail_max=1)
    await stage.half_open_due()
    era = stage.guard.snapshot()["era"]

    assert [stage.guard.peek() for _ in range(50)] == [None] * 50

    assert stage.guard.snapshot()["era"] == era
    assert stage.guard.state == "open"
    assert (await stage.call(Tool("trial"))).value == "trial"


@simulated
async def test_row_24_slow_successes_open_it() -> None:
    """resilience4j/resilience4j#381: five answers of 9 s with 2 s allowed open it as slow."""
    stage = Stage(slow_seconds=2, window_calls_min=5)
    tool = Tool((9, "at last"))
    for _ in range(5):
        assert (await stage.call(tool, timeout_seconds=10, deadline_seconds=10)).value

    assert stage.heard.moves() == [("closed", "open", "slow_rate")]


@simulated
async def test_row_24_a_slow_trial_is_no_recovery() -> None:
    """resilience4j/resilience4j#381: a trial that succeeds too slowly opens it again."""
    stage = Stage(fail_max=1, slow_seconds=2)
    await stage.half_open_due()

    outcome = await stage.call(Tool((3, "slow")))

    assert outcome.value == "slow"
    assert stage.guard.state == "open"


@simulated
async def test_row_26_failures_after_the_trip_do_not_cancel_recovery() -> None:
    """nodeshift/opossum#385: six failures at once, threshold five: half-open after one window."""
    stage = Stage(fail_max=5, open_seconds=5, limit=6)
    await asyncio.gather(*(stage.call(Tool((1, OSError()))) for _ in range(6)))
    assert stage.guard.state == "open"
    await asyncio.sleep(5)

    assert (await stage.call(Tool("back"))).value == "back"
    assert stage.guard.state == "closed"


@simulated
async def test_row_29_a_dropped_late_result_is_visible() -> None:
    """sony/gobreaker#122: the caller keeps its result, and `late` counts it with its verdict."""
    stage = Stage()
    late = asyncio.create_task(stage.call(Tool((1, "kept"))))
    await asyncio.sleep(0)
    stage.guard.force_open(who="ops", why="drill")
    stage.guard.release(who="ops")

    outcome = await late

    assert outcome.value == "kept"
    assert stage.guard.snapshot()["counts"] == {"late": 1}
    assert stage.heard.of(BreakerCounted) == [BreakerCounted("quotes", "late", "success")]


@pytest.mark.timing
def test_admission_never_waits_for_a_listener() -> None:
    """A listener that is slow in one thread holds up no other thread: it runs off the lock."""
    entered, leave = threading.Event(), threading.Event()

    class Slow(Heard):
        def told(self, signal: object) -> None:
            if threading.current_thread() is stuck:
                entered.set()
                leave.wait(timeout=10)

    admission = Admission("quotes", GuardPolicy(), telemetry=Telemetry([Slow()]))
    stuck = threading.Thread(target=admission.force_open, kwargs={"who": "ops", "why": "drill"})
    stuck.start()
    assert entered.wait(timeout=5)
    began = time.monotonic()

    assert admission.peek() is not None

    assert time.monotonic() - began < 1
    leave.set()
    stuck.join(timeout=5)

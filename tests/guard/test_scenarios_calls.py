"""Public reports of broken retries, bulkheads and fallbacks; numbers as on the design page."""

from __future__ import annotations

import asyncio
import functools
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest

from tests.guard.stage import Stage, Tool, call_policy, until
from worker.core.errors import AttemptFailed
from worker.core.messages import Source
from worker.guard.guard import AttemptInfo, Fallback, Guard, GuardPolicy
from worker.store.port import Remembered
from worker.telemetry.signals import AttemptEnded, RetryScheduled, RetrySuppressed
from worker.telemetry.tell import Telemetry
from worker.testing.simclock import simulated

STUB = Fallback(stub="行情暂不可用")


class Shelf:
    """Last good values in a dict."""

    def __init__(self) -> None:
        self.values: dict[str, Remembered] = {}

    async def remember(self, key: str, value: str, *, at: float) -> None:
        self.values[key] = Remembered(value, at)

    async def recall(self, key: str) -> Remembered | None:
        return self.values.get(key)


class StatusError(Exception):
    """Shaped as httpx.HTTPStatusError is: it carries the response."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = SimpleNamespace(status_code=status, headers=named)


@simulated
async def test_row_19_cancellations_open_nothing() -> None:
    """resilience4j/resilience4j#682: ten cancelled calls: closed, no failure, ten cancelled."""
    stage = Stage(fail_max=2, limit=10)
    calls = [asyncio.create_task(stage.call(Tool((60, "x")), fallback=STUB)) for _ in range(10)]
    await until(lambda: stage.guard.bulkhead.in_use == 10)
    for call in calls:
        call.cancel()

    results = await asyncio.gather(*calls, return_exceptions=True)

    seen = stage.guard.snapshot()
    assert [type(result) for result in results] == [asyncio.CancelledError] * 10
    assert (seen["state"], seen["consecutive_failures"]) == ("closed", 0)
    assert seen["counts"] == {"ignored": 10, "cancelled": 10}
    assert [end.error_type for end in stage.heard.of(AttemptEnded)] == ["cancelled"] * 10


@simulated
async def test_row_19_the_callers_deadline_opens_nothing() -> None:
    """sony/gobreaker#105: an attempt cut short because its caller had no time is neutral."""
    stage = Stage(fail_max=1)

    outcome = await stage.call(Tool((9, "x")), timeout_seconds=5, deadline=stage.loop.time() + 1)

    assert (outcome.reason, outcome.dependency_failed) == ("deadline", False)
    assert stage.loop.time() == 1
    assert stage.guard.state == "closed"
    assert stage.heard.counted("ignored") == 1


@simulated
async def test_row_21_cancelled_calls_give_their_slots_back() -> None:
    """resilience4j/resilience4j#332: limit 1, running and queued call cancelled: next one runs."""
    stage = Stage(limit=1)
    running = asyncio.create_task(stage.call(Tool((60, "x"))))
    await until(lambda: stage.guard.bulkhead.in_use == 1)
    queued = asyncio.create_task(stage.call(Tool()))
    await until(lambda: stage.guard.bulkhead.waiting == 1)
    queued.cancel()
    running.cancel()
    await asyncio.gather(queued, running, return_exceptions=True)

    assert (stage.guard.bulkhead.in_use, stage.guard.bulkhead.waiting) == (0, 0)
    assert (await stage.call(Tool("next"))).value == "next"


@simulated
async def test_row_21_a_slot_granted_to_a_cancelled_waiter_is_passed_on() -> None:
    """resilience4j/resilience4j#332: cancelled in the tick in which its slot came, none is lost."""
    stage = Stage(limit=1, queue_seconds=60)
    assert stage.guard.bulkhead.try_acquire()
    queued = asyncio.create_task(stage.call(Tool()))
    await until(lambda: stage.guard.bulkhead.waiting == 1)
    stage.guard.bulkhead.release()
    queued.cancel()
    await asyncio.gather(queued, return_exceptions=True)

    assert stage.guard.bulkhead.in_use == 0


@simulated
async def test_row_22_a_full_bulkhead_opens_nothing() -> None:
    """resilience4j/resilience4j#1656: of 50 callers 47 are refused; the breaker hears of none."""
    stage = Stage(limit=3, queue_max=0, fail_max=1)
    tool = Tool((1, "ok"))

    outcomes = await asyncio.gather(*(stage.call(tool, fallback=STUB) for _ in range(50)))

    seen = stage.guard.snapshot()
    assert tool.peak == 3
    assert [outcome.source for outcome in outcomes].count(Source.LIVE) == 3
    assert {o.reason for o in outcomes if o.source is Source.STUB} == {"bulkhead_full"}
    assert (seen["state"], seen["refused"]) == ("closed", {"bulkhead_full": 47})
    assert seen["counts"] == {"success": 3}


@simulated
async def test_row_25_an_open_breaker_ends_the_retries() -> None:
    """resilience4j/resilience4j#1065: opened by attempt 2 of 5, no third, and the reply at once."""
    stage = Stage(fail_max=2)
    tool = Tool(error := OSError("second"))

    outcome = await stage.call(tool, attempts=5, fallback=STUB)

    assert tool.calls == outcome.attempts == 2
    assert (outcome.value, outcome.error) == ("行情暂不可用", error)
    assert stage.loop.time() == pytest.approx(0.05)  # one back-off, none before the rejection
    assert [signal.cause for signal in stage.heard.of(RetrySuppressed)] == ["breaker"]


@simulated
async def test_row_25_a_rejection_is_never_retried() -> None:
    """jvoegele/external_service#93: in front of an open breaker nobody sleeps."""
    stage = Stage(fail_max=1)
    await stage.open()
    began = stage.loop.time()

    outcome = await stage.call(Tool(), attempts=5)

    assert outcome.attempts == 0
    assert stage.loop.time() == began
    assert stage.heard.of(RetryScheduled) == []


@simulated
async def test_row_28_a_stub_is_never_taken_for_a_good_value() -> None:
    """Netflix/Hystrix#1688: after good, stub, recovery, outage: the stale value is the good one."""
    stage = Stage(fail_max=1, open_seconds=5)
    shelf = Shelf()
    ladder = Fallback(last_good=shelf, stale_seconds=60, stub="行情暂不可用")
    down = OSError()
    await stage.call(Tool("A"), fallback=ladder)
    kept = dict(shelf.values)
    shelf.values.clear()
    assert (await stage.call(Tool(down), fallback=ladder)).source is Source.STUB
    assert shelf.values == {}
    shelf.values.update(kept)
    await asyncio.sleep(30)

    outcome = await stage.call(Tool(down), fallback=ladder)

    assert (outcome.value, outcome.source) == ("A", Source.STALE)
    assert outcome.age_seconds == pytest.approx(30)


@simulated
async def test_row_32_a_cancelled_attempt_is_not_retried() -> None:
    """jd/tenacity#529: cancelled in attempt 1: one attempt, and the task ends cancelled."""
    stage = Stage()
    tool = Tool((60, "x"))
    call = asyncio.create_task(stage.call(tool, attempts=5, fallback=STUB))
    await until(lambda: tool.running == 1)
    call.cancel()
    await asyncio.wait([call])

    assert call.cancelled()
    assert tool.calls == 1


@simulated
async def test_row_32_a_cancellation_in_a_later_attempt_passes_through_tenacity() -> None:
    """jd/tenacity#529: cancelled in attempt 2, or in the sleep before it: no third attempt."""
    stage = Stage()
    for second in ((60, "x"), OSError()):
        tool = Tool(OSError(), second)
        call = asyncio.create_task(stage.call(tool, attempts=5, backoff_seconds=2.0))
        await asyncio.sleep(1.5 if isinstance(second, tuple) else 0.5)
        call.cancel()
        await asyncio.wait([call])

        assert call.cancelled()
        assert tool.calls == (2 if isinstance(second, tuple) else 1)


@simulated
async def test_row_34_overlapping_calls_do_not_mix_their_attempts() -> None:
    """jd/tenacity#701: two calls of three attempts overlap, and each reports three."""
    stage = Stage(fail_max=100, window_calls_min=20)
    tools = [Tool((0.3, OSError())), Tool((0.2, OSError()))]

    outcomes = await asyncio.gather(*(stage.call(tool, attempts=3) for tool in tools))

    assert [outcome.attempts for outcome in outcomes] == [3, 3]
    assert [tool.calls for tool in tools] == [3, 3]
    assert [[info.number for info in tool.infos] for tool in tools] == [[1, 2, 3], [1, 2, 3]]


async def flaky(seen: list[int], info: AttemptInfo) -> str:
    """Fail once, then answer."""
    seen.append(info.number)
    if info.number == 1:
        raise OSError
    return "ok"


class FlakyObject:
    """An object whose call is async."""

    def __init__(self, seen: list[int]) -> None:
        self._seen = seen

    async def __call__(self, info: AttemptInfo) -> str:
        return await flaky(self._seen, info)


@pytest.mark.parametrize("shape", ["lambda", "partial", "object", "partial_of_object", "method"])
async def test_row_36_async_tools_in_disguise_are_awaited_and_retried(shape: str) -> None:
    """jd/tenacity#132: however a coroutine function is wrapped, it is awaited and retried."""
    seen: list[int] = []
    thing = FlakyObject(seen)
    tools: dict[str, Any] = {
        "lambda": lambda info: flaky(seen, info),
        "partial": functools.partial(flaky, seen),
        "object": thing,
        "partial_of_object": functools.partial(thing),
        "method": thing.__call__,
    }
    guard = Guard("quotes", GuardPolicy(), telemetry=Telemetry())

    outcome = await guard.call(tools[shape], call_policy(attempts=3, backoff_seconds=0.001))

    assert (outcome.value, seen) == ("ok", [1, 2])
    assert (guard.bulkhead.in_use, guard.bulkhead.zombies) == (0, 0)
    guard.close()


@simulated
async def test_row_40_retry_after_in_seconds_is_waited_for() -> None:
    """CopilotKit/CopilotKit#3842: the wait is the larger one of back-off and hint."""
    stage = Stage()
    tool = Tool(StatusError(429, retry_after="3"), "ok")

    outcome = await stage.call(tool, attempts=3)

    assert (outcome.value, outcome.attempts) == ("ok", 2)
    assert stage.loop.time() == pytest.approx(3)


@simulated
async def test_row_40_retry_after_as_a_date_is_waited_for() -> None:
    """dapr/dapr#5872: a date means the same as the seconds until then."""
    stage = Stage()
    then = formatdate(stage.loop.wall() + 4, usegmt=True)
    tool = Tool(StatusError(503, retry_after=then), "ok")

    outcome = await stage.call(tool, attempts=3)

    assert outcome.value == "ok"
    assert stage.loop.time() == pytest.approx(4)


@simulated
async def test_row_40_a_hint_beyond_the_deadline_is_told_at_once() -> None:
    """CopilotKit/CopilotKit#3842: 99999 seconds: answer now, with the hint, without a sleep."""
    stage = Stage()
    tool = Tool(StatusError(429, retry_after="99999"))

    outcome = await stage.call(tool, attempts=3, fallback=STUB)

    assert (outcome.value, outcome.reason) == ("行情暂不可用", "rate_limited")
    assert outcome.retry_after_seconds == 99999
    assert (tool.calls, stage.loop.time()) == (1, 0)
    assert [signal.cause for signal in stage.heard.of(RetrySuppressed)] == ["deadline"]


@simulated
async def test_row_40_a_throttled_dependency_is_left_alone() -> None:
    """CopilotKit/CopilotKit#3842: until the hint is over other calls are refused, then made."""
    stage = Stage(throttle_seconds_max=10)
    await stage.call(Tool(StatusError(429, retry_after="99999")))

    held = await stage.call(Tool())
    await asyncio.sleep(10)
    after = await stage.call(Tool("ok"))

    assert (held.reason, held.error_type, held.attempts) == ("throttled", "rate_limited", 0)
    assert held.retry_after_seconds == pytest.approx(10)
    assert after.value == "ok"
    assert stage.guard.snapshot()["consecutive_failures"] == 0


@simulated
async def test_row_40_garbage_in_retry_after_is_ignored() -> None:
    """dapr/dapr#5872: a hint that cannot be read leaves the ordinary back-off."""
    stage = Stage()

    outcome = await stage.call(Tool(StatusError(429, retry_after="soon"), "ok"), attempts=3)

    assert outcome.value == "ok"
    assert stage.loop.time() == pytest.approx(0.05)


@simulated
async def test_throttled_again_and_again_is_a_failure_with_the_hint_as_window() -> None:
    """One 429 is nobody's fault; those that follow a sat-out hint open it for as long as asked."""
    stage = Stage(fail_max=2, open_seconds=5)
    tool = Tool(AttemptFailed(kind="rate_limited", status_code=429, retry_after_seconds=20))
    verdicts = []
    for _ in range(3):
        await stage.call(tool)
        verdicts.append(stage.heard.of(AttemptEnded)[-1].verdict)
        left = stage.guard.snapshot()["throttled_seconds_left"]
        if stage.guard.state == "closed":
            await asyncio.sleep(left)

    assert verdicts == ["neutral", "failure", "failure"]
    assert stage.guard.state == "open"
    assert stage.guard.open_seconds_left == pytest.approx(20)


@simulated
async def test_parallel_429s_count_as_one() -> None:
    """Eight calls throttled at the same moment say it once: nothing opens."""
    stage = Stage(fail_max=2, limit=8)
    await asyncio.gather(*(stage.call(Tool((1, StatusError(429)))) for _ in range(8)))

    assert stage.guard.state == "closed"
    assert stage.heard.counted("ignored") == 8

"""Retries stop for the right cause; the ladder is climbed in order and never for the wrong error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.guard.stage import Stage, Tool, call_policy
from worker.core.errors import AttemptFailed, ToolError
from worker.core.messages import Source
from worker.guard.guard import AttemptInfo, Fallback
from worker.store.port import Remembered
from worker.telemetry.signals import FallbackUsed, RetryScheduled, RetrySuppressed
from worker.testing.simclock import simulated

DOWN = ConnectionResetError("down")
STUB = "行情暂不可用"


class Shelf:
    """Last good values in a dict; it can be made to fail or to hang."""

    def __init__(self, *, fails: bool = False, hangs: bool = False) -> None:
        self.values: dict[str, Remembered] = {}
        self._fails, self._hangs = fails, hangs

    async def _trouble(self) -> None:
        if self._fails:
            raise OSError("the store is down")
        if self._hangs:
            await asyncio.sleep(10**6)

    async def remember(self, key: str, value: str, *, at: float) -> None:
        await self._trouble()
        self.values[key] = Remembered(value, at)

    async def recall(self, key: str) -> Remembered | None:
        await self._trouble()
        return self.values.get(key)


def suppressed(stage: Stage) -> list[str]:
    """Return the causes of giving up."""
    return [signal.cause for signal in stage.heard.of(RetrySuppressed)]


@simulated
async def test_back_off_doubles_with_full_jitter_up_to_its_bound() -> None:
    """With the random number 0.5 the waits are half of 0.1, 0.2, 0.4, 0.5, 0.5."""
    stage = Stage(fail_max=99, window_calls_min=20)

    outcome = await stage.call(Tool(DOWN), attempts=6, backoff_seconds_max=0.5)

    waits = [signal.wait_seconds for signal in stage.heard.of(RetryScheduled)]
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.25, 0.25])
    assert [signal.number for signal in stage.heard.of(RetryScheduled)] == [2, 3, 4, 5, 6]
    assert (outcome.attempts, suppressed(stage)) == (6, ["attempts"])


@simulated
async def test_the_first_success_ends_the_retries_and_earns_a_refund() -> None:
    """Two failures, one success: three attempts, two tokens spent, a tenth earned."""
    stage = Stage()

    outcome = await stage.call(Tool(DOWN, DOWN, "ok"), attempts=5)

    assert (outcome.value, outcome.attempts) == ("ok", 3)
    assert suppressed(stage) == []
    assert stage.guard.budget.tokens == pytest.approx(8.1)


@simulated
async def test_an_empty_budget_stops_retries_and_not_first_attempts() -> None:
    """With one token in store the second call gets its first attempt and no retry."""
    stage = Stage(budget_tokens=1, fail_max=99, window_calls_min=20)

    first = await stage.call(Tool(DOWN), attempts=2)
    second = await stage.call(Tool(DOWN), attempts=2)

    assert (first.attempts, second.attempts) == (2, 1)
    assert suppressed(stage) == ["attempts", "budget"]


@simulated
async def test_a_suppressed_retry_costs_no_token() -> None:
    """Attempts, deadline and breaker are asked before the budget pays."""
    stage = Stage(fail_max=2, budget_tokens=10)

    await stage.call(Tool(DOWN), attempts=1)
    await stage.call(Tool(DOWN), attempts=9)

    assert suppressed(stage) == ["breaker"]
    assert stage.guard.budget.tokens == 10


@simulated
async def test_no_sleep_begins_that_no_attempt_can_follow() -> None:
    """A back-off that would end after the deadline is not slept."""
    stage = Stage()

    outcome = await stage.call(
        Tool((0.5, DOWN)), attempts=9, backoff_seconds=10, backoff_seconds_max=10, deadline=2.0
    )

    assert (outcome.attempts, stage.loop.time()) == (1, 0.5)
    assert suppressed(stage) == ["deadline"]


@simulated
async def test_the_deadline_bounds_everything() -> None:
    """However many attempts hang, the outcome is there at the deadline."""
    stage = Stage(fail_max=99, cancel_grace_seconds=0.2)

    outcome = await stage.call(
        Tool((60, "x")), attempts=9, timeout_seconds=2, deadline_seconds=5, backoff_seconds=0.01
    )

    assert stage.loop.time() == pytest.approx(5, abs=0.01)
    assert outcome.attempts == 3


@simulated
async def test_a_deadline_after_failures_is_still_the_dependencys_fault() -> None:
    """Two real time-outs and a third attempt cut short: the reason is the deadline, the fault is not."""
    stage = Stage(fail_max=99)

    outcome = await stage.call(
        Tool((60, "x")), attempts=3, timeout_seconds=2, deadline_seconds=5.5, backoff_seconds=0.01
    )

    assert (outcome.attempts, outcome.reason) == (3, "deadline")
    assert outcome.dependency_failed
    assert stage.guard.snapshot()["counts"] == {"failure": 2, "ignored": 1}


@simulated
async def test_no_time_left_makes_no_attempt() -> None:
    """A deadline in the past is a rejection that is nobody's failure."""
    stage = Stage()
    tool = Tool()

    outcome = await stage.call(tool, deadline=stage.loop.time())

    assert (outcome.reason, outcome.error_type, tool.calls) == ("deadline", "timeout", 0)
    assert not outcome.dependency_failed
    assert (stage.guard.bulkhead.in_use, stage.guard.snapshot()["counts"]) == (0, {})


@pytest.mark.parametrize(
    ("error", "attempts", "cause"),
    [
        (DOWN, 1, ["not_idempotent"]),
        (TimeoutError(), 1, ["not_idempotent"]),
        (ConnectionRefusedError(), 3, ["attempts"]),
        (AttemptFailed(kind="connection", sent=False), 3, ["attempts"]),
    ],
)
@simulated
async def test_a_write_is_tried_again_only_if_nothing_was_sent(
    error: Exception, attempts: int, cause: list[str]
) -> None:
    """Refused before it left: again. Broken on the way: never, and no stub covers it up."""
    stage = Stage()

    outcome = await stage.call(
        Tool(error), attempts=3, repeatable=False, fallback=Fallback(stub=STUB)
    )

    sent = attempts == 1
    assert (outcome.attempts, outcome.sent, suppressed(stage)) == (attempts, sent, cause)
    assert outcome.source is (Source.ERROR if sent else Source.STUB)


@simulated
async def test_a_business_error_is_shown_and_nothing_else() -> None:
    """ToolError: no retry, no stub, a success for the breaker, its own text for the model."""
    stage = Stage(fail_max=1)
    error = ToolError("订单不存在")

    outcome = await stage.call(Tool(error), attempts=3, fallback=Fallback(stub=STUB))

    assert (outcome.source, outcome.error, outcome.attempts) == (Source.ERROR, error, 1)
    assert not outcome.dependency_failed
    assert stage.heard.of(FallbackUsed) == []
    assert stage.guard.snapshot()["counts"] == {"success": 1}


@simulated
async def test_attempts_carry_their_number_limit_key_and_arguments() -> None:
    """The second attempt knows that it is one and how long it has; the key stays the same."""
    stage = Stage()
    tool = Tool((1, DOWN), "ok")
    await stage.guard.call(
        tool,
        call_policy(attempts=2, timeout_seconds=2, backoff_seconds=0.2),
        deadline=2.0,
        info=AttemptInfo(idempotency_key="k1", arguments={"symbol": "AAPL"}),
    )

    assert [info.number for info in tool.infos] == [1, 2]
    assert [info.timeout_seconds for info in tool.infos] == pytest.approx([2, 0.9])
    assert {info.idempotency_key for info in tool.infos} == {"k1"}
    assert tool.infos[1].arguments == {"symbol": "AAPL"}


@simulated
async def test_the_ladder_is_climbed_in_order() -> None:
    """Alternative before stale before stub; a broken rung is told and skipped."""
    stage = Stage(fail_max=99, window_calls_min=20)
    shelf = Shelf()

    def ladder(alternative: Any, stale_seconds: float) -> Fallback:
        return Fallback(
            alternative=alternative, last_good=shelf, stale_seconds=stale_seconds, stub=STUB
        )

    async def broken(_info: AttemptInfo) -> None:
        raise ValueError

    await stage.call(Tool({"price": 1}), fallback=ladder(None, 60))
    await asyncio.sleep(10)
    got = [
        await stage.call(Tool(DOWN), fallback=ladder(Tool("other"), 60)),
        await stage.call(Tool(DOWN), fallback=ladder(broken, 60)),
        await stage.call(Tool(DOWN), fallback=ladder(broken, 5)),
    ]

    assert [(o.value, o.source) for o in got] == [
        ("other", Source.ALTERNATIVE),
        ({"price": 1}, Source.STALE),
        (STUB, Source.STUB),
    ]
    assert all(o.dependency_failed and o.error is not None for o in got)
    assert [(s.fallback, s.outcome) for s in stage.heard.of(FallbackUsed)] == [
        ("alternative", "success"),
        ("alternative", "error"),
        ("stale", "success"),
        ("alternative", "error"),
        ("stub", "success"),
    ]


@simulated
async def test_a_hanging_alternative_gets_one_second() -> None:
    """After its own limit the next rung is tried; the breaker hears nothing of it."""
    stage = Stage(cancel_grace_seconds=0)

    outcome = await stage.call(
        Tool(DOWN), fallback=Fallback(alternative=Tool((60, "x")), stub=STUB)
    )

    assert outcome.value == STUB
    assert stage.loop.time() == pytest.approx(1)
    assert stage.guard.snapshot()["consecutive_failures"] == 1


@pytest.mark.parametrize("trouble", [{"fails": True}, {"hangs": True}])
@simulated
async def test_a_store_in_trouble_costs_a_second_at_most_and_no_call(
    trouble: dict[str, bool],
) -> None:
    """A live value is live though it cannot be kept; a failed call still gets its stub."""
    stage = Stage()
    ladder = Fallback(last_good=Shelf(**trouble), stale_seconds=60, stub=STUB)

    live = await stage.call(Tool("ok"), fallback=ladder)
    stub = await stage.call(Tool(DOWN), fallback=ladder)

    assert (live.value, live.source) == ("ok", Source.LIVE)
    assert stub.value == STUB
    assert stage.loop.time() <= 2


@simulated
async def test_last_good_values_of_one_tenant_never_reach_another() -> None:
    """The key holds scope, tool and arguments, and no scope can imitate another's key."""
    stage = Stage(fail_max=99, window_calls_min=20)
    ladder = Fallback(last_good=Shelf(), stale_seconds=60, stub=STUB)
    policy = call_policy(fallback=ladder)

    async def ask(tool: Tool, scope: str, key: str) -> Any:
        return (await stage.guard.call(tool, policy, scope=scope, arguments_key=key)).value

    await ask(Tool("secret of a"), "a", "x")

    assert await ask(Tool(DOWN), "a", "x") == "secret of a"
    assert await ask(Tool(DOWN), "b", "x") == STUB
    assert await ask(Tool(DOWN), "", "x") == STUB
    assert await ask(Tool(DOWN), "a", "y") == STUB
    assert await ask(Tool(DOWN), "a/get_stock_price", "x") == STUB


@simulated
async def test_a_call_may_sit_out_a_throttle_hold() -> None:
    """With throttle_wait_seconds a call waits for the hold to end instead of being refused."""
    stage = Stage()
    limited = AttemptFailed(kind="rate_limited", status_code=429, retry_after_seconds=4)
    await stage.call(Tool(limited))

    outcome = await stage.call(Tool("ok"), throttle_wait_seconds=5)

    assert (outcome.value, stage.loop.time()) == ("ok", 4)


@simulated
async def test_a_degraded_outcome_tells_when_to_come_back() -> None:
    """The failure that opened the breaker carries the time until the next trial."""
    stage = Stage(fail_max=1, open_seconds=5)

    outcome = await stage.call(Tool(DOWN), fallback=Fallback(stub=STUB))

    assert (outcome.reason, outcome.retry_after_seconds) == ("connection", 5)

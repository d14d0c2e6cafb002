"""The layers around one dependency, outermost first.

    call ─▶ fallback    alternative, stale or stub, when all below has failed
            deadline    one end for everything below, waiting included
            retry       further attempts, while they make sense (tenacity)
            peek        would the breaker let it through? takes nothing
            bulkhead    a slot; a short queue, first come first served
            permit      the breaker is asked again: it may have opened while we waited
            attempt     the tool, with a time limit that it cannot ignore

The breaker counts attempts, not calls: it measures the dependency, and not the caller's patience.
A slot is not held during back-off. A rejection ends the retries. Cancellation passes through and
is neutral. This file alone knows the order.
"""

from __future__ import annotations

import asyncio
import random as random_module
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from worker.core.errors import AttemptTimeout, BulkheadFull, NoTimeLeft, Rejected
from worker.core.messages import Source
from worker.guard.admission import Admission, Permit
from worker.guard.attempt import Runner
from worker.guard.bulkhead import Bulkhead
from worker.guard.fallback import Ladder, stale_key
from worker.guard.policy import AttemptInfo, CallPolicy, Fallback, GuardPolicy, Outcome, doubts
from worker.guard.retry import Retry, RetryBudget, Sleep, Tried
from worker.guard.verdict import CANCELLED, SUCCEEDED, Classify, Ruling, Verdict, rejection, rule
from worker.telemetry.signals import AttemptEnded
from worker.telemetry.tell import Telemetry

__all__ = [
    "AttemptInfo",
    "CallPolicy",
    "Classify",
    "Fallback",
    "Guard",
    "GuardPolicy",
    "Outcome",
    "Ruling",
    "Source",
    "Verdict",
    "doubts",
]

T = TypeVar("T")
Attempt = Callable[[AttemptInfo], Awaitable[T]] | Callable[[AttemptInfo], T]

SLOW_SHARE = 0.8  # of an attempt's time limit, from which on it counts as slow
NOTHING_SPECIAL = AttemptInfo()


class Guard:
    """All layers around one dependency; several tools may share it. One event loop."""

    def __init__(
        self,
        name: str,
        policy: GuardPolicy,
        *,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random_module.random,
        sleep: Sleep = asyncio.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.policy = policy
        self.admission = Admission(
            name, policy, telemetry=telemetry, clock=clock, wall=wall, random=random
        )
        self.bulkhead = Bulkhead(name, limit=policy.limit, queue_max=policy.queue_max)
        self.budget = RetryBudget(tokens=policy.budget_tokens, refill=policy.budget_refill)
        self.refused: dict[str, int] = {}  # calls not made, by reason
        self._telemetry, self._clock, self._wall, self._sleep = telemetry, clock, wall, sleep
        grace, limit = policy.cancel_grace_seconds, policy.limit
        self._runner = Runner(name, self.bulkhead, grace=grace, limit=limit)
        # The alternative needs threads of its own: those of a hung tool may all be taken.
        self._spare = Runner(f"{name}-alternative", None, grace=grace, limit=limit)
        self._ladder = Ladder(self._spare, telemetry=telemetry, wall=wall)
        self._retry = Retry(
            self.budget,
            peek=lambda seconds: self.admission.peek(after_seconds=seconds),
            telemetry=telemetry,
            clock=clock,
            random=random,
            sleep=sleep,
        )

    def __repr__(self) -> str:
        return f"Guard({self.name}: {self.state}, {self.bulkhead!r}, {self.budget!r})"

    # --- calling ----------------------------------------------------------------------------

    async def call(
        self,
        attempt: Attempt[T],
        policy: CallPolicy,
        *,
        deadline: float | None = None,
        scope: str = "",
        arguments_key: str = "",
        info: AttemptInfo = NOTHING_SPECIAL,
    ) -> Outcome[T]:
        """Make the call, with everything that may be done to make it succeed.

        `deadline` is monotonic (this guard's clock). `scope` (tenant, user) and `arguments_key`
        name the last good value. `info` carries the idempotency key and the arguments through.
        Never raises for a failed dependency. Cancelled: the attempt is cancelled, nothing is
        counted against the dependency, and CancelledError passes.
        """
        call = _Call(self, attempt, policy, info, deadline)
        if policy.throttle_wait_seconds:
            await self._sit_out(policy, call.ends)
        tried = await call.next()
        if tried.error is not None:
            tried = await self._retry.go_on(tried, call.next, policy, ends=call.ends)
        fallback = policy.fallback
        if tried.error is None:
            if fallback is not None and fallback.stale_seconds is not None:
                key = stale_key(scope, policy.target, arguments_key)
                await self._ladder.remember(fallback, key=key, value=tried.value)
            seconds = self._clock() - call.began
            return Outcome(tried.value, Source.LIVE, attempts=call.made, duration_seconds=seconds)
        return await self._degrade(call, tried, stale_key(scope, policy.target, arguments_key))

    async def _degrade(self, call: _Call, tried: Tried, key: str) -> Outcome[Any]:
        """Turn a failed call into an outcome: the fallback's value if it may have one."""
        ruling, error, policy = tried.ruling, tried.error, call.policy
        assert error is not None
        reason = ruling.reason or "other"
        sent = call.sent
        rung = None
        # A write that may have happened must not be papered over: its outcome is unknown.
        if not ruling.business and (policy.repeatable or not sent):
            rung = await self._ladder.climb(
                policy, key=key, info=call.told(), error=error, reason=reason
            )
        hint = ruling.retry_after_seconds
        return Outcome(
            value=rung.value if rung else None,
            source=rung.source if rung else Source.ERROR,
            error=error,
            reason=reason,
            error_type=ruling.error_type,
            attempts=call.made,
            age_seconds=rung.age_seconds if rung else None,
            retry_after_seconds=self.admission.open_seconds_left if hint is None else hint,
            duration_seconds=self._clock() - call.began,
            dependency_failed=call.failed or not (ruling.business or reason == "deadline"),
            sent=sent,
            status_code=ruling.status_code,
        )

    async def _sit_out(self, policy: CallPolicy, ends: float) -> None:
        """Wait for a throttle hold to end, if the policy allows and the deadline leaves time."""
        objection = self.admission.peek()
        if objection is None or objection.reason != "throttled":
            return
        seconds = objection.retry_after_seconds or 0.0
        if seconds <= policy.throttle_wait_seconds and self._clock() + seconds < ends:
            await self._sleep(seconds)

    # --- one attempt ------------------------------------------------------------------------

    async def _attempt(self, call: _Call) -> Tried:
        """Peek, slot, permit, run, settle. Returns the error, except a cancellation."""
        rejected = self.admission.peek()
        if rejected is None and not self.bulkhead.try_acquire():
            rejected = await self._wait_for_slot(call.ends)
        if rejected is not None:
            return self._refuse(rejected)
        # From here to the start of the work nothing waits: the slot cannot be lost.
        now = self._clock()
        left = call.ends - now
        permit = self.admission.admit() if left > 0 else self._no_time()
        if isinstance(permit, Rejected):
            self.bulkhead.release()
            return self._refuse(permit)
        limit = min(call.policy.timeout_seconds, left)
        return await self._run(call, permit, began=now, limit=limit)

    async def _run(self, call: _Call, permit: Permit, *, began: float, limit: float) -> Tried:
        ruling, slow = CANCELLED, False
        try:
            value = await self._runner.run(
                call.attempt, call.start(limit), is_trusted=call.policy.is_trusted
            )
        except Exception as error:
            ruling = self._rule(error, call.policy, limit)
            call.sent = call.sent or ruling.sent
            tried = Tried(None, error, ruling)
        else:
            tried, ruling = Tried(value, None, SUCCEEDED), SUCCEEDED
        finally:
            seconds = self._clock() - began
            if ruling is not CANCELLED:
                slow = seconds >= self._slow_seconds(call.policy)
            verdict = self.admission.settle(permit, ruling, slow=slow)
            if verdict is Verdict.SUCCESS:
                self.budget.earn()
            elif verdict is Verdict.FAILURE:
                call.failed = True
            self._tell_attempt(call, verdict, ruling, seconds)
        return tried

    def _rule(self, error: Exception, policy: CallPolicy, limit: float) -> Ruling:
        cut_short = limit < min(policy.timeout_seconds, self._slow_seconds(policy))
        if cut_short and type(error) is AttemptTimeout:
            # It was not even slow: our caller had no time left, which is nobody's fault here.
            return Ruling(Verdict.NEUTRAL, "timeout", "deadline", status_code=504)
        return rule(error, classify=policy.classify, now=self._wall())

    def _slow_seconds(self, policy: CallPolicy) -> float:
        own = self.policy.slow_seconds
        return SLOW_SHARE * policy.timeout_seconds if own is None else own

    async def _wait_for_slot(self, ends: float) -> Rejected | None:
        left = ends - self._clock()
        try:
            await self.bulkhead.acquire(seconds=min(self.policy.queue_seconds, left))
        except BulkheadFull as full:
            return self._no_time() if left < self.policy.queue_seconds else full
        return None

    def _no_time(self) -> NoTimeLeft:
        return NoTimeLeft(f"{self.name}: deadline", dependency=self.name)

    def _refuse(self, rejected: Rejected) -> Tried:
        self.refused[rejected.reason] = self.refused.get(rejected.reason, 0) + 1
        if not isinstance(rejected, BulkheadFull | NoTimeLeft):
            self.admission.note_rejected(rejected)
        return Tried(None, rejected, rejection(rejected))

    def _tell_attempt(self, call: _Call, verdict: Verdict, ruling: Ruling, seconds: float) -> None:
        if self._telemetry.listeners:
            policy = call.policy
            self._telemetry.tell(
                AttemptEnded(
                    policy.kind, policy.target, call.made, verdict, ruling.error_type, seconds
                )
            )

    # --- for operators ----------------------------------------------------------------------

    @property
    def state(self) -> str:
        """closed, open, half_open, forced_open, forced_closed or metrics_only."""
        return self.admission.state

    @property
    def open_seconds_left(self) -> float | None:
        """How long calls stay rejected: 0 when a trial is due, None if not open or for ever."""
        return self.admission.open_seconds_left

    def peek(self) -> Rejected | None:
        """Tell whether a call would be rejected now, and why. Takes nothing."""
        return self.admission.peek()

    def force_open(self, *, who: str, why: str, until: float | None = None) -> None:
        """Reject every call until released, or until a wall clock time."""
        self.admission.force_open(who=who, why=why, until=until)

    def force_closed(self, *, who: str, why: str, until: float | None = None) -> None:
        """Let every call through, whatever happens, until released or that time."""
        self.admission.force_closed(who=who, why=why, until=until)

    def release(self, *, who: str, why: str = "released") -> bool:
        """Give the breaker back to itself; False if nobody had forced it."""
        return self.admission.release(who=who, why=why)

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as plain values, for operators and gauges."""
        bulkhead = self.bulkhead
        return {
            "name": self.name,
            **self.admission.snapshot(),
            "in_use": bulkhead.in_use,
            "in_use_peak": bulkhead.in_use_peak,
            "limit": bulkhead.limit,
            "waiting": bulkhead.waiting,
            "zombies": bulkhead.zombies,
            "refused": dict(self.refused),
            "budget_tokens": self.budget.tokens,
            "budget_capacity": self.budget.capacity,
        }

    def describe(self, policy: CallPolicy | None = None) -> list[dict[str, Any]]:
        """Return the layers as data, outermost first; with a call's policy, all of them."""
        return _describe(self.policy, policy)

    def close(self) -> None:
        """Let idle threads go. What was left behind is not waited for."""
        self._runner.close()
        self._spare.close()


class _Call:
    """One call on its way through the layers."""

    __slots__ = ("attempt", "began", "ends", "failed", "guard", "info", "made", "policy", "sent")

    def __init__(
        self,
        guard: Guard,
        attempt: Attempt[Any],
        policy: CallPolicy,
        info: AttemptInfo,
        deadline: float | None,
    ) -> None:
        self.guard = guard
        self.attempt = attempt
        self.policy = policy
        self.info = info
        self.made = 0  # attempts
        self.failed = False  # whether any of them counted against the dependency
        self.sent = False  # whether any of them may have had an effect
        self.began = guard._clock()
        self.ends = self.began + policy.deadline_seconds
        if deadline is not None and deadline < self.ends:
            self.ends = deadline

    async def next(self) -> Tried:
        return await self.guard._attempt(self)

    def start(self, seconds: float) -> AttemptInfo:
        self.made += 1
        return self.told(seconds)

    def told(self, seconds: float = 0.0) -> AttemptInfo:
        info = self.info
        return AttemptInfo(self.made, seconds, info.idempotency_key, info.arguments)


def _describe(guard: GuardPolicy, call: CallPolicy | None) -> list[dict[str, Any]]:
    bulkhead = {
        "limit": guard.limit,
        "queue_max": guard.queue_max,
        "queue_seconds": guard.queue_seconds,
    }
    breaker = {
        "fail_max": guard.fail_max,
        "window_calls": guard.window_calls,
        "window_calls_min": guard.window_calls_min,
        "failure_ratio": guard.failure_ratio,
        "slow_seconds": guard.slow_seconds,
        "slow_ratio": guard.slow_ratio,
        "open_seconds": guard.open_seconds,
        "open_seconds_max": guard.open_seconds_max,
        "success_threshold": guard.success_threshold,
        "metrics_only": guard.metrics_only,
    }
    budget = {"tokens": guard.budget_tokens, "refill": guard.budget_refill}
    inner: list[dict[str, Any]] = [
        {"layer": "bulkhead", **bulkhead},
        {"layer": "breaker", **breaker},
    ]
    if call is None:
        return [{"layer": "retry", "budget": budget}, *inner, {"layer": "attempt"}]
    rungs = []
    if call.fallback is not None:
        ladder = call.fallback
        keeps = ladder.last_good is not None and ladder.stale_seconds is not None
        rungs += ["alternative"] if ladder.alternative is not None else []
        rungs += ["stale"] if keeps else []
        rungs += ["stub"] if ladder.stub is not None else []
    retry = {
        "attempts": call.attempts,
        "backoff_seconds": call.backoff_seconds,
        "backoff_seconds_max": call.backoff_seconds_max,
        "repeatable": call.repeatable,
        "budget": budget,
    }
    return [
        {"layer": "fallback", "rungs": rungs},
        {"layer": "deadline", "seconds": call.deadline_seconds},
        {"layer": "retry", **retry},
        *inner,
        {"layer": "attempt", "timeout_seconds": call.timeout_seconds},
    ]

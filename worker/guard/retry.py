"""When to try again, and when not to.

tenacity runs the loop. It is entered only once a first attempt has failed: that attempt is handed
in as number 1, so the common call pays nothing for retries and the numbers still agree. An
attempt is passed along as a value, `Tried`, and never raised: a cancellation therefore passes
through tenacity untouched, and no traceback grows.

After a failed attempt, in this order: may it be repeated at all; the number of attempts; would the
next one start before the deadline; would the breaker admit it then; is there a token in the
budget. No sleep begins that no attempt can follow. The cause of giving up is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from worker.core.errors import Rejected
from worker.guard.policy import CallPolicy
from worker.guard.verdict import Ruling
from worker.telemetry.signals import RetryScheduled, RetrySuppressed
from worker.telemetry.tell import Telemetry

Sleep = Callable[[float], Awaitable[Any]]
Peek = Callable[[float], Rejected | None]


@dataclass(slots=True)
class Tried:
    """How an attempt ended: `error` None means that `value` is live."""

    value: Any
    error: Exception | None
    ruling: Ruling


class RetryBudget:
    """Retries in store for one dependency: a success earns a little, a retry costs one.

    In a total outage the store runs empty and retries stop, whatever each call would like; in a
    small one they are paid for by the calls that succeed.
    """

    def __init__(self, *, tokens: float, refill: float) -> None:
        self.capacity = tokens
        self.tokens = tokens
        self._refill = refill

    def __repr__(self) -> str:
        return f"RetryBudget({self.tokens:.1f} of {self.capacity:g})"

    def earn(self) -> None:
        """Take in the success of an attempt."""
        if self.tokens < self.capacity:
            self.tokens = min(self.capacity, self.tokens + self._refill)

    def spend(self) -> bool:
        """Pay for one retry; False, and nothing is paid, if the store is empty."""
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Retry:
    """Further attempts after a failed first one, for every call of one guard."""

    def __init__(
        self,
        budget: RetryBudget,
        *,
        peek: Peek,
        telemetry: Telemetry,
        clock: Callable[[], float],
        random: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.budget = budget
        self.peek = peek
        self.telemetry = telemetry
        self.clock = clock
        self.random = random
        self.sleep = sleep

    async def go_on(
        self,
        first: Tried,
        again: Callable[[], Awaitable[Tried]],
        policy: CallPolicy,
        *,
        ends: float,
    ) -> Tried:
        """Return the last attempt: one that succeeded, or the one after which to give up.

        `ends` is the monotonic deadline. Cancelled: passes at once, also out of a sleep.
        """
        if policy.attempts <= 1:
            return first
        rounds = _Rounds(self, first, again, policy, ends)
        last = first
        if rounds.worth(first):
            # Built for each call: a shared one would mix the state of overlapping calls.
            last = await AsyncRetrying(
                sleep=self.sleep,
                retry=retry_if_result(rounds.worth),
                wait=rounds.wait,
                stop=rounds.stop,
                before_sleep=rounds.announce,
                retry_error_callback=_last,
            )(rounds.next)
        if last.error is not None and rounds.cause is None and rounds.is_barred(last):
            rounds.cause = "not_idempotent"
        if last.error is not None and rounds.cause is not None:
            self.telemetry.tell(RetrySuppressed(policy.kind, policy.target, rounds.cause))
        return last


class _Rounds:
    """The retries of one call."""

    def __init__(
        self,
        retry: Retry,
        first: Tried,
        again: Callable[[], Awaitable[Tried]],
        policy: CallPolicy,
        ends: float,
    ) -> None:
        self.cause: str | None = None
        self._retry = retry
        self._first: Tried | None = first
        self._again = again
        self._policy = policy
        self._ends = ends

    async def next(self) -> Tried:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return await self._again()

    def worth(self, tried: Tried) -> bool:
        """A rejection is never retried: somebody has just decided that no call shall be made."""
        if tried.error is None or isinstance(tried.error, Rejected):
            return False
        return tried.ruling.retryable and not self.is_barred(tried)

    def is_barred(self, tried: Tried) -> bool:
        ruling = tried.ruling
        return ruling.retryable and ruling.sent and not self._policy.repeatable

    def wait(self, state: RetryCallState) -> float:
        policy = self._policy
        most = min(
            policy.backoff_seconds_max,
            policy.backoff_seconds * 2.0 ** (state.attempt_number - 1),
        )
        back_off = most * self._retry.random()  # full jitter
        return max(back_off, self._tried(state).ruling.retry_after_seconds or 0.0)

    def stop(self, state: RetryCallState) -> bool:
        wait = state.upcoming_sleep
        retry = self._retry
        if state.attempt_number >= self._policy.attempts:
            self.cause = "attempts"
        elif retry.clock() + wait >= self._ends:
            self.cause = "deadline"
        elif retry.peek(wait) is not None:
            self.cause = "breaker"
        elif not retry.budget.spend():  # last, so that no token is spent on a retry not made
            self.cause = "budget"
        return self.cause is not None

    def announce(self, state: RetryCallState) -> None:
        reason = self._tried(state).ruling.error_type or "other"
        policy = self._policy
        self._retry.telemetry.tell(
            RetryScheduled(
                policy.kind,
                policy.target,
                reason,
                state.attempt_number + 1,
                state.upcoming_sleep,
            )
        )

    def _tried(self, state: RetryCallState) -> Tried:
        return _last(state)


def _last(state: RetryCallState) -> Tried:
    assert state.outcome is not None, "tenacity asks after an attempt"
    tried: Tried = state.outcome.result()
    return tried

"""pybreaker as a state machine, with eras, rates, a monotonic clock and growing windows.

pybreaker carries the three states, the count of failures in a row and the threshold of successes.
It never wraps a call: the attempt is awaited elsewhere, and pybreaker is told the verdict
afterwards by calling a function that returns or raises at once. Who may make an attempt is
decided in `admission.py`, which also holds the lock around everything here. Added to pybreaker:

    eras      a number that changes with every change of state, whoever made it
    rates     too many failed or slow attempts in a window open it as well
    windows   the open time doubles up to a bound, jittered; a server's own hint wins if longer;
              pybreaker's wall clock is never asked

Nothing here waits.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from worker.core.errors import Rejected
from worker.guard.policy import GuardPolicy
from worker.guard.window import RateWindow


@contextlib.contextmanager
def _unseen(name: str) -> Iterator[None]:
    """Hide a library for a moment from whoever imports it because it happens to be there."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # what import takes for "not installed"
    try:
        yield
    finally:
        del sys.modules[name]


# pybreaker can keep its state in Redis, which nothing here does: to load that client for nothing
# is a tenth of what a worker takes to start.
with _unseen("redis"):
    from pybreaker import (
        STATE_CLOSED,
        STATE_HALF_OPEN,
        STATE_OPEN,
        CircuitBreaker,
        CircuitBreakerError,
        CircuitBreakerListener,
        CircuitMemoryStorage,
    )

JITTER = 0.1  # of the open window, so that workers do not all come back at once


class BreakerOpen(Rejected, CircuitBreakerError):
    """The breaker of this dependency is open; the call was not made."""

    def __init__(
        self, *, dependency: str, reason: str, retry_after_seconds: float | None = None
    ) -> None:
        left = "" if retry_after_seconds is None else f", {retry_after_seconds:.1f} s left"
        super().__init__(
            f"{dependency}: {reason}{left}",
            dependency=dependency,
            retry_after_seconds=retry_after_seconds,
        )
        self.reason = reason  # breaker_open | trial_in_flight | forced_open


class _Failure(Exception):
    """Stands in for the real error when a failure is replayed, which so stays untouched."""


def _succeed() -> None:
    return None


def _fail() -> None:
    raise _Failure


class _EraListener(CircuitBreakerListener):
    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        # The storage still holds the old state here, so the new one is taken from the argument.
        self._breaker._enter(new_state.name)


class Breaker:
    """The state of one dependency: closed, open or half_open. Not synchronised."""

    def __init__(
        self,
        name: str,
        policy: GuardPolicy,
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
        changed: Callable[[str], None],
    ) -> None:
        self.policy = policy
        self.state = "closed"
        self.era = 0
        self.opens = 0  # since the last close
        self.open_until = 0.0  # monotonic
        self.window = RateWindow(
            calls=policy.window_calls,
            calls_min=policy.window_calls_min,
            failure_ratio=policy.failure_ratio,
            slow_ratio=policy.slow_ratio,
        )
        self._clock, self._random, self._changed = clock, random, changed
        self._cause = "manual"  # whoever moves pybreaker without asking us is a hand
        self._open_seconds_asked: float | None = None
        self._hint_seconds: float | None = None
        self._circuit = CircuitBreaker(
            fail_max=policy.fail_max,
            reset_timeout=policy.open_seconds,
            success_threshold=policy.success_threshold,
            name=name,
            throw_new_error_on_trip=False,
            state_storage=CircuitMemoryStorage(STATE_CLOSED),
            listeners=[_EraListener(self)],
        )

    def __repr__(self) -> str:
        return f"Breaker({self.state}, era {self.era}, {self.failures} in a row, {self.window!r})"

    @property
    def failures(self) -> int:
        """Failures in a row, as pybreaker counts them."""
        return int(self._circuit.fail_counter)

    @property
    def open_seconds_left(self) -> float | None:
        """How long it stays open: 0 when a trial is due, None when it is not open."""
        if self.state != "open":
            return None
        return max(0.0, self.open_until - self._clock())

    def replay(
        self, *, failed: bool, slow: bool, trial: bool, hint_seconds: float | None = None
    ) -> None:
        """Tell pybreaker how an attempt of this era ended, and judge the rates.

        Never called while open: pybreaker would then look at the wall clock.
        """
        assert self.state != "open", "an attempt of this era cannot end while open"
        if not failed and self.state == "closed" and not self._circuit.fail_counter:
            # What nearly every attempt is: a success has no failures to make pybreaker forget.
            self._judge(failed=False, slow=slow)
            return
        era = self.era
        self._hint_seconds = hint_seconds
        self._cause = "trial" if trial else "consecutive"
        try:
            self._circuit.call(_fail if failed else _succeed)
        except _Failure:
            pass
        if self.era == era and self.state == "closed":
            self._judge(failed=failed, slow=slow)
        self._hint_seconds, self._cause = None, "manual"

    def _judge(self, *, failed: bool, slow: bool) -> None:
        """Open when too many of the last attempts failed or were slow."""
        self.window.add(failed=failed, slow=slow)
        objection = self.window.objection()
        if objection is not None:
            self.open(cause=objection)

    def open(self, *, cause: str, seconds: float | None = None) -> None:
        """Open, for the given time or for the next window; an open breaker stays as it is."""
        if self.state != "open":
            self._open_seconds_asked = seconds
            self._move(cause, self._circuit.open)

    def half_open(self, *, cause: str) -> None:
        """Let trials decide."""
        self._move(cause, self._circuit.half_open)

    def close(self, *, cause: str) -> None:
        """Close, and forget how often it had opened; a closed breaker stays as it is."""
        if self.state != "closed":
            self._move(cause, self._circuit.close)

    def renew(self, *, cause: str = "manual") -> None:
        """Begin a new era in the same state: what is under way ends late."""
        self.era += 1
        self.window.clear()
        self._changed(cause)

    def _move(self, cause: str, move: Callable[[], Any]) -> None:
        self._cause = cause
        move()
        self._cause = "manual"

    def _enter(self, state: str) -> None:
        """Follow a change of pybreaker's state, whoever made it."""
        self.state = "half_open" if state == STATE_HALF_OPEN else state
        if state == STATE_OPEN:
            window = self._next_window()
            self.open_until = self._clock() + window
            self._circuit.reset_timeout = window
        elif state == STATE_CLOSED:
            self.opens = 0
        self.renew(cause=self._cause)

    def _next_window(self) -> float:
        asked, self._open_seconds_asked = self._open_seconds_asked, None
        if asked is not None:
            return asked
        policy = self.policy
        self.opens += 1
        window = min(policy.open_seconds_max, policy.open_seconds * 2.0 ** (self.opens - 1))
        window *= 1 + JITTER * (2 * self._random() - 1)
        return max(window, min(self._hint_seconds or 0.0, policy.throttle_seconds_max))

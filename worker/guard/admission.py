"""Who may make an attempt now, and what its end means for the next one.

    peek    asks and takes nothing
    admit   gives a permit: any number while closed, exactly one (the trial) while half-open
    settle  takes the permit back; what began in an older era is late: counted, and moves nothing

Above the breaker stand an operator's override, until it is released or runs out, and the hold
that a server asked for with Retry-After. A lock around each method makes other threads welcome;
it is never held across an await, and signals are told after it is let go.
"""

from __future__ import annotations

import random as random_module
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from worker.core.errors import Rejected, Throttled
from worker.guard.breaker import Breaker, BreakerOpen
from worker.guard.policy import GuardPolicy
from worker.guard.verdict import Ruling, Verdict
from worker.telemetry.signals import BreakerChanged, BreakerCounted, OverrideChanged, Signal
from worker.telemetry.tell import Telemetry

MEASURED_ONLY = -1  # the era of permits whose end is counted and never replayed


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to make one attempt, to be handed back to `settle` exactly once."""

    era: int
    is_trial: bool
    throttles: int  # how often in a row the dependency had throttled us when this was given


@dataclass(frozen=True, slots=True)
class Override:
    """An operator's word: `kind` open or closed; `until` is wall clock, None for ever."""

    kind: str
    who: str
    why: str
    until: float | None
    ends: float | None  # the same moment on the monotonic clock


class Admission:
    """Permits for one dependency. Thread-safe."""

    def __init__(
        self,
        name: str,
        policy: GuardPolicy,
        *,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self.name = name
        self.policy = policy
        self.counts: dict[str, int] = {}
        self.breaker = Breaker(name, policy, clock=clock, random=random, changed=self._changed)
        self._telemetry, self._clock, self._wall = telemetry, clock, wall
        self._lock = threading.Lock()
        self._signals: deque[Signal] = deque()
        self._override: Override | None = None
        self._trial: Permit | None = None
        self._held_until: float | None = None  # the hold of a Retry-After
        self._throttles = 0  # answers 429 in a row
        self._failures_measured = 0  # in a row, while nothing is replayed
        self._last_error_type: str | None = None
        self._opened_at: float | None = None  # wall clock
        self._shown = self._effective()
        self._refresh()

    def __repr__(self) -> str:
        return f"Admission({self.name}: {self._effective()}, {self.breaker!r})"

    # --- what it looks like -----------------------------------------------------------------

    @property
    def state(self) -> str:
        """closed, open, half_open, forced_open, forced_closed or metrics_only."""
        with self._lock:
            self._expire()
            state = self._effective()
        self._flush()
        return state

    @property
    def open_seconds_left(self) -> float | None:
        """How long calls stay rejected: 0 when a trial is due, None if not open or for ever."""
        word = self._override
        if word is None:
            return self.breaker.open_seconds_left
        if word.kind == "closed" or word.ends is None:
            return None
        return max(0.0, word.ends - self._clock())

    def snapshot(self) -> dict[str, Any]:
        """Return everything an operator may want to see, as plain values."""
        with self._lock:
            self._expire()
            held, word, breaker = self._held_until, self._override, self.breaker
            override = None
            if word is not None:
                override = {"kind": word.kind, "who": word.who, "why": word.why}
                override["until"] = word.until  # type: ignore[assignment]
            seen = {
                "state": self._effective(),
                "era": breaker.era,
                "opens": breaker.opens,
                "opened_at": self._opened_at,
                "open_seconds_left": self.open_seconds_left,
                "throttled_seconds_left": held and max(0.0, held - self._clock()),
                "consecutive_failures": breaker.failures,
                "trial_in_flight": self._trial is not None,
                "last_error_type": self._last_error_type,
                "window": breaker.window.snapshot(),
                "counts": dict(self.counts),
                "override": override,
            }
        self._flush()
        return seen

    def _effective(self) -> str:
        if self._override is not None:
            return "forced_open" if self._override.kind == "open" else "forced_closed"
        return "metrics_only" if self.policy.metrics_only else self.breaker.state

    # --- admission --------------------------------------------------------------------------

    def peek(self, *, after_seconds: float = 0.0) -> Rejected | None:
        """Tell what `admit` would say now, or in a while. Takes nothing, changes nothing."""
        if self._calm:
            return None
        with self._lock:
            self._expire()
            objection = self._objection(self._clock() + after_seconds)
        self._flush()
        return objection

    def admit(self) -> Permit | Rejected:
        """Give a permit, which must come back through `settle`; or say why not."""
        if self._calm:
            return self._closed_permit
        with self._lock:
            answer = self._admit()
        self._flush()
        return answer

    def note_rejected(self, rejected: Rejected) -> None:
        """Count a call that was refused on our word."""
        with self._lock:
            self._count("rejected", rejected.reason)
        self._flush()

    def _objection(self, at: float) -> Rejected | None:
        word, breaker = self._override, self.breaker
        if word is not None and word.kind == "open":
            return self._rejected("forced_open", None if word.ends is None else word.ends - at)
        if self._is_measuring():
            return None  # whoever forced it closed, or only measures, wants every call through
        if self._held_until is not None and at < self._held_until:
            left = self._held_until - at
            text = f"{self.name}: throttled, {left:.1f} s left"
            return Throttled(text, dependency=self.name, retry_after_seconds=left)
        if breaker.state == "open" and at < breaker.open_until:
            return self._rejected("breaker_open", breaker.open_until - at)
        if breaker.state == "half_open" and self._trial is not None:
            return self._rejected("trial_in_flight", None)
        return None

    def _rejected(self, reason: str, left: float | None) -> BreakerOpen:
        return BreakerOpen(dependency=self.name, reason=reason, retry_after_seconds=left)

    def _admit(self) -> Permit | Rejected:
        self._expire()
        objection = self._objection(self._clock())
        if objection is not None:
            return objection
        if self._is_measuring():
            return Permit(MEASURED_ONLY, False, self._throttles)
        if self._held_until is not None:  # and it is over
            self._held_until = None
            self._refresh()
        if self.breaker.state == "open":
            self.breaker.half_open(cause="timer")
        if self.breaker.state == "half_open":
            self._trial = Permit(self.breaker.era, True, self._throttles)
            return self._trial
        return self._closed_permit

    # --- settlement -------------------------------------------------------------------------

    def settle(self, permit: Permit, ruling: Ruling, *, slow: bool = False) -> Verdict:
        """Take a permit back with the end of its attempt; returns the verdict that was used."""
        with self._lock:
            if permit is self._trial:
                self._trial = None
            verdict = self._settle(permit, ruling, slow)
        if self._signals:
            self._flush()
        return verdict

    def _settle(self, permit: Permit, ruling: Ruling, slow: bool) -> Verdict:
        verdict = ruling.verdict
        if ruling.throttled:
            verdict = self._throttle(permit, ruling)
        measured = permit.era == MEASURED_ONLY and self._is_measuring()
        if permit.era != self.breaker.era and not measured:
            self._count("late", verdict)
            return verdict
        if verdict is Verdict.NEUTRAL:
            self._count("ignored", ruling.error_type)
            return verdict
        if permit.is_trial and slow:
            verdict = Verdict.FAILURE  # too slow to be called recovered
        failed = verdict is Verdict.FAILURE
        self._count("failure" if failed else "slow" if slow else "success", ruling.error_type)
        if failed:
            self._last_error_type = ruling.error_type or "timeout"
        elif self._throttles:
            self._throttles = 0
            self._refresh()
        if measured:
            self._measure(failed, slow)
        else:
            hint = ruling.retry_after_seconds if failed else None
            self.breaker.replay(failed=failed, slow=slow, trial=permit.is_trial, hint_seconds=hint)
        return verdict

    def _throttle(self, permit: Permit, ruling: Ruling) -> Verdict:
        """Hold calls back for as long as the server said; once is no fault, again is one.

        Attempts that were under way when the first hold began are no repetition.
        """
        hint = ruling.retry_after_seconds
        if hint is not None:
            ends = self._clock() + min(hint, self.policy.throttle_seconds_max)
            self._held_until = max(ends, self._held_until or ends)
        self._throttles = max(self._throttles, permit.throttles + 1)
        self._refresh()
        return Verdict.FAILURE if permit.throttles else Verdict.NEUTRAL

    def _measure(self, failed: bool, slow: bool) -> None:
        """Count without consequence; in metrics_only, tell when it would have opened."""
        window = self.breaker.window
        self._failures_measured = self._failures_measured + 1 if failed else 0
        window.add(failed=failed, slow=slow)
        cause = window.objection()
        if self._failures_measured >= self.policy.fail_max:
            cause = "consecutive"
        if cause is not None and self._override is None:
            self._count("would_open", cause)
            self._failures_measured = 0
            window.clear()

    def _is_measuring(self) -> bool:
        if self._override is not None:
            return self._override.kind == "closed"
        return self.policy.metrics_only

    # --- words from outside -----------------------------------------------------------------

    def advise_open(self, seconds: float) -> bool:
        """Open on the word of the fleet for so long; False if it is not plainly closed.

        Not for longer than this worker could have found by itself: others may have other settings.
        """
        own = max(self.policy.open_seconds_max, self.policy.throttle_seconds_max)
        seconds = min(seconds, own)
        with self._lock:
            self._expire()
            follow = self._effective() == "closed"
            if follow:
                self.breaker.open(cause="fleet", seconds=seconds)
        self._flush()
        return follow

    def advise_trial(self, seconds: float) -> None:
        """Let the next trial come in so long, if it would come later; whether it closes, it says."""
        with self._lock:
            if self._effective() == "open":
                self.breaker.open_until = min(self.breaker.open_until, self._clock() + seconds)

    def force_open(self, *, who: str, why: str, until: float | None = None) -> None:
        """Reject everything until released, or until a wall clock time."""
        with self._lock:
            self._force("open", who, why, until)
            if self.breaker.state == "open":
                self.breaker.renew()
            else:
                self.breaker.open(cause="manual", seconds=self.policy.open_seconds)
        self._flush()

    def force_closed(self, *, who: str, why: str, until: float | None = None) -> None:
        """Let everything pass until released: ends are measured and change nothing."""
        with self._lock:
            self._force("closed", who, why, until)
            if self.breaker.state == "closed":
                self.breaker.renew()
            else:
                self.breaker.close(cause="manual")
        self._flush()

    def release(self, *, who: str, why: str = "released") -> bool:
        """Take an override back: forced open becomes half-open, forced closed closed.

        False if there was none.
        """
        with self._lock:
            had = self._override is not None
            self._release(who, why)
        self._flush()
        return had

    def _force(self, kind: str, who: str, why: str, until: float | None) -> None:
        # Kept on the monotonic clock too: a step of the wall clock must not end an override.
        ends = None if until is None else self._clock() + (until - self._wall())
        self._override = Override(kind, who, why, until, ends)
        self._signals.append(OverrideChanged(self.name, kind, who, why, until))

    def _release(self, who: str, why: str) -> None:
        word, self._override = self._override, None
        if word is None:
            return
        self._signals.append(OverrideChanged(self.name, "none", who, why))
        if word.kind == "closed":
            self.breaker.renew()
        elif self.policy.metrics_only:
            self.breaker.close(cause="manual")
        else:
            self.breaker.half_open(cause="manual")

    def _expire(self) -> None:
        word = self._override
        if word is not None and word.ends is not None and self._clock() >= word.ends:
            self._release("timer", f"the time that {word.who} gave is over")

    # --- telling ----------------------------------------------------------------------------

    def _changed(self, cause: str) -> None:
        """A new era began: free the trial, and announce the state if it looks different now."""
        self._trial = None
        self._failures_measured = 0
        self._refresh()
        before, after = self._shown, self._effective()
        if before == after:
            return
        self._shown = after
        self._opened_at = self._wall() if after in ("open", "forced_open") else None
        left, last = self.open_seconds_left, self._last_error_type
        self._signals.append(
            BreakerChanged(self.name, before, after, cause, self.breaker.era, left, last)
        )

    def _refresh(self) -> None:
        """Prepare the answer of the common case, which then needs neither clock nor lock."""
        self._closed_permit = Permit(self.breaker.era, False, self._throttles)
        self._calm = self._effective() == "closed" and self._held_until is None

    def _count(self, result: str, reason: str | None) -> None:
        self.counts[result] = self.counts.get(result, 0) + 1
        if reason == "cancelled":
            self.counts["cancelled"] = self.counts.get("cancelled", 0) + 1
        if self._telemetry.listeners:
            self._signals.append(BreakerCounted(self.name, result, reason))

    def _flush(self) -> None:
        """Tell what was noted, in order, after the lock is let go."""
        while self._signals:
            try:
                signal = self._signals.popleft()
            except IndexError:  # another thread was quicker
                return
            self._telemetry.tell(signal)

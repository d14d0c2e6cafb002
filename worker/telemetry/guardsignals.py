"""What is told of guards: import these from `signals.py`, which holds all signals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BreakerChanged:
    """A breaker changed its state; names as in the metric: closed, open, half_open, forced_*."""

    breaker: str
    from_state: str
    to_state: str
    cause: str  # consecutive | failure_rate | slow_rate | trial | timer | manual | fleet
    era: int
    open_seconds: float | None = None
    last_error_type: str | None = None


@dataclass(frozen=True, slots=True)
class BreakerCounted:
    """One verdict reached a breaker: success, failure, slow, ignored, rejected or late.

    A guard that only measures also tells `would_open`, with the rule that was met as reason.
    """

    breaker: str
    result: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class OverrideChanged:
    """An operator forced a breaker, or released it. `kind`: open | closed | none."""

    breaker: str
    kind: str
    who: str
    why: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """One try inside a guard."""

    kind: str  # tool | model
    target: str
    number: int
    verdict: str
    error_type: str | None
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """Another attempt will follow after `wait_seconds`."""

    kind: str
    target: str
    reason: str
    number: int
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class RetrySuppressed:
    """No further attempt: attempts, deadline, breaker, budget or not_idempotent."""

    kind: str
    target: str
    cause: str


@dataclass(frozen=True, slots=True)
class FallbackUsed:
    """A rung of the ladder was tried: alternative, stale or stub; outcome success or error."""

    kind: str
    target: str
    fallback: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class BulkheadMeasured:
    """How many attempts a dependency has in flight, waiting and left behind (zombies)."""

    breaker: str
    in_use: int
    limit: int
    waiting: int
    zombies: int


@dataclass(frozen=True, slots=True)
class BreakerMeasured:
    """A breaker as it stands; read at each scrape. Ratios from 0 to 1, `opened_at` wall clock."""

    breaker: str
    state: str
    failure_ratio: float = 0.0
    slow_ratio: float = 0.0
    opened_at: float | None = None
    override: str | None = None  # open | closed


@dataclass(frozen=True, slots=True)
class RetryBudgetMeasured:
    """What is left of a retry budget, from 0 to 1; read at each scrape."""

    kind: str
    ratio: float


GuardSignal = (
    BreakerChanged
    | BreakerCounted
    | OverrideChanged
    | AttemptEnded
    | RetryScheduled
    | RetrySuppressed
    | FallbackUsed
    | BulkheadMeasured
    | BreakerMeasured
    | RetryBudgetMeasured
)

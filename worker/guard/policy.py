"""What is asked of a guard, and what comes back: the values, without behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, Protocol, TypeVar

from worker.core.errors import ConfigError
from worker.core.messages import Source
from worker.guard.verdict import Classify

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """The limits around one dependency, shared by every tool that uses it. Seconds, attempts."""

    fail_max: int = 5  # failed attempts in a row that open the breaker
    window_calls: int = 20  # attempts that the failure and slow ratios look back on
    window_calls_min: int = 10  # fewer than that say nothing
    failure_ratio: float = 0.5
    slow_seconds: float | None = None  # None: 0.8 of the attempt's own time limit
    slow_ratio: float = 0.8
    open_seconds: float = 5.0  # first open window; it doubles with each failed trial
    open_seconds_max: float = 60.0
    success_threshold: int = 1  # trials that must succeed, one after another, to close
    limit: int = 8  # attempts at once
    queue_max: int = 16  # calls that may wait for a slot
    queue_seconds: float = 0.5  # and for how long
    budget_tokens: float = 10.0  # retries in store; one costs 1
    budget_refill: float = 0.1  # what a success earns
    cancel_grace_seconds: float = 0.2  # for a cancelled tool to end, before it is left behind
    throttle_seconds_max: float = 120.0  # cap of a server's Retry-After
    metrics_only: bool = False  # count and tell, but never reject

    def __post_init__(self) -> None:
        """Refuse values that cannot work. Raises ConfigError."""
        for one in fields(self):
            value = getattr(self, one.name)
            may_be_zero = one.name in _MAY_BE_ZERO
            if isinstance(value, int | float) and not isinstance(value, bool):
                _require(value > 0 or (may_be_zero and value == 0), one.name, value, "positive")
        _require(self.failure_ratio <= 1, "failure_ratio", self.failure_ratio, "at most 1")
        _require(self.slow_ratio <= 1, "slow_ratio", self.slow_ratio, "at most 1")
        _require(
            self.window_calls_min <= self.window_calls,
            "window_calls_min",
            self.window_calls_min,
            "at most window_calls",
        )
        _require(
            self.open_seconds <= self.open_seconds_max,
            "open_seconds",
            self.open_seconds,
            "at most open_seconds_max",
        )


_MAY_BE_ZERO = frozenset(
    {"queue_max", "queue_seconds", "budget_tokens", "budget_refill", "cancel_grace_seconds"}
)


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise ConfigError(f"guard {name} is {value!r}; it must be {rule}")


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """What an attempt is told about itself. `idempotency_key` and `arguments` pass through."""

    number: int = 0  # from 1
    timeout_seconds: float = 0.0  # how long this attempt may take
    idempotency_key: str | None = None
    arguments: Any = None  # so that an alternative, built once per tool, knows what was asked


class Remembered(Protocol):
    """A stored value and when it was stored (wall clock seconds)."""

    @property
    def value(self) -> str:
        """The text that was stored."""
        ...

    @property
    def at(self) -> float:
        """When it was stored."""
        ...


class LastGood(Protocol):
    """Where last good values are kept; `worker/store/port.py` has the full contract."""

    async def remember(self, key: str, value: str, *, at: float) -> None:
        """Store a value. Cancelled: it is stored or not."""
        ...

    async def recall(self, key: str) -> Remembered | None:
        """Return the value however old, or None. Cancelled: nothing happens."""
        ...


@dataclass(frozen=True, slots=True)
class Fallback:
    """The ladder of one tool: alternative, then the last good value, then the stub.

    The alternative gets the same AttemptInfo as an attempt, may be sync or async, has a limit of
    its own and is not counted by the breaker. Values are stored as JSON; one that JSON cannot
    hold is not remembered.
    """

    alternative: Callable[[AttemptInfo], Any] | None = None
    alternative_seconds: float = 1.0
    last_good: LastGood | None = None
    stale_seconds: float | None = None  # how old a last good value may be; None: none is kept
    stub: Any = None  # None: no stub


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How one tool (or the model) is called."""

    kind: str  # tool | model: a metric label
    target: str  # the tool's or the model's name
    timeout_seconds: float = 5.0  # of one attempt
    deadline_seconds: float = 15.0  # of all attempts, waiting included
    attempts: int = 3
    backoff_seconds: float = 0.1  # full jitter, doubled with each attempt
    backoff_seconds_max: float = 2.0
    repeatable: bool = True  # False: retried only if the error proves that nothing was sent
    fallback: Fallback | None = None
    classify: Classify | None = None
    throttle_wait_seconds: float = 0.0  # how long a call sits out a Retry-After before it starts
    # The attempt is async, keeps its time limit and ends when it is cancelled: our own code, which
    # needs no task to be left behind in.
    is_trusted: bool = False

    def __post_init__(self) -> None:
        """Refuse values that cannot work. Raises ConfigError."""
        _require(self.kind in ("tool", "model"), "kind", self.kind, "tool or model")
        _require(self.timeout_seconds > 0, "timeout_seconds", self.timeout_seconds, "positive")
        _require(self.attempts >= 1, "attempts", self.attempts, "at least 1")
        _require(
            self.deadline_seconds >= self.timeout_seconds,
            "deadline_seconds",
            self.deadline_seconds,
            "at least timeout_seconds",
        )


def doubts(guard: GuardPolicy, call: CallPolicy) -> list[str]:
    """Return what is allowed and yet hardly meant, one sentence each, for a warning at start."""
    found = []
    if guard.fail_max < call.attempts + 2 and call.attempts > 1:
        found.append(
            f"{call.target}: fail_max {guard.fail_max} is under attempts + 2 "
            f"({call.attempts + 2}); one unlucky call nearly opens the breaker alone"
        )
    if guard.open_seconds <= call.timeout_seconds:
        found.append(
            f"{call.target}: open_seconds {guard.open_seconds:g} is not above timeout_seconds "
            f"{call.timeout_seconds:g}; results of before the trip will come late"
        )
    return found


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What a guarded call came back with. `error` is set unless the source is live.

    `reason` tells why the value is not live: breaker_open, trial_in_flight, forced_open,
    throttled, bulkhead_full, deadline, timeout, connection, http_5xx, …; `error_type` is the word
    of telemetry's closed set. `dependency_failed` is False for business errors and for a deadline
    of the caller. `sent` is False only when no attempt can have had an effect.
    """

    value: T | None
    source: Source
    error: Exception | None = None
    reason: str | None = None
    error_type: str | None = None
    attempts: int = 1
    age_seconds: float | None = None
    retry_after_seconds: float | None = None
    duration_seconds: float = 0.0
    dependency_failed: bool = False
    sent: bool = True
    status_code: int | None = None

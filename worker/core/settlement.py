"""What to tell the queue after a run: ack, nack, park or dead-letter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from worker.core.limits import Status

Action = Literal["ack", "retry", "park", "release", "dead_letter"]

# The same request may succeed later: the dependency is down or busy.
TRANSIENT = frozenset({Status.MODEL_UNAVAILABLE, Status.RATE_LIMITED, Status.TIMEOUT, Status.ERROR})
# No delivery of this task can succeed before somebody mends something.
PERMANENT = frozenset(
    {
        Status.AUTH_ERROR,
        Status.QUOTA_EXHAUSTED,
        Status.BAD_REQUEST,
        Status.PROTOCOL_ERROR,
        Status.CONTEXT_OVERFLOW,
        Status.REJECTED,
    }
)

_BUSY_SECONDS = 0.2  # the first delay of a task whose session is busy
_BUSY_SECONDS_EACH = 5.0  # the longest one, for each place in the line
_BUSY_SECONDS_MAX = 60.0
_OUTAGE_SECONDS = 1.0  # the first delay of a task whose journal is out of reach
_OUTAGE_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Settlement:
    """One action on the broker. `counted=False` uses up no delivery."""

    action: Action
    delay_seconds: float = 0.0
    counted: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Where a task stands with its deliveries, and how long to wait between them."""

    number: int
    limit: int
    backoff_seconds: float
    backoff_seconds_max: float

    @property
    def used_up(self) -> bool:
        """Whether this was the last delivery that the task gets."""
        return self.number >= self.limit


def settle_ended(
    status: str,
    error: str | None,
    deliveries: Deliveries,
    *,
    hint_seconds: float | None = None,
    attempted: bool = True,
) -> Settlement:
    """Turn an ending into one action.

    `hint_seconds` is what the dependency asked for (Retry-After, or the time until its breaker
    lets a trial through); the longer wait wins. With `attempted=False` nothing was asked of the
    dependency at all, and the delivery does not count: an outage of minutes must not empty the
    queue into the dead letters. The deadline of the run bounds how long that may go on.
    """
    reason = f"{status}: {error}" if error else str(status)
    if status in PERMANENT:
        return Settlement("dead_letter", reason=reason)
    if status not in TRANSIENT:
        return Settlement("ack", reason=reason)
    if not attempted:
        delay = max(deliveries.backoff_seconds, hint_seconds or 0.0)
        return Settlement("retry", delay_seconds=delay, counted=False, reason=reason)
    if deliveries.used_up:
        return Settlement(
            "dead_letter", reason=f"{reason} (delivery {deliveries.number} of {deliveries.limit})"
        )
    delay = deliveries.backoff_seconds * 2.0 ** (deliveries.number - 1)
    delay = max(min(delay, deliveries.backoff_seconds_max), hint_seconds or 0.0)
    return Settlement("retry", delay_seconds=delay, reason=reason)


def settle_parked(delay_seconds: float, reason: str) -> Settlement:
    """A run that waits for a time, a job or a person: hidden, and no delivery used up."""
    return Settlement("park", delay_seconds=delay_seconds, counted=False, reason=reason)


def settle_handed_back(reason: str, *, delay_seconds: float = 0.0) -> Settlement:
    """A run that was interrupted by us (drain, busy): no delivery used up (invariant 5)."""
    return Settlement("release", delay_seconds=delay_seconds, counted=False, reason=reason)


def settle_outage(handings: int) -> Settlement:
    """A task whose journal was out of reach: hidden, and no delivery used up.

    The delay grows with each handing, for it may be this journal alone that cannot be written.
    """
    delay = min(_OUTAGE_SECONDS * 2.0 ** min(handings - 1, 16), _OUTAGE_SECONDS_MAX)
    return settle_handed_back("the store was out of reach", delay_seconds=delay)


def settle_session_busy(ahead: int, handings: int) -> Settlement:
    """A task whose session another run has: hidden, and no delivery used up.

    It is woken when its turn comes. The delay is for when nobody is left who could wake it; it
    grows with each handing, and the more so the more wait in front: a long line must not keep a
    worker from the tasks of others.
    """
    bound = min(_BUSY_SECONDS_EACH * (ahead + 1), _BUSY_SECONDS_MAX)
    delay = min(_BUSY_SECONDS * (ahead + 1) ** 2 * 2.0 ** min(handings - 1, 16), bound)
    return Settlement("release", delay_seconds=delay, counted=False, reason="session busy")

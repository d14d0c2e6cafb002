"""The knobs of the layers around every dependency, and their exceptions for one of them."""

from __future__ import annotations

from pydantic import Field

from worker.section import Seconds, Section


class GuardSettings(Section):
    """The layers around every dependency (docs: guard)."""

    attempts: int = Field(3, ge=1, le=20, description="Attempts of one tool call, first included.")
    backoff_seconds: Seconds = Field(
        0.1, ge=0, le=60, description="Upper bound of the first back-off; full jitter, doubling."
    )
    backoff_seconds_max: Seconds = Field(2.0, ge=0, le=600, description="Longest back-off.")
    budget_refill: float = Field(
        0.1, ge=0, le=10, description="Retry tokens earned by each success."
    )
    budget_tokens: float = Field(10, ge=0, le=10_000, description="Retry tokens at most.")
    cancel_grace_seconds: Seconds = Field(
        0.2, ge=0, le=30, description="How long a timed-out tool may take to obey its cancellation."
    )
    deadline_seconds: Seconds = Field(
        15.0, gt=0, le=3600, description="Longest time of one tool call, all attempts included."
    )
    fail_max: int = Field(
        5, ge=1, le=1000, description="Failed attempts in a row that open the breaker."
    )
    failure_ratio: float = Field(
        0.5, gt=0, le=1, description="Share of failed attempts in the window that opens it."
    )
    fleet: bool = Field(
        True, description="Take open breakers of other workers on the same store as advice."
    )
    fleet_seconds: Seconds = Field(
        0.5, ge=0.05, le=60, description="How often workers tell each other of their breakers."
    )
    limit: int | None = Field(
        None, ge=1, le=10_000, description="Attempts in flight per dependency; 8 or CONCURRENCY."
    )
    metrics_only: bool = Field(
        False, description="Measure and log what would have opened, reject nothing."
    )
    open_seconds: Seconds = Field(
        5.0, gt=0, le=3600, description="First open window; doubles with each failed trial."
    )
    open_seconds_max: Seconds = Field(60.0, gt=0, le=86400, description="Longest open window.")
    queue_max: int | None = Field(
        None, ge=0, le=100_000, description="Attempts waiting for a slot; 16 or CONCURRENCY."
    )
    queue_seconds: Seconds = Field(0.5, ge=0, le=600, description="Longest wait for a slot.")
    slow_ratio: float = Field(0.8, gt=0, le=1, description="Share of slow calls that opens it.")
    success_threshold: int = Field(
        1, ge=1, le=100, description="Successful trials, one after another, that close it."
    )
    throttle_seconds_max: Seconds = Field(
        120.0, gt=0, le=86400, description="Longest Retry-After that is waited for."
    )
    timeout_seconds: Seconds = Field(
        5.0, gt=0, le=3600, description="Longest time of one attempt, unless the tool says so."
    )
    window_calls: int = Field(20, ge=1, le=10_000, description="Attempts the ratios look at.")
    window_calls_min: int = Field(
        10, ge=1, le=10_000, description="Attempts needed before the ratios count."
    )


class GuardOverride(Section):
    """What operations know of one dependency or tool: `LOOPWORKER_GUARDS__QUOTE__FAIL_MAX=3`."""

    attempts: int | None = Field(None, ge=1, le=20)
    deadline_seconds: Seconds | None = Field(None, gt=0, le=3600)
    fail_max: int | None = Field(None, ge=1, le=1000)
    failure_ratio: float | None = Field(None, gt=0, le=1)
    limit: int | None = Field(None, ge=1, le=10_000)
    metrics_only: bool | None = None
    open_seconds: Seconds | None = Field(None, gt=0, le=3600)
    open_seconds_max: Seconds | None = Field(None, gt=0, le=86400)
    queue_max: int | None = Field(None, ge=0, le=100_000)
    queue_seconds: Seconds | None = Field(None, ge=0, le=600)
    success_threshold: int | None = Field(None, ge=1, le=100)
    timeout_seconds: Seconds | None = Field(None, gt=0, le=3600)
    window_calls: int | None = Field(None, ge=1, le=10_000)
    window_calls_min: int | None = Field(None, ge=1, le=10_000)

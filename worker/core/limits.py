"""How far a run may go, and the names of the reasons it stops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a run ended. A closed set: one value of the `reason` label each."""

    COMPLETED = "completed"
    MAX_STEPS = "max_steps"
    NO_INFORMATION = "no_information"
    HANDOFF = "handoff"
    LOOP_DETECTED = "loop_detected"
    TOOL_ERRORS = "tool_errors"
    DEADLINE = "deadline"
    BUDGET = "budget"
    INCOMPLETE_LENGTH = "incomplete_length"
    CONTENT_FILTERED = "content_filtered"
    REFUSED = "refused"
    EMPTY_RESPONSE = "empty_response"
    CONTEXT_OVERFLOW = "context_overflow"
    PROTOCOL_ERROR = "protocol_error"
    MODEL_UNAVAILABLE = "model_unavailable"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    AUTH_ERROR = "auth_error"
    BAD_REQUEST = "bad_request"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    ERROR = "error"


BAD_FOR_OBJECTIVE = frozenset(
    {
        Status.MODEL_UNAVAILABLE,
        Status.RATE_LIMITED,
        Status.QUOTA_EXHAUSTED,
        Status.AUTH_ERROR,
        Status.PROTOCOL_ERROR,
        Status.TIMEOUT,
        Status.TOOL_ERRORS,
        Status.LOOP_DETECTED,
        Status.MAX_STEPS,
        Status.EMPTY_RESPONSE,
        Status.DEADLINE,
        Status.BUDGET,
        Status.ERROR,
    }
)
NOT_COUNTED = frozenset({Status.CANCELLED, Status.REJECTED})


def final_status(status: str) -> str:
    """Tell the operators' word for an ending: `success` where the objective says good.

    Endings that the objective does not count (cancelled, rejected) answered nobody, so they are
    logged as `error`.
    """
    return "error" if status in BAD_FOR_OBJECTIVE or status in NOT_COUNTED else "success"


@dataclass(frozen=True, slots=True)
class Limits:
    """The caps of one run. Everything has a limit; None means that this one is off."""

    max_calls_per_step: int = 32  # calls in one reply; more are answered `skipped`
    max_invalid_turns: int = 3  # replies in a row in which no call could be run (models.md R7)
    max_empty_replies: int = 2  # empty replies asked again before `empty_response`
    max_repeats: int = 4  # rounds of the same call with the same result; warned one before
    tokens: int | None = None  # prompt and completion tokens of the whole run
    cost: float | None = None  # money of the whole run, in the currency of the price list
    honesty_gate: str = "replace"  # replace | remove | off: invented figures of a degraded answer

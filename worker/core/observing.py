"""From the outcome of a guarded tool call to the observation that the model reads."""

from __future__ import annotations

import json
from typing import Any

from worker.core.messages import Observation, Source, ToolCall
from worker.core.texts import (
    ALTERNATIVE,
    INTERRUPTED,
    OUTCOME_UNKNOWN,
    RETRY_AFTER,
    STALE,
    TOOL_FAILED,
    UNAVAILABLE,
)

# HTTP-like status codes for every tool (telemetry.md 5.3).
STATUS_CODES = {
    None: 200,
    "invalid_arguments": 422,
    "unknown_tool": 404,
    "cancelled": 499,
    "circuit_open": 503,
    "bulkhead_full": 503,
    "timeout": 504,
    "result_too_large": 413,
    "rate_limited": 429,
    "connection": 502,
    "http_5xx": 502,
    "http_4xx": 400,
}


def error_text(kind: str, message: str, **more: Any) -> str:
    """A structured error that a model can act on, as the content of a tool message."""
    error = {"type": kind, "message": message, **more}
    return json.dumps({"error": error}, ensure_ascii=False)


def status_code_of(error_type: str | None, error: BaseException | None) -> int:
    """The status code of a call: the dependency's own when it told one."""
    told = getattr(error, "status_code", None)
    if isinstance(told, int) and 100 <= told <= 599:
        return told
    return STATUS_CODES.get(error_type, 500)


def refused(call: ToolCall) -> Observation:
    """The call cannot be run as the model made it; the text says what to mend."""
    kind = call.problem_kind or "invalid_arguments"
    text = call.problem or error_text(kind, "the call cannot be run")
    return Observation(
        text, Source.ERROR, error_type=kind, reason=kind, status_code=STATUS_CODES[kind]
    )


def told_stub(stub: str, tool: str, retry_after: float | None, *, language: str) -> str:
    """What the model reads in place of a result that cannot be had."""
    retry = ""
    if retry_after:
        retry = RETRY_AFTER[language].format(seconds=max(1, round(retry_after)))
    return UNAVAILABLE[language].format(stub=stub, tool=tool, retry=retry)


def told_stale(value: str, tool: str, age: float, *, language: str) -> str:
    """What the model reads with a last good value, its age told."""
    return STALE[language].format(value=value, tool=tool, age=round(age))


def told_alternative(value: str, *, language: str) -> str:
    """What the model reads with a value from the alternative source."""
    return ALTERNATIVE[language].format(value=value)


def told_failure(tool: str, reason: str, *, language: str) -> str:
    """What the model reads of a dependency that failed: no exception text, no host, no key."""
    return error_text(reason, TOOL_FAILED[language].format(tool=tool, reason=reason))


def called_off(*, language: str, duration_seconds: float = 0.0) -> Observation:
    """A call without effect that was interrupted, or never begun, because its run was cancelled."""
    return Observation(
        INTERRUPTED[language],
        Source.SKIPPED,
        error_type="cancelled",
        reason="cancelled",
        status_code=STATUS_CODES["cancelled"],
        duration_seconds=duration_seconds,
    )


def unknown_outcome(*, language: str, reason: str, attempts: int = 0) -> Observation:
    """An effect that may have happened; it is never tried again (invariant 3)."""
    return Observation(
        OUTCOME_UNKNOWN[language],
        Source.UNKNOWN,
        error_type="other",
        reason=reason,
        status_code=504,
        attempts=attempts,
        dependency_failed=True,
    )

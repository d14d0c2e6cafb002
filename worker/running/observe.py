"""Turn the outcome of a guarded tool call into the observation that the model reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from worker.core.errors import ToolError
from worker.core.messages import Observation, Source
from worker.core.observing import (
    error_text,
    status_code_of,
    told_alternative,
    told_failure,
    told_stale,
    told_stub,
    unknown_outcome,
)
from worker.guard.policy import Outcome
from worker.registry import Tool
from worker.toolkit.job import NotAJob

_ERROR_CHARS_MAX = 500
# After one of these nobody knows whether a write has happened.
_LOST = frozenset({"timeout", "connection", "http_5xx"})


Redact = Callable[[str], str]


def observation_of(
    tool: Tool, outcome: Outcome[Any], *, language: str, redact: Redact
) -> Observation:
    """Build the observation. `outcome.value` is as `toolguard.shaped` made it, or the stub.

    `redact` takes secrets out of a tool's own error text.
    """
    match outcome.source:
        case Source.LIVE:
            return _live(tool, outcome)
        case Source.ALTERNATIVE:
            content = told_alternative(_content(outcome), language=language)
            return _with(outcome, content)
        case Source.STALE:
            age = outcome.age_seconds or 0.0
            content = told_stale(_content(outcome), tool.name, age, language=language)
            return _with(outcome, content)
        case Source.STUB:
            stub = str(outcome.value)
            retry_after = outcome.retry_after_seconds
            content = told_stub(stub, tool.name, retry_after, language=language)
            return _with(outcome, content, stub=stub)
        case _:
            return _failed(tool, outcome, language, redact)


def _live(tool: Tool, outcome: Outcome[Any]) -> Observation:
    value = outcome.value or {}
    return Observation(
        _content(outcome),
        Source.LIVE,
        attempts=outcome.attempts,
        duration_seconds=outcome.duration_seconds,
        result_bytes=value["result_bytes"],
        empty=value["empty"] and tool.effect == "read",
    )


def _content(outcome: Outcome[Any]) -> str:
    return str((outcome.value or {})["content"])


def _failed(tool: Tool, outcome: Outcome[Any], language: str, redact: Redact) -> Observation:
    is_lost = outcome.error_type in _LOST or isinstance(outcome.error, NotAJob)
    if tool.effect == "write" and outcome.sent and is_lost:
        return unknown_outcome(
            language=language, reason=outcome.error_type or "lost", attempts=outcome.attempts
        )
    error, reason = outcome.error, outcome.reason or outcome.error_type or "error"
    has_words = outcome.error_type in ("internal", "other") and reason != "not_configured"
    if isinstance(error, ToolError) or has_words:
        # The tool's own words: they may tell the model what to do better.
        text = redact(_words(error))[:_ERROR_CHARS_MAX] or type(error).__name__
        content = error_text("tool_error", text, tool=tool.name)
    else:
        content = told_failure(tool.name, reason, language=language)
    return _with(outcome, content)


def _words(error: Exception | None) -> str:
    try:
        return str(error)
    except Exception:  # a foreign __str__ may do anything
        return ""


def _with(outcome: Outcome[Any], content: str, *, stub: str | None = None) -> Observation:
    status = outcome.status_code or status_code_of(outcome.error_type, outcome.error)
    return Observation(
        content,
        outcome.source,
        error_type=outcome.error_type,
        reason=outcome.reason or outcome.error_type,
        status_code=status,
        attempts=outcome.attempts,
        duration_seconds=outcome.duration_seconds,
        result_bytes=len(content.encode("utf-8", "replace")),
        age_seconds=outcome.age_seconds,
        retry_after_seconds=outcome.retry_after_seconds,
        stub=stub,
        dependency_failed=outcome.dependency_failed,
    )

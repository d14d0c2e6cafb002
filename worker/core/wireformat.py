"""The public wire format, version 1: tasks and results as JSON objects, and back.

Works on decoded JSON values; bytes are the business of `worker/intake.py` (in) and the store.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

from worker.core.errors import TaskInvalid
from worker.core.limits import Status
from worker.core.task import Budget, CallRecord, Degradation, Handoff, Result, Symptom, Task

VERSION = 1
MAX_INPUT_CHARS = 1_048_576
MAX_ID_CHARS = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffd]")  # U+FFFD: what it was is not known
_TIMES_BEGIN = -62_135_596_800.0
TIMES_END = 253_402_300_800.0  # the year 10000, which no calendar here can write
_TASK_FIELDS = frozenset(Task.__dataclass_fields__) | {"version"}


def rfc3339(at: float | None) -> str | None:
    """Seconds since the epoch as RFC 3339 in UTC with milliseconds.

    A time before the year 1 or after 9999, which only a foreign hand writes, is told as that end,
    and one that is not a number as none.
    """
    if at is None or math.isnan(at):
        return None
    moment = datetime.fromtimestamp(min(max(at, _TIMES_BEGIN), TIMES_END - 0.0005), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(value: object, *, field: str) -> float | None:
    """Read an RFC 3339 time (with a zone) or seconds since the epoch. Raises TaskInvalid."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _within(value, field, _shown(value))
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise TaskInvalid(
                f"{field}: {value[:40]!r} is not a time; write 2026-12-02T10:00:00Z", field=field
            ) from None
        if moment.tzinfo is None:
            raise TaskInvalid(f"{field}: {value!r} has no time zone; add Z or +08:00", field=field)
        return _within(moment.timestamp(), field, repr(value))
    raise TaskInvalid(f"{field}: must be a time as text, got {_kind(value)}", field=field)


def _within(seconds: float, field: str, shown: str) -> float:
    if 0 <= seconds < TIMES_END:  # false for NaN, and exact for the largest integers
        return float(seconds)
    raise TaskInvalid(f"{field}: {shown} is not a time between 1970 and 9999", field=field)


def task_from_wire(value: object, *, default_id: str) -> Task:
    """Read a task. Raises TaskInvalid with the field that is wrong.

    `default_id` serves when the task names none (the id of the queue message).
    """
    if not isinstance(value, dict):
        raise TaskInvalid(f"a task is a JSON object, got {_kind(value)}", field="task")
    version = value.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise TaskInvalid(
            f"version: {str(version)[:40]!r} is not known here; this worker reads version {VERSION}",
            field="version",
        )
    if "input" not in value:
        raise TaskInvalid("input: missing; a task needs at least an input", field="input")
    text = _text(value, "input", MAX_INPUT_CHARS, optional=False)
    assert text is not None
    if not text.strip():
        raise TaskInvalid("input: empty; say what the worker should do", field="input")
    not_before = parse_time(value.get("not_before"), field="not_before")
    deadline = parse_time(value.get("deadline"), field="deadline")
    if not_before is not None and deadline is not None and deadline <= not_before:
        raise TaskInvalid("deadline: is not after not_before; it could never run", field="deadline")
    extensions = dict(_object(value, "extensions"))
    extensions.update({k: v for k, v in value.items() if k not in _TASK_FIELDS})
    return Task(
        id=_name(value, "id") or default_id,
        input=text,
        session_id=_name(value, "session_id"),
        tenant=_name(value, "tenant"),
        not_before=not_before,
        tools=_tools(value),
        max_steps=_integer(value, "max_steps", 1, 1000),
        deadline=deadline,
        budget=_budget(value),
        priority=_integer(value, "priority", -100, 100) or 0,
        reply_to=_text(value, "reply_to", 2000),
        metadata=dict(_object(value, "metadata")),
        traceparent=_header(value, "traceparent"),
        tracestate=_header(value, "tracestate"),
        extensions=extensions,
    )


def task_to_wire(task: Task) -> dict[str, Any]:
    """Write a task as a JSON object that `task_from_wire` reads back equal."""
    return {
        "version": VERSION,
        "id": task.id,
        "input": task.input,
        "session_id": task.session_id,
        "tenant": task.tenant,
        "not_before": rfc3339(task.not_before),
        "tools": None if task.tools is None else list(task.tools),
        "max_steps": task.max_steps,
        "deadline": rfc3339(task.deadline),
        "budget": {"tokens": task.budget.tokens, "cost": task.budget.cost},
        "priority": task.priority,
        "reply_to": task.reply_to,
        "metadata": task.metadata,
        "traceparent": task.traceparent,
        "tracestate": task.tracestate,
        "extensions": task.extensions,
    }


def result_to_wire(result: Result) -> dict[str, Any]:
    """Write a result as a JSON object."""
    return {
        "version": VERSION,
        "id": result.id,
        "task_id": result.task_id,
        "session_id": result.session_id,
        "status": str(result.status),
        "answer": result.answer,
        "steps": result.steps,
        "tool_calls": [
            {
                "id": c.id,
                "name": c.name,
                "arguments_hash": c.arguments_hash,
                "source": str(c.source),
                "duration_s": round(c.duration_s, 6),
                "attempts": c.attempts,
            }
            for c in result.tool_calls
        ],
        "degraded": [
            {
                "tool": d.tool,
                "source": str(d.source),
                "reason": d.reason,
                "age_s": d.age_s,
                "retry_after_s": d.retry_after_s,
            }
            for d in result.degraded
        ],
        "usage": {
            "model_calls": result.model_calls,
            "prompt_tokens": result.prompt_tokens,
            "completion_tokens": result.completion_tokens,
            "cost": result.cost,
        },
        "started_at": rfc3339(result.started_at),
        "ended_at": rfc3339(result.ended_at),
        "trace_id": result.trace_id,
        "worker": result.worker,
        "models": list(result.models),
        "diagnosis": [{"symptom": s.symptom, "hint": s.hint} for s in result.diagnosis],
        "error": result.error,
        "redrives": result.redrives,
        "handoff": None if result.handoff is None else _handoff_to_wire(result.handoff),
    }


def _handoff_to_wire(handoff: Handoff) -> dict[str, Any]:
    return {
        "rule": handoff.rule,
        "reason": handoff.reason,
        "source": handoff.source,
        "tool": handoff.tool,
        "call_id": handoff.call_id,
    }


def result_from_wire(value: dict[str, Any]) -> Result:
    """Read a result that `result_to_wire` wrote (of this or an older version)."""
    usage = value.get("usage") or {}
    return Result(
        task_id=value["task_id"],
        status=Status(value["status"]),
        answer=value.get("answer", ""),
        session_id=value.get("session_id"),
        steps=value.get("steps", 0),
        tool_calls=tuple(CallRecord(**call) for call in value.get("tool_calls", ())),
        degraded=tuple(Degradation(**part) for part in value.get("degraded", ())),
        model_calls=usage.get("model_calls", 0),
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        cost=usage.get("cost"),
        started_at=parse_time(value.get("started_at"), field="started_at"),
        ended_at=parse_time(value.get("ended_at"), field="ended_at"),
        trace_id=value.get("trace_id"),
        worker=value.get("worker", ""),
        models=tuple(value.get("models", ())),
        diagnosis=tuple(Symptom(**sign) for sign in value.get("diagnosis", ())),
        error=value.get("error"),
        redrives=value.get("redrives", 0),
        handoff=Handoff(**value["handoff"]) if value.get("handoff") else None,
    )


def _shown(value: float) -> str:
    # Python refuses to write integers of thousands of digits, and nobody wants to read one.
    return "a huge number" if isinstance(value, int) and abs(value) > 10**18 else repr(value)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def _text(value: dict[str, Any], field: str, limit: int, *, optional: bool = True) -> str | None:
    got = value.get(field)
    if got is None and optional:
        return None
    if not isinstance(got, str):
        raise TaskInvalid(f"{field}: must be text, got {_kind(got)}", field=field)
    if len(got) > limit:
        raise TaskInvalid(
            f"{field}: {len(got)} characters, at most {limit} are allowed",
            field=field,
            kind="too_large",
        )
    if optional and not got:
        raise TaskInvalid(f"{field}: empty; leave it out instead", field=field)
    return got


def _name(value: dict[str, Any], field: str) -> str | None:
    # Two names that look the same must be the same: no blanks around, no control characters.
    got = _text(value, field, MAX_ID_CHARS)
    if got is not None and (got != got.strip() or _CONTROL.search(got)):
        raise TaskInvalid(
            f"{field}: {got[:40]!r} has control characters, broken ones, or blanks at its ends",
            field=field,
        )
    return got


def _header(value: dict[str, Any], field: str) -> str | None:
    # A bad trace header must never cost a task (telemetry.md 2.2): it is dropped.
    got = value.get(field)
    return got if isinstance(got, str) and 0 < len(got) <= 8192 and got.isascii() else None


def _object(value: dict[str, Any], field: str) -> dict[str, Any]:
    got = value.get(field)
    if got is None:
        return {}
    if not isinstance(got, dict):
        raise TaskInvalid(f"{field}: must be an object, got {_kind(got)}", field=field)
    return got


def _integer(value: dict[str, Any], field: str, low: int, high: int) -> int | None:
    got = value.get(field)
    if got is None:
        return None
    if isinstance(got, bool) or not isinstance(got, int):
        raise TaskInvalid(f"{field}: must be a whole number, got {_kind(got)}", field=field)
    if not low <= got <= high:
        raise TaskInvalid(f"{field}: {_shown(got)} is not between {low} and {high}", field=field)
    return got


def _tools(value: dict[str, Any]) -> tuple[str, ...] | None:
    got = value.get("tools")
    if got is None:
        return None
    if not isinstance(got, list) or not all(isinstance(name, str) for name in got):
        raise TaskInvalid("tools: must be a list of tool names", field="tools")
    return tuple(got)


def _budget(value: dict[str, Any]) -> Budget:
    got = _object(value, "budget")
    for name in got:
        if name not in ("tokens", "cost"):
            raise TaskInvalid(
                f"budget.{name}: not known; allowed are tokens and cost", field=f"budget.{name}"
            )
    cost = got.get("cost")
    if cost is not None and (
        isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 < cost < 1e18
    ):
        raise TaskInvalid("budget.cost: must be a positive number", field="budget.cost")
    tokens = got.get("tokens")
    if tokens is not None and (
        isinstance(tokens, bool) or not isinstance(tokens, int) or not 1 <= tokens < 10**18
    ):
        raise TaskInvalid(
            "budget.tokens: must be a whole number from 1 to 10^18 - 1", field="budget.tokens"
        )
    return Budget(tokens=tokens, cost=None if cost is None else float(cost))

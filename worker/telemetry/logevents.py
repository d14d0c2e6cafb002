"""Which operation becomes which log line: event name, level and fields; signals: `logpoints.py`.

One small function per start or end; the tables at the end say which. Levels: info for the
life of a task, warning for anything degraded, error only where somebody must look, debug for what
would double the volume. The schema of all lines is `schema/log_line.schema.json`.
"""

from __future__ import annotations

from collections.abc import Callable
from logging import DEBUG, INFO, WARNING
from typing import Any, Protocol

from worker.core.observing import STATUS_CODES
from worker.telemetry import signals as s

Fields = dict[str, Any]

ERROR_CHARACTERS_MAX = 1_000

# Lines per ten seconds; the four points of the loop and the life of a task are never limited.
RATE_LIMITS = {
    "breaker.rejected": 10,
    "retry.scheduled": 50,
    "retry.exhausted": 20,
    "fallback.used": 50,
    "queue.receive.error": 5,
    "queue.error": 5,
    "store.error": 5,
    "lease.renew_failed": 10,
    "telemetry.dropped": 2,
    "telemetry.export_failed": 2,
    "eventloop.blocked": 5,
    "worker.stuck": 2,
    "error.unhandled": 50,
    "agent.tool.unknown": 20,
    "agent.tool.result_truncated": 20,
    "http.client_recycled": 10,
    "handoff.rule_broken": 10,
    "tool.state_dropped": 10,
}


class Writer(Protocol):
    """What these functions write with: the logs listener."""

    threshold: int

    def write(self, level: int, event: str, fields: Fields) -> None:
        """Write one line, if the level is on."""
        ...

    def content(self, text: str) -> str:
        """Return what LOG_CONTENT allows of the text."""
        ...

    def moment(self, seconds: float) -> str:
        """Return a time as RFC 3339."""
        ...


def status_code_of(operation: s.ToolCalling) -> int:
    """Return the HTTP-like code of a tool call; the body of the operation may know a better one."""
    if operation.status_code:
        return operation.status_code
    return STATUS_CODES.get(operation.error_type, 500)


def execution_time_of(operation: s.ToolCalling) -> float:
    """Return how long a tool call took, in seconds."""
    return operation.execution_time or operation.duration_seconds


def known(**fields: Any) -> Fields:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _failure(operation: s.Operation) -> Fields:
    if operation.error_type is None:
        return {}
    fields: Fields = {"error_type": operation.error_type}
    if operation.error:
        fields["error"] = operation.error[:ERROR_CHARACTERS_MAX]
    return fields


# --- the loop and its tools -----------------------------------------------------------------------


def _loop_started(out: Writer, run: s.RunLoop) -> None:
    fields = {
        "session_id": run.session_id,
        "user_input": out.content(run.user_input),
        "user_input_length": len(run.user_input),
        "start_time": out.moment(run.start_time),
        "model": run.model,
    }
    if run.resumed:
        fields["resumed"] = True
    out.write(INFO, "agent.loop.start", fields)


def _loop_ended(out: Writer, run: s.RunLoop) -> None:
    ended = run.end_time if run.end_time is not None else run.start_time + run.duration_seconds
    fields = {
        "session_id": run.session_id,
        "total_steps": run.total_steps,
        "max_steps": run.max_steps,
        "max_steps_reason": run.max_steps_reason,
        "final_status": "success" if run.final_status == "success" else "error",
        "end_time": out.moment(max(ended, run.start_time)),
        # A run that is handed back will go on elsewhere.
        "status": run.status or ("parked" if run.parked else "unfinished"),
        "duration_seconds": round(run.duration_seconds, 6),
        "model_calls": run.model_calls,
        "tool_calls": run.tool_calls,
        "prompt_tokens": run.prompt_tokens,
        "completion_tokens": run.completion_tokens,
    }
    if run.cost is not None:
        fields["cost"] = run.cost
    if run.degraded:
        fields["degraded"] = list(run.degraded)
    if run.handoff_rule is not None:
        fields["handoff_rule"] = run.handoff_rule
    if run.symptoms:
        fields["symptoms"] = list(run.symptoms)
    if len(run.models) > 1:
        fields["models"] = list(run.models)
    fields.update(_failure(run))
    well = run.final_status == "success" and not run.degraded
    out.write(INFO if well or run.status is None else WARNING, "agent.loop.end", fields)


def _tool_started(out: Writer, call: s.ToolCalling) -> None:
    out.write(INFO, "agent.tool.before", _tool(call))


def _tool_ended(out: Writer, call: s.ToolCalling) -> None:
    fields = _tool(call)
    fields["execution_time"] = round(execution_time_of(call), 6)
    fields["status_code"] = status_code_of(call)
    fields["result_size"] = call.result_size
    fields["attempts"] = call.attempts
    if call.source is not None:
        fields["source"] = call.source
    if call.reason or call.age_seconds is not None or call.retry_after_seconds is not None:
        fields |= known(
            reason=call.reason,
            age_seconds=call.age_seconds,
            retry_after_seconds=call.retry_after_seconds,
        )
    fields.update(_failure(call))
    well = call.error_type is None and call.source in (None, "live")
    out.write(INFO if well else WARNING, "agent.tool.after", fields)
    if not call.known:
        out.write(WARNING, "agent.tool.unknown", _tool(call))
    if call.truncated:
        out.write(WARNING, "agent.tool.result_truncated", _tool(call))


def _tool(call: s.ToolCalling) -> Fields:
    return {
        "tool_name": call.tool_name[:128],
        "arguments_hash": call.arguments_hash,
        "step_count": call.step_count,
        "call_id": call.call_id[:128],
        "dependency": call.dependency,
    }


def _step_started(out: Writer, step: s.Step) -> None:
    out.write(DEBUG, "agent.step.start", {"step": step.index})


def _step_ended(out: Writer, step: s.Step) -> None:
    fields = {"step": step.index, "duration_seconds": round(step.duration_seconds, 6)}
    out.write(DEBUG, "agent.step.end", fields | known(outcome=step.outcome) | _failure(step))


def _model_started(out: Writer, call: s.ModelCall) -> None:
    fields = {"provider": call.provider, "model": call.model, "server": call.server_address}
    out.write(DEBUG, "agent.model.before", fields)


def _model_ended(out: Writer, call: s.ModelCall) -> None:
    fields = {
        "provider": call.provider,
        "model": call.model,
        "execution_time": round(call.duration_seconds, 6),
        "attempts": call.attempts,
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
    }
    if call.finish_reason is not None:
        fields["finish_reason"] = call.finish_reason
    if call.first_chunk_seconds is not None:
        fields["first_chunk_seconds"] = round(call.first_chunk_seconds, 6)
    if call.error_type is None:
        out.write(INFO, "agent.model.after", fields)
    else:
        out.write(WARNING, "agent.model.error", fields | _failure(call))


def _queue_called(out: Writer, call: s.QueueCall) -> None:
    _port_called(out, call, "queue", {"queue": call.queue, "messages": call.messages})


def _store_called(out: Writer, call: s.StoreCall) -> None:
    verb, _, thing = call.name.partition("_")
    fields: Fields = {"events": call.events}
    if call.name == "lock_session" and call.answer == "conflict":
        out.write(INFO, "session.busy", {"ahead": call.ahead})
    elif thing == "session" and call.error_type == "conflict":
        out.write(WARNING, "session.conflict", _failure(call))
    elif thing == "session" and call.error_type is None and verb in ("load", "save"):
        event = "session.loaded" if verb == "load" else "session.saved"
        out.write(DEBUG, event, {"duration_seconds": round(call.duration_seconds, 6)})
    else:
        _port_called(out, call, "store", fields)


def _port_called(out: Writer, call: s.QueueCall | s.StoreCall, port: str, more: Fields) -> None:
    failed = call.error_type is not None and call.error_type != "cancelled"
    if not failed and out.threshold > DEBUG:
        return  # the common case, several times a step
    fields = {
        "operation": call.name,
        "system": call.system,
        "duration_seconds": round(call.duration_seconds, 6),
    }
    level, event = (WARNING, f"{port}.error") if failed else (DEBUG, f"{port}.call")
    out.write(level, event, fields | more | _failure(call))


Handler = Callable[[Writer, Any], None]

# The second value is the highest level that the function may write at.
STARTED: dict[type, tuple[Handler, int]] = {
    s.RunLoop: (_loop_started, INFO),
    s.Step: (_step_started, DEBUG),
    s.ModelCall: (_model_started, DEBUG),
    s.ToolCalling: (_tool_started, INFO),
}
SETTLED: dict[type, tuple[Handler, int]] = {
    s.RunLoop: (_loop_ended, WARNING),
    s.Step: (_step_ended, DEBUG),
    s.ModelCall: (_model_ended, WARNING),
    s.ToolCalling: (_tool_ended, WARNING),
    s.QueueCall: (_queue_called, WARNING),
    s.StoreCall: (_store_called, WARNING),
}

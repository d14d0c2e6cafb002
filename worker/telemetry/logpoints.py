"""Which signal becomes which log line: event name, level and fields; operations: `logevents.py`."""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING

from worker.telemetry import signals as s
from worker.telemetry.lines import exception_fields
from worker.telemetry.logevents import ERROR_CHARACTERS_MAX, Fields, Handler, Writer, known

LAG_WORTH_A_LINE_SECONDS = 0.5  # a tick this late is felt by every run in the process


# --- tasks and leases -----------------------------------------------------------------------------


def _task_received(out: Writer, told: s.TaskReceived) -> None:
    fields: Fields = {"queue": told.queue, "task_id": told.task_id, "delivery": told.delivery}
    if told.redelivered:
        fields["redelivered"] = True
    out.write(INFO, "task.received", fields)


def _task_refused(out: Writer, told: s.TaskRefused) -> None:
    fields = {
        "queue": told.queue,
        "task_id": told.task_id,
        "reason": told.reason,
        "problem": told.problem[:ERROR_CHARACTERS_MAX],
    }
    out.write(WARNING, "task.invalid", fields)


def _task_duplicated(out: Writer, told: s.TaskDuplicated) -> None:
    out.write(INFO, "task.duplicate", {"queue": told.queue, "task_id": told.task_id})


def _task_settled(out: Writer, told: s.TaskSettled) -> None:
    fields: Fields = {"queue": told.queue, "task_id": told.task_id, "outcome": told.outcome}
    if told.status is not None:
        fields["status"] = told.status
    if told.delay_seconds:
        fields["delay_seconds"] = round(told.delay_seconds, 3)
    out.write(INFO, "task.settled", fields)


def _task_dead(out: Writer, told: s.TaskDeadLettered) -> None:
    fields = {
        "queue": told.queue,
        "task_id": told.task_id,
        "cause": told.cause,
        "reason": told.reason[:ERROR_CHARACTERS_MAX],
    }
    out.write(ERROR, "task.dead_lettered", fields)


def _result_published(out: Writer, told: s.ResultPublished) -> None:
    fields = {"task_id": told.task_id, "destination": told.destination}
    out.write(INFO, "result.published", fields)


def _lease_renewed(out: Writer, told: s.LeaseRenewed) -> None:
    well = told.outcome == "success"
    fields = {"queue": told.queue, "late_seconds": round(told.late_seconds, 3)}
    out.write(DEBUG if well else WARNING, "lease.renewed" if well else "lease.renew_failed", fields)


def _lease_lost(out: Writer, told: s.LeaseWasLost) -> None:
    out.write(WARNING, "lease.lost", {"queue": told.queue, "task_id": told.task_id})


def _write_fenced(out: Writer, told: s.WriteFenced) -> None:
    out.write(WARNING, "write.fenced", {"run_id": told.run_id, "operation": told.name})


def _run_taken_over(out: Writer, told: s.RunTakenOver) -> None:
    fields = {"run_id": told.run_id, "epoch": told.epoch, "events": told.events}
    out.write(WARNING, "run.taken_over", fields)


def _queue_failed(out: Writer, told: s.QueueFailed) -> None:
    fields = {
        "queue": told.queue,
        "error_type": told.error_type,
        "error": told.error[:ERROR_CHARACTERS_MAX],
    }
    out.write(ERROR, "queue.receive.error", fields)


# --- runs that wait -------------------------------------------------------------------------------


def _run_parked(out: Writer, told: s.RunParked) -> None:
    fields: Fields = {"task_id": told.task_id, "reason": told.reason, "tools": list(told.tools)}
    if told.until is not None:
        fields["until"] = out.moment(told.until)
    out.write(INFO, "run.parked", fields)


def _run_resumed(out: Writer, told: s.RunResumed) -> None:
    parked = round(told.parked_seconds, 3)
    fields = {"task_id": told.task_id, "reason": told.reason, "parked_seconds": parked}
    out.write(INFO, "run.resumed", fields)


def _approval_decided(out: Writer, told: s.ApprovalDecided) -> None:
    fields: Fields = {
        "task_id": told.task_id,
        "tool_name": told.tool_name[:128],
        "call_id": told.call_id[:128],
        "arguments_hash": told.arguments_hash,
        "approved": told.approved,
        "who": told.who,
    }
    if told.why:
        fields["why"] = told.why[:ERROR_CHARACTERS_MAX]
    out.write(INFO, "approval.decided", fields)


def _job_begun(out: Writer, told: s.JobBegun) -> None:
    out.write(INFO, "job.started", {**_job(told), "until": out.moment(told.until)})


def _job_reported(out: Writer, told: s.JobReported) -> None:
    waited = round(told.waited_seconds, 3)
    fields = {**_job(told), "outcome": told.outcome, "waited_seconds": waited}
    out.write(INFO if told.outcome == "success" else WARNING, "job.reported", fields)


def _job(told: s.JobBegun | s.JobReported) -> Fields:
    return {
        "task_id": told.task_id,
        "tool_name": told.tool_name[:128],
        "call_id": told.call_id[:128],
        "handle": told.handle,
    }


# --- guard ----------------------------------------------------------------------------------------

_BREAKER_EVENTS = {"open": "breaker.opened", "half_open": "breaker.half_open"}


def _breaker_changed(out: Writer, told: s.BreakerChanged) -> None:
    fields = known(
        breaker=told.breaker,
        from_state=told.from_state,
        to_state=told.to_state,
        cause=told.cause,
        era=told.era,
        open_seconds=told.open_seconds,
        last_error_type=told.last_error_type,
    )
    is_forced = told.to_state not in ("open", "half_open", "closed")
    event = "breaker.forced" if is_forced else _BREAKER_EVENTS.get(told.to_state, "breaker.closed")
    out.write(INFO if told.to_state == "closed" else WARNING, event, fields)


def _breaker_counted(out: Writer, told: s.BreakerCounted) -> None:
    if told.result == "rejected":
        out.write(WARNING, "breaker.rejected", known(breaker=told.breaker, reason=told.reason))


def _override_changed(out: Writer, told: s.OverrideChanged) -> None:
    fields: Fields = {
        "breaker": told.breaker,
        "kind": told.kind,
        "who": told.who,
        "why": told.why[:ERROR_CHARACTERS_MAX],
    }
    if told.until is not None:
        fields["until"] = out.moment(told.until)
    out.write(WARNING, "breaker.override", fields)


def _attempt_ended(out: Writer, told: s.AttemptEnded) -> None:
    fields = known(
        kind=told.kind,
        target=told.target,
        number=told.number,
        verdict=told.verdict,
        error_type=told.error_type,
        duration_seconds=round(told.duration_seconds, 6),
    )
    out.write(DEBUG, "attempt.ended", fields)


def _retry_scheduled(out: Writer, told: s.RetryScheduled) -> None:
    fields = {
        "kind": told.kind,
        "target": told.target,
        "reason": told.reason,
        "number": told.number,
        "wait_seconds": round(told.wait_seconds, 3),
    }
    out.write(WARNING, "retry.scheduled", fields)


def _retry_suppressed(out: Writer, told: s.RetrySuppressed) -> None:
    fields = {"kind": told.kind, "target": told.target, "cause": told.cause}
    out.write(WARNING, "retry.exhausted", fields)


def _fallback_used(out: Writer, told: s.FallbackUsed) -> None:
    fields = {
        "kind": told.kind,
        "target": told.target,
        "fallback": told.fallback,
        "outcome": told.outcome,
        "reason": told.reason,
    }
    out.write(WARNING, "fallback.used", fields)


def _client_recycled(out: Writer, told: s.ClientRecycled) -> None:
    out.write(WARNING, "http.client_recycled", {"target": told.target})


def _tool_undeclared(out: Writer, told: s.ToolUndeclared) -> None:
    fields = {"tool_name": told.tool_name, "line_to_add": told.line_to_add}
    out.write(WARNING, "tool.undeclared", fields)


def _rule_broken(out: Writer, told: s.RuleBroken) -> None:
    fields = {
        "handoff_rule": told.rule,
        "looked_at": told.source,
        "error_type": "internal",
        "error": f"{told.error_type}: {told.error}"[:ERROR_CHARACTERS_MAX],
    }
    out.write(WARNING, "handoff.rule_broken", fields)


def _state_dropped(out: Writer, told: s.StateDropped) -> None:
    out.write(WARNING, "tool.state_dropped", {"group": told.group, "reason": told.reason})


def _server_changed(out: Writer, told: s.ServerChanged) -> None:
    fields: Fields = {"mcp_server": told.server, "state": told.state, "tool_count": told.tools}
    if told.about:
        fields["about"] = told.about
    if told.reason:
        fields["reason"] = told.reason
    if told.state == "ready":
        out.write(INFO, "mcp.ready", fields)
    else:
        out.write(WARNING, "mcp.away", fields)


def _tool_left_out(out: Writer, told: s.ToolLeftOut) -> None:
    fields = {"mcp_server": told.server, "tool_name": told.tool_name, "reason": told.reason}
    out.write(WARNING, "mcp.tool_left_out", fields)


def _server_said(out: Writer, told: s.ServerSaid) -> None:
    fields = {"mcp_server": told.server, "stream": told.stream, "line": told.line}
    out.write(DEBUG, "mcp.said", fields)


def _quirk_learned(out: Writer, told: s.QuirkLearned) -> None:
    fields = {"endpoint": told.endpoint, "quirk": told.quirk, "evidence": told.evidence[:500]}
    out.write(INFO, "model.quirk_learned", fields)


# --- the worker -----------------------------------------------------------------------------------

_WORKER_EVENTS = {
    "starting": "worker.start",
    "running": "worker.ready",
    "draining": "worker.drain.start",
    "stopped": "worker.stop",
}


def _worker_changed(out: Writer, told: s.WorkerChanged) -> None:
    fields: Fields = {"state": told.state}
    if told.detail:
        fields["detail"] = told.detail
    out.write(INFO, _WORKER_EVENTS.get(told.state, "worker.changed"), fields)


_PROCESS_EVENTS = {
    "started": ("worker.process.start", INFO),
    "restarting": ("worker.process.restart", WARNING),
    "killed": ("worker.process.kill", WARNING),
    "ended": ("worker.process.end", INFO),
}


def _process_changed(out: Writer, told: s.ProcessChanged) -> None:
    fields: Fields = {"process": told.number, "process_pid": told.pid}
    if told.exit_code is not None:
        fields["exit_code"] = told.exit_code
    if told.delay_seconds:
        fields["delay_seconds"] = told.delay_seconds
    if told.reason:
        fields["reason"] = told.reason
    event, level = _PROCESS_EVENTS.get(told.change, ("worker.process.change", INFO))
    out.write(level, event, fields)


def _config_loaded(out: Writer, told: s.ConfigLoaded) -> None:
    out.write(INFO, "config.loaded", {"settings": told.settings})


def _loop_lagged(out: Writer, told: s.LoopLagged) -> None:
    if told.lag_seconds >= LAG_WORTH_A_LINE_SECONDS:
        out.write(WARNING, "eventloop.blocked", {"lag_seconds": round(told.lag_seconds, 3)})


def _loop_stuck(out: Writer, told: s.LoopStuck) -> None:
    out.write(ERROR, "worker.stuck", {"stuck_seconds": round(told.seconds, 3)})


def _tasks_drained(out: Writer, told: s.TasksDrained) -> None:
    fields = {
        "finished": told.finished,
        "released": told.released,
        "cancelled": told.cancelled,
        "duration_seconds": round(told.duration_seconds, 3),
    }
    out.write(INFO, "worker.drain.end", fields)


def _error_unhandled(out: Writer, told: s.ErrorUnhandled) -> None:
    fields = {"component": told.component, "exception": exception_fields(told.error)}
    out.write(ERROR, "error.unhandled", fields)


def _telemetry_dropped(out: Writer, told: s.TelemetryDropped) -> None:
    if told.signal == "logs" and told.reason == "queue_full":
        return  # this line would be lost as well; the outlet reports it when it is free again
    failed = told.reason == "export_failed"
    event = "telemetry.export_failed" if failed else "telemetry.dropped"
    fields = {"signal": told.signal, "reason": told.reason, "count": told.count}
    out.write(WARNING, event, fields)


# The second value is the highest level that the function may write at.
TOLD: dict[type, tuple[Handler, int]] = {
    s.WorkerChanged: (_worker_changed, INFO),
    s.ProcessChanged: (_process_changed, WARNING),
    s.ConfigLoaded: (_config_loaded, INFO),
    s.TaskReceived: (_task_received, INFO),
    s.TaskRefused: (_task_refused, WARNING),
    s.TaskDuplicated: (_task_duplicated, INFO),
    s.TaskSettled: (_task_settled, INFO),
    s.TaskDeadLettered: (_task_dead, ERROR),
    s.ResultPublished: (_result_published, INFO),
    s.LeaseRenewed: (_lease_renewed, WARNING),
    s.LeaseWasLost: (_lease_lost, WARNING),
    s.WriteFenced: (_write_fenced, WARNING),
    s.RunTakenOver: (_run_taken_over, WARNING),
    s.QueueFailed: (_queue_failed, ERROR),
    s.BreakerChanged: (_breaker_changed, WARNING),
    s.BreakerCounted: (_breaker_counted, WARNING),
    s.OverrideChanged: (_override_changed, WARNING),
    s.AttemptEnded: (_attempt_ended, DEBUG),
    s.RetryScheduled: (_retry_scheduled, WARNING),
    s.RetrySuppressed: (_retry_suppressed, WARNING),
    s.FallbackUsed: (_fallback_used, WARNING),
    s.ClientRecycled: (_client_recycled, WARNING),
    s.ToolUndeclared: (_tool_undeclared, WARNING),
    s.RuleBroken: (_rule_broken, WARNING),
    s.StateDropped: (_state_dropped, WARNING),
    s.ServerChanged: (_server_changed, WARNING),
    s.ToolLeftOut: (_tool_left_out, WARNING),
    s.ServerSaid: (_server_said, DEBUG),
    s.LoopLagged: (_loop_lagged, WARNING),
    s.LoopStuck: (_loop_stuck, ERROR),
    s.TasksDrained: (_tasks_drained, INFO),
    s.ErrorUnhandled: (_error_unhandled, ERROR),
    s.TelemetryDropped: (_telemetry_dropped, WARNING),
    s.RunParked: (_run_parked, INFO),
    s.RunResumed: (_run_resumed, INFO),
    s.ApprovalDecided: (_approval_decided, INFO),
    s.JobBegun: (_job_begun, INFO),
    s.JobReported: (_job_reported, WARNING),
    s.QuirkLearned: (_quirk_learned, INFO),
}
# Measured, not logged: one line each would say what a gauge says better.
SILENT: frozenset[type] = frozenset(
    {
        s.BreakerMeasured,
        s.RetryBudgetMeasured,
        s.QueueMeasured,
        s.BulkheadMeasured,
        s.SlotsChanged,
        s.StepUpdated,
        s.TaskProcessing,
    }
)

"""What each signal and operation moves in the metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from worker.core.limits import final_status
from worker.telemetry import catalogue as c
from worker.telemetry import signals as s
from worker.telemetry.families import Family, Key

# Reasons for which a retry is common; the rest is made when it happens.
COMMON_RETRY_REASONS = ("timeout", "connection", "rate_limited", "http_5xx")
RUNGS = ("alternative", "stale", "stub")
_SHOWN_STATES = {"forced_closed": "disabled", "metrics_only": "disabled"}


class Measures:
    """The families under their names in the catalogue, and what is only known at a scrape."""

    def __init__(
        self, families: dict[str, Family], exemplar: Callable[[], dict[str, str] | None]
    ) -> None:
        self._families = families
        self.exemplar = exemplar
        self.last_progress = 0.0
        self.lag_max = 0.0
        self._states: dict[str, str] = {}
        for name, metric in vars(c).items():
            if isinstance(metric, c.Metric):
                setattr(self, name, families[metric.name])

    def __getattr__(self, name: str) -> Family:
        # Only for type checkers and typing errors: the families are set above.
        raise AttributeError(name)

    # --- children that exist from the start -------------------------------------------------------

    def prepare_closed(self) -> None:
        """Make the children of metrics whose labels are all closed sets."""
        for family in self._families.values():
            metric = family.metric
            choices = [metric.allowed(label) for label in metric.labels]
            if metric.kind != "info" and all(choice is not None for choice in choices):
                only = _status_fits if metric is c.RUNS else None
                family.prepare(*[choice or () for choice in choices], only=only)

    def prepare_queues(self, queues: Iterable[str]) -> None:
        """Make the children of each queue."""
        self._prepare("queue", list(queues))

    def prepare_tools(self, tools: Iterable[str]) -> None:
        """Make the children of each tool, and of the tools that the model invents."""
        self._prepare("tool", [*tools, c.UNKNOWN])

    def prepare_breakers(self, breakers: Iterable[str]) -> None:
        """Make the children of each breaker; it starts closed."""
        names = list(breakers)
        self._prepare("breaker", names, beside=(c.BREAKER_TRANSITIONS,))
        for name in names:
            self.set_state(name, "closed")
            for before, after in c.BREAKER_STEPS:
                self.BREAKER_TRANSITIONS.prepare([name], [before], [after])

    def prepare_model(self, provider: str, model: str) -> None:
        """Make the children of a model."""
        self._prepare("provider", [provider], model=[model])

    def prepare_target(self, kind: str, target: str) -> None:
        """Make the children of something that is retried or replaced."""
        self.RETRIES.prepare([kind], [target], COMMON_RETRY_REASONS)
        self.RETRIES_EXHAUSTED.prepare([kind], [target])
        if kind == "tool":
            self.FALLBACKS.prepare([kind], [target], RUNGS, ["success"])

    def prepare_fallback(self, target: str, fallback: str) -> None:
        """Make the children of a model that stands in for another."""
        self.FALLBACKS.prepare(["model"], [target], [fallback], ["success", "error"])

    def _prepare(
        self, label: str, names: list[str], *, beside: Key | tuple[c.Metric, ...] = (), **more: Any
    ) -> None:
        for family in self._families.values():
            metric = family.metric
            if label in metric.labels and metric not in beside:
                own = {label: names, **more}
                choices = [own.get(each) or metric.allowed(each) or () for each in metric.labels]
                family.prepare(*choices, only=_error_fits(metric))

    # --- what several handlers do -----------------------------------------------------------------

    def set_state(self, breaker: str, state: str) -> None:
        """Show a breaker in one state and in no other."""
        shown = _SHOWN_STATES.get(state, state)
        if self._states.get(breaker) == shown:
            return
        if len(self._states) < 2 * c.NAMES_MAX["breaker"]:
            self._states[breaker] = shown
        for each in c.BREAKER_STATES:
            self.BREAKER_STATE.set(breaker, each, amount=float(each == shown))

    def progressed(self) -> None:
        """Note that the worker gets on."""
        self.last_progress = time.time()

    def refresh(self) -> None:
        """Set the gauges that are only known at a scrape."""
        self.LAST_PROGRESS.set(amount=self.last_progress)
        self.LOOP_LAG_MAX.set(amount=self.lag_max)
        self.lag_max = 0.0


def _status_fits(key: Key) -> bool:
    return key[0] == final_status(key[1])


def _error_fits(metric: c.Metric) -> Callable[[Key], bool] | None:
    if "error_type" not in metric.labels:
        return None
    at = metric.labels.index("error_type")
    if "outcome" not in metric.labels:
        return lambda key: key[at] != "none"
    outcome = metric.labels.index("outcome")
    return lambda key: (key[at] == "none") == (key[outcome] == "success")


# --- operations -----------------------------------------------------------------------------------


def _outcome(operation: s.Operation) -> tuple[str, str]:
    return ("success", "none") if operation.error_type is None else ("error", operation.error_type)


def _task_started(m: Measures, task: s.TaskProcessing) -> None:
    m.QUEUE_UNSETTLED.step(task.queue, amount=1)
    m.QUEUE_WAIT.observe(task.queue, amount=max(0.0, task.waited_seconds))


def _task_settled(m: Measures, task: s.TaskProcessing) -> None:
    m.QUEUE_UNSETTLED.step(task.queue, amount=-1)


def _run_started(m: Measures, run: s.RunLoop) -> None:
    m.RUNS_IN_PROGRESS.step(amount=1)


def _run_settled(m: Measures, run: s.RunLoop) -> None:
    m.RUNS_IN_PROGRESS.step(amount=-1)
    m.progressed()
    if run.status is None:
        return  # handed back unfinished; it ends, and counts, elsewhere
    exemplar = m.exemplar()
    status = "success" if run.final_status == "success" else "error"
    m.RUNS.inc(status, run.status)
    m.RUN_DURATION.observe(status, amount=run.duration_seconds, exemplar=exemplar)
    m.RUN_STEPS.observe(status, amount=run.total_steps)
    m.RUN_MODEL_CALLS.observe(amount=run.model_calls)
    m.RUN_TOOL_CALLS.observe(amount=run.tool_calls)
    if run.degraded:
        m.DEGRADED_RUNS.inc()
    for symptom in run.symptoms:
        m.RUN_SYMPTOMS.inc(symptom)


def _step_settled(m: Measures, step: s.Step) -> None:
    m.progressed()
    m.STEPS.inc(step.outcome or "error")
    m.STEP_DURATION.observe(amount=step.duration_seconds)


def _model_settled(m: Measures, call: s.ModelCall) -> None:
    outcome, error_type = _outcome(call)
    exemplar = m.exemplar()
    names = (call.provider, call.model)
    m.MODEL_CALLS.inc(*names, outcome, error_type)
    m.MODEL_DURATION.observe(*names, outcome, amount=call.duration_seconds, exemplar=exemplar)
    if call.prompt_tokens:
        m.MODEL_TOKENS.inc(*names, "input", amount=call.prompt_tokens)
    if call.completion_tokens:
        m.MODEL_TOKENS.inc(*names, "output", amount=call.completion_tokens)
    if call.cached_tokens:
        m.MODEL_CACHED.inc(*names, amount=call.cached_tokens)
    if call.reasoning_tokens:
        m.MODEL_REASONING.inc(*names, amount=call.reasoning_tokens)
    if call.cost:
        m.MODEL_COST.inc(*names, amount=call.cost)
    if call.finish_reason is not None:
        m.MODEL_FINISH.inc(*names, call.finish_reason)
    if call.first_chunk_seconds is not None:
        m.MODEL_FIRST_CHUNK.observe(*names, amount=call.first_chunk_seconds)


def _tool(call: s.ToolCalling) -> str:
    return call.tool_name if call.known else c.UNKNOWN


def _tool_started(m: Measures, call: s.ToolCalling) -> None:
    m.TOOL_IN_PROGRESS.step(_tool(call), amount=1)


def _tool_settled(m: Measures, call: s.ToolCalling) -> None:
    tool = _tool(call)
    outcome, error_type = _outcome(call)
    exemplar = m.exemplar()
    m.progressed()
    m.TOOL_IN_PROGRESS.step(tool, amount=-1)
    m.TOOL_CALLS.inc(tool, outcome, error_type)
    seconds = call.execution_time or call.duration_seconds
    m.TOOL_DURATION.observe(tool, outcome, amount=seconds, exemplar=exemplar)
    m.TOOL_RESULT_SIZE.observe(tool, amount=call.result_size)
    m.TOOL_RESULTS.inc(tool, call.source or ("live" if outcome == "success" else "error"))


def _store_settled(m: Measures, call: s.StoreCall) -> None:
    if call.name == "append":
        m.JOURNAL_APPEND.observe(amount=call.duration_seconds)
        return
    verb, _, thing = call.name.partition("_")
    if thing == "session" and verb in c.SESSION_OPERATIONS:
        is_conflict = call.error_type == "conflict"
        outcome = "conflict" if is_conflict else call.answer or _outcome(call)[0]
        m.SESSION_CALLS.inc(verb, outcome)
        m.SESSION_DURATION.observe(verb, amount=call.duration_seconds)
        if call.size_bytes:
            m.SESSION_SIZE.observe(amount=call.size_bytes)


# --- signals --------------------------------------------------------------------------------------


def _worker_changed(m: Measures, told: s.WorkerChanged) -> None:
    for state in ("starting", "running", "draining", "stopped"):
        m.WORKER_STATE.set(state, amount=float(state == told.state))
    m.WORKER_READY.set(amount=float(told.state == "running"))


def _task_received(m: Measures, told: s.TaskReceived) -> None:
    m.QUEUE_RECEIVED.inc(told.queue)
    if told.redelivered:
        m.QUEUE_REDELIVERIES.inc(told.queue)


def _queue_measured(m: Measures, told: s.QueueMeasured) -> None:
    for state in ("ready", "delayed", "leased", "parked", "dead"):
        m.QUEUE_TASKS.set(told.queue, state, amount=getattr(told, state))
    m.QUEUE_OLDEST.set(told.queue, amount=told.oldest_ready_seconds or 0.0)


def _breaker_changed(m: Measures, told: s.BreakerChanged) -> None:
    before = _SHOWN_STATES.get(told.from_state, told.from_state)
    after = _SHOWN_STATES.get(told.to_state, told.to_state)
    m.BREAKER_TRANSITIONS.inc(told.breaker, before, after)
    m.set_state(told.breaker, told.to_state)


def _breaker_measured(m: Measures, told: s.BreakerMeasured) -> None:
    m.set_state(told.breaker, told.state)
    m.BREAKER_FAILURES.set(told.breaker, amount=told.failure_ratio)
    m.BREAKER_SLOW.set(told.breaker, amount=told.slow_ratio)
    m.BREAKER_OPENED.set(told.breaker, amount=told.opened_at or 0.0)
    for kind in ("open", "closed"):
        m.BREAKER_OVERRIDE.set(told.breaker, kind, amount=float(kind == told.override))


def _override_changed(m: Measures, told: s.OverrideChanged) -> None:
    for kind in ("open", "closed"):
        m.BREAKER_OVERRIDE.set(told.breaker, kind, amount=float(kind == told.kind))


def _slots_changed(m: Measures, told: s.SlotsChanged) -> None:
    m.WORKER_SLOTS.set(amount=told.slots)
    m.WORKER_SLOTS_IN_USE.set(amount=told.in_use)


def _loop_lagged(m: Measures, told: s.LoopLagged) -> None:
    m.LOOP_LAG.observe(amount=told.lag_seconds)
    m.lag_max = max(m.lag_max, told.lag_seconds)


def _tasks_drained(m: Measures, told: s.TasksDrained) -> None:
    m.DRAIN_DURATION.set(amount=told.duration_seconds)
    for outcome in ("finished", "released", "cancelled"):
        m.DRAINED_TASKS.inc(outcome, amount=getattr(told, outcome))


def _fallback_used(m: Measures, told: s.FallbackUsed) -> None:
    m.FALLBACKS.inc(told.kind, told.target, told.fallback, told.outcome)


Handler = Callable[[Measures, Any], None]

STARTED: dict[type, Handler] = {
    s.TaskProcessing: _task_started,
    s.RunLoop: _run_started,
    s.ToolCalling: _tool_started,
}
SETTLED: dict[type, Handler] = {
    s.TaskProcessing: _task_settled,
    s.RunLoop: _run_settled,
    s.Step: _step_settled,
    s.ModelCall: _model_settled,
    s.ToolCalling: _tool_settled,
    s.StoreCall: _store_settled,
}
TOLD: dict[type, Handler] = {
    s.WorkerChanged: _worker_changed,
    s.TaskReceived: _task_received,
    s.TaskRefused: lambda m, told: m.QUEUE_POISON.inc(told.queue, told.reason),
    s.TaskSettled: lambda m, told: m.QUEUE_SETTLED.inc(told.queue, told.outcome),
    s.TaskDeadLettered: lambda m, told: m.DEAD_LETTERS.inc(told.queue, told.cause),
    s.LeaseRenewed: lambda m, told: m.QUEUE_RENEWALS.inc(told.queue, told.outcome),
    s.LeaseWasLost: lambda m, told: m.LEASES_LOST.inc(told.queue),
    s.WriteFenced: lambda m, told: m.FENCED_WRITES.inc(),
    s.RunTakenOver: lambda m, told: m.TAKEOVERS.inc(),
    s.QueueFailed: lambda m, told: m.QUEUE_RECEIVE_ERRORS.inc(told.queue, told.error_type),
    s.QueueMeasured: _queue_measured,
    s.BreakerChanged: _breaker_changed,
    s.BreakerCounted: lambda m, told: m.BREAKER_CALLS.inc(told.breaker, told.result),
    s.BreakerMeasured: _breaker_measured,
    s.OverrideChanged: _override_changed,
    s.RetryScheduled: lambda m, told: m.RETRIES.inc(told.kind, told.target, told.reason),
    s.RetrySuppressed: lambda m, told: m.RETRIES_EXHAUSTED.inc(told.kind, told.target),
    s.RetryBudgetMeasured: lambda m, told: m.RETRY_BUDGET.set(told.kind, amount=told.ratio),
    s.FallbackUsed: _fallback_used,
    s.LoopLagged: _loop_lagged,
    s.TasksDrained: _tasks_drained,
    s.SlotsChanged: _slots_changed,
    s.ErrorUnhandled: lambda m, told: m.UNHANDLED_ERRORS.inc(told.component),
    s.TelemetryDropped: lambda m, told: m.TELEMETRY_DROPPED.inc(
        told.signal, told.reason, amount=told.count
    ),
}

"""What the span of each operation looks like: name, kind, attributes, events, failure.

Called in the exporting thread, for spans that are exported and for no others. Returns plain values;
`tracing.py` makes them clean of secrets and turns them into OpenTelemetry's classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from worker.telemetry import semconv as k
from worker.telemetry import signals as s
from worker.telemetry.lines import Clock
from worker.telemetry.logevents import execution_time_of, status_code_of

Kind = Literal["internal", "client", "producer", "consumer"]
Attributes = dict[str, Any]

AGENT_NAME = "loopworker"
SETTLING = frozenset({"ack", "nack", "dead_letter"})
_CLOCK = Clock()


@dataclass(slots=True)
class Shape:
    """A span in plain values. `began` and `ended` are attributes of the two point events."""

    name: str
    kind: Kind
    attributes: Attributes
    began: tuple[str, Attributes] | None = None
    ended: tuple[str, Attributes] | None = None
    failure: str | None = None  # a word for error.type
    description: str | None = field(default=None)


def is_traced(operation: s.Operation) -> bool:
    """Say whether an operation gets a span.

    Claims and heartbeats do not: a worker that waits would fill the trace store with them.
    """
    if type(operation) is s.QueueCall:
        return operation.name == "put" or operation.name in SETTLING
    if type(operation) is s.StoreCall:
        return operation.name.endswith("_session")
    return type(operation) in SHAPES


def shape(operation: s.Operation) -> Shape:
    """Describe the span of an operation that has ended."""
    made = SHAPES[type(operation)](operation)
    if made.failure is None:
        made.failure = operation.error_type
    if made.failure is not None:
        made.failure = k.ERROR_OTHER if made.failure == "other" else made.failure
        made.attributes[k.ERROR_TYPE] = made.failure
        made.description = operation.error or made.failure
    return made


def _process(task: s.TaskProcessing) -> Shape:
    attributes = {
        k.MESSAGING_OPERATION: "process",
        k.MESSAGING_TYPE: "process",
        k.MESSAGING_SYSTEM: task.system,
        k.MESSAGING_DESTINATION: task.queue,
        k.MESSAGING_MESSAGE: task.task_id,
        k.MESSAGING_SIZE: task.body_bytes,
        k.DELIVERY: task.delivery,
        k.QUEUE_WAIT: task.waited_seconds,
        k.TASK: task.task_id,
        k.SETTLEMENT: task.settlement,
        k.RUN_STATUS: task.status,
        k.SESSION_ID: task.session_id,
    }
    return Shape(f"process {task.queue}", "consumer", attributes)


def _run(run: s.RunLoop) -> Shape:
    start = _CLOCK.text(run.start_time)
    ended = run.end_time if run.end_time is not None else run.start_time + run.duration_seconds
    end = _CLOCK.text(max(ended, run.start_time))
    final = "success" if run.final_status == "success" else "error"
    attributes = {
        k.OPERATION: "invoke_agent",
        k.AGENT: AGENT_NAME,
        k.CONVERSATION: run.session_id,
        k.REQUEST_MODEL: run.model,
        k.INPUT_TOKENS: run.prompt_tokens,
        k.OUTPUT_TOKENS: run.completion_tokens,
        k.FINISH_REASONS: run.finish_reasons,
        k.TASK: run.task_id,
        k.SESSION_ID: run.session_id,
        k.START_TIME: start,
        k.END_TIME: end,
        k.TOTAL_STEPS: run.total_steps,
        k.FINAL_STATUS: final,
        k.RUN_STATUS: run.status or ("parked" if run.parked else None),
        k.RUN_RESUMED: run.resumed or None,
        k.RUN_DEGRADED: run.degraded,
        k.RUN_SYMPTOMS: run.symptoms,
        k.RUN_HANDOFF: run.handoff_rule,
        k.RUN_MAX_STEPS: run.max_steps or None,
        k.RUN_MAX_STEPS_REASON: run.max_steps_reason or None,
        k.RUN_COST: run.cost,
        k.RUN_MODELS: run.models,
    }
    began = {
        k.SESSION_ID: run.session_id,
        k.START_TIME: start,
        k.USER_INPUT_LENGTH: len(run.user_input),
    }
    over = {k.TOTAL_STEPS: run.total_steps, k.FINAL_STATUS: final, k.END_TIME: end}
    made = Shape(f"invoke_agent {AGENT_NAME}", "internal", attributes)
    made.began, made.ended = ("loop_start", began), ("loop_end", over)
    # A run that was handed back has no status and has not failed.
    if final == "error" and run.status is not None:
        made.failure = run.error_type or run.status
    return made


def _step(step: s.Step) -> Shape:
    attributes = {k.STEP_INDEX: step.index, k.STEP_OUTCOME: step.outcome}
    return Shape("agent.step", "internal", attributes)


def _chat(call: s.ModelCall) -> Shape:
    attributes = {
        k.OPERATION: "chat",
        k.PROVIDER: call.provider,
        k.REQUEST_MODEL: call.model,
        k.REQUEST_STREAM: call.stream or None,
        k.SERVER_ADDRESS: call.server_address,
        k.SERVER_PORT: call.server_port,
        k.INPUT_TOKENS: call.prompt_tokens or None,
        k.OUTPUT_TOKENS: call.completion_tokens or None,
        k.CACHED_TOKENS: call.cached_tokens or None,
        k.REASONING_TOKENS: call.reasoning_tokens or None,
        k.FINISH_REASONS: (call.finish_reason,) if call.finish_reason else None,
        k.RESPONSE_MODEL: call.response_model,
        k.RESPONSE_ID: call.response_id,
        k.FIRST_CHUNK: call.first_chunk_seconds,
        k.COST: call.cost,
        k.RETRY_COUNT: max(0, call.attempts - 1),
    }
    return Shape(f"chat {call.model}", "client", attributes)


def _tool(call: s.ToolCalling) -> Shape:
    before = {
        k.TOOL_NAME: call.tool_name[:128],
        k.ARGUMENTS_HASH: call.arguments_hash,
        k.STEP_COUNT: call.step_count,
    }
    after = {
        k.EXECUTION_TIME: execution_time_of(call),
        k.STATUS_CODE: status_code_of(call),
        k.RESULT_SIZE: call.result_size,
    }
    attributes = {
        k.OPERATION: "execute_tool",
        k.TOOL: call.tool_name[:128],
        k.TOOL_TYPE: "function",
        k.TOOL_CALL: call.call_id,
        k.AGENT: AGENT_NAME,
        k.DEPENDENCY: call.dependency,
        k.BREAKER_STATE: call.breaker_state,
        k.RESULT_SOURCE: call.source,
        k.RESULT_REASON: call.reason,
        k.RESULT_AGE: call.age_seconds,
        k.RETRY_AFTER: call.retry_after_seconds,
        k.RETRY_COUNT: max(0, call.attempts - 1),
        **before,
        **after,
    }
    # A name that the model made up must not become a span name: there would be no end of them.
    name = f"execute_tool {call.tool_name}" if call.known else "execute_tool"
    made = Shape(name, "internal", attributes)
    made.began, made.ended = ("tool_before", before), ("tool_after", after)
    return made


def _queue(call: s.QueueCall) -> Shape:
    verb, kind = ("send", "send") if call.name == "put" else (call.name, "settle")
    attributes = {
        k.MESSAGING_OPERATION: verb,
        k.MESSAGING_TYPE: kind,
        k.MESSAGING_SYSTEM: call.system,
        k.MESSAGING_DESTINATION: call.queue,
    }
    return Shape(f"{verb} {call.queue}", "producer" if verb == "send" else "client", attributes)


def _store(call: s.StoreCall) -> Shape:
    verb = call.name.partition("_")[0]
    return Shape(f"session {verb}", "client", {"db.system.name": call.system})


SHAPES: dict[type, Callable[[Any], Shape]] = {
    s.TaskProcessing: _process,
    s.RunLoop: _run,
    s.Step: _step,
    s.ModelCall: _chat,
    s.ToolCalling: _tool,
    s.QueueCall: _queue,
    s.StoreCall: _store,
}


def point(signal: s.Signal) -> tuple[str, Attributes] | None:
    """Describe a signal as an event on the span of the moment; None when it is none."""
    match signal:
        case s.BreakerChanged():
            return "breaker.transition", {
                k.DEPENDENCY: signal.breaker,
                "agent.breaker.from": signal.from_state,
                "agent.breaker.to": signal.to_state,
                "agent.breaker.cause": signal.cause,
            }
        case s.AttemptEnded():
            return "attempt", {
                "agent.attempt.number": signal.number,
                "agent.attempt.verdict": signal.verdict,
                "agent.attempt.duration": signal.duration_seconds,
                k.ERROR_TYPE: signal.error_type,
            }
        case s.RetryScheduled():
            return "retry.scheduled", {
                "agent.retry.reason": signal.reason,
                "agent.retry.wait": signal.wait_seconds,
            }
        case s.FallbackUsed():
            return "fallback.used", {
                "agent.fallback": signal.fallback,
                "agent.fallback.target": signal.target,
                "agent.fallback.outcome": signal.outcome,
                "agent.fallback.reason": signal.reason,
            }
        case _:
            return None

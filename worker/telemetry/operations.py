"""What has a start and an end, one dataclass each: the operations among the signals.

An operation is built with what is known at the start; the code under `watch` fills in the rest.
Import them from `signals.py`, which holds the whole vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ERROR_TYPES = frozenset(
    {
        "timeout",
        "cancelled",
        "connection",
        "rate_limited",
        "http_4xx",
        "http_5xx",
        "invalid_arguments",
        "unknown_tool",
        "circuit_open",
        "bulkhead_full",
        "result_too_large",
        "budget_exceeded",
        "internal",
        "other",
    }
)
MODEL_FAULTS = frozenset({"invalid_arguments", "unknown_tool"})  # not the tool's


@dataclass(slots=True)
class Operation:
    """Something with a duration. `error_type` and `error` stay None on success."""

    error_type: str | None = field(default=None, kw_only=True)
    error: str | None = field(default=None, kw_only=True)
    duration_seconds: float = field(default=0.0, kw_only=True)  # filled by watch()


@dataclass(slots=True)
class TaskProcessing(Operation):
    """One delivery of a task, from claim to settlement (span `process {queue}`)."""

    queue: str
    task_id: str
    delivery: int
    waited_seconds: float
    body_bytes: int = 0
    session_id: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    redelivered: bool = False
    system: str = ""  # sqlite, redis, …
    settlement: str | None = None  # end: ack | retry | park | dead_letter | release | lost
    status: str | None = None  # end: the run's status, when it ended


@dataclass(slots=True)
class RunLoop(Operation):
    """One execution of the loop by this worker (span `invoke_agent`): loop start and loop end."""

    task_id: str
    session_id: str
    user_input: str
    start_time: float
    model: str
    resumed: bool = False
    total_steps: int = 0  # end
    max_steps: int = 0  # end
    max_steps_reason: str = ""  # end: which policy, no content
    status: str | None = None  # end: a core.limits.Status; None when handed back unfinished
    final_status: str | None = None  # end: success | error
    end_time: float | None = None  # end
    degraded: tuple[str, ...] = ()  # end: sources, one per degraded part
    symptoms: tuple[str, ...] = ()  # end
    handoff_rule: str | None = None  # end: the rule that handed the run over to a person
    models: tuple[str, ...] = ()  # end: all that replied, as they call themselves
    model_calls: int = 0  # end
    tool_calls: int = 0  # end
    prompt_tokens: int = 0  # end
    completion_tokens: int = 0  # end
    cost: float | None = None  # end
    finish_reasons: tuple[str, ...] = ()  # end
    parked: str | None = None  # end: what it waits for now, when it let go in good order


@dataclass(slots=True)
class Step(Operation):
    """One model reply plus the calls it asked for (span `agent.step`)."""

    index: int
    outcome: str | None = None  # end: tool_calls | final_answer | error


@dataclass(slots=True)
class ModelCall(Operation):
    """One logical request to the model, retries inside (span `chat {model}`)."""

    provider: str
    model: str
    server_address: str
    server_port: int | None = None
    stream: bool = False
    attempts: int = 0  # end, and so the rest
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    finish_reason: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    first_chunk_seconds: float | None = None


@dataclass(slots=True)
class ToolCalling(Operation):
    """One tool call (span `execute_tool {tool}`): before and after."""

    tool_name: str
    arguments_hash: str
    step_count: int
    call_id: str
    dependency: str
    known: bool = True  # False: the model invented the name; it must not become a label
    execution_time: float = 0.0  # end, and so the rest
    status_code: int = 0
    result_size: int = 0
    source: str | None = None
    reason: str | None = None
    attempts: int = 0
    age_seconds: float | None = None
    retry_after_seconds: float | None = None
    truncated: bool = False
    breaker_state: str | None = None  # after the call; None where it was not made


@dataclass(slots=True)
class QueueCall(Operation):
    """One call of a queue port: claim, extend, ack, nack, dead_letter, put."""

    queue: str
    name: str
    system: str  # sqlite, redis, …
    messages: int = 0  # end: how many leases a claim returned


@dataclass(slots=True)
class StoreCall(Operation):
    """One call of a store port: open, append, renew, finish, …"""

    name: str
    system: str
    events: int = 0
    size_bytes: int = 0  # of a saved session
    answer: str | None = None  # miss: there was no conversation yet; conflict: somebody has it
    ahead: int = 0  # of a busy session: how many wait in front

"""The unit of work a caller submits, and the result it gets back (wire format version 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Budget:
    """What one task may use up; None means no bound of its own."""

    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its caller meant it. Only `input` is required; `id` is the deduplication key.

    Times are seconds since the epoch (wire: RFC 3339). `extensions` keeps fields that this version
    does not know.
    """

    id: str
    input: str
    session_id: str | None = None
    tenant: str | None = None
    not_before: float | None = None
    tools: tuple[str, ...] | None = None
    max_steps: int | None = None
    deadline: float | None = None
    budget: Budget = field(default_factory=Budget)
    priority: int = 0
    reply_to: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    traceparent: str | None = None
    tracestate: str | None = None
    extensions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One tool call as the caller sees it in the result."""

    id: str
    name: str
    arguments_hash: str
    source: str
    duration_s: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Degradation:
    """One part of the answer that is not what it should have been."""

    tool: str
    source: str
    reason: str | None
    age_s: float | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Symptom:
    """A sign of a sick loop, with a hint that names the likely cause."""

    symptom: str
    hint: str


@dataclass(frozen=True, slots=True)
class Handoff:
    """Why a person has to take over: which rule said so, of the answer or of a tool's result."""

    rule: str
    reason: str
    source: str = "answer"  # answer | result
    tool: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What the caller gets back.

    `redrives` counts how often the task had a result before and was redriven from the dead letters.
    """

    task_id: str
    status: str
    answer: str = ""
    session_id: str | None = None
    steps: int = 0
    tool_calls: tuple[CallRecord, ...] = ()
    degraded: tuple[Degradation, ...] = ()
    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    trace_id: str | None = None
    worker: str = ""
    models: tuple[str, ...] = ()
    diagnosis: tuple[Symptom, ...] = ()
    error: str | None = None
    redrives: int = 0
    handoff: Handoff | None = None

    @property
    def id(self) -> str:
        """The result's own id: a repeat is recognisable, and so is the result after a redrive.

        `<task_id>/result`; after the first redrive `<task_id>/result/2`, and so on.
        """
        return f"{self.task_id}/result" + (f"/{self.redrives + 1}" if self.redrives else "")

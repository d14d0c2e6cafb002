"""Everything worth telling, one dataclass each.

Two kinds. A *signal* is a point in time and frozen. An *operation* has a start and an end: it is
built with what is known at the start, and the code under `watch` fills in the rest. Both may be
lost and may change freely; facts that must survive are events (`core/events.py`).

Durations are seconds, sizes bytes, times wall clock seconds since the epoch. `error_type` is a
word of `ERROR_TYPES` and None on success.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# The other half of the vocabulary, so that all of it is found here.
# isort: off
from worker.telemetry.guardsignals import AttemptEnded as AttemptEnded
from worker.telemetry.guardsignals import BreakerChanged as BreakerChanged
from worker.telemetry.guardsignals import BreakerCounted as BreakerCounted
from worker.telemetry.guardsignals import BreakerMeasured as BreakerMeasured
from worker.telemetry.guardsignals import BulkheadMeasured as BulkheadMeasured
from worker.telemetry.guardsignals import FallbackUsed as FallbackUsed
from worker.telemetry.guardsignals import GuardSignal as GuardSignal
from worker.telemetry.guardsignals import OverrideChanged as OverrideChanged
from worker.telemetry.guardsignals import RetryBudgetMeasured as RetryBudgetMeasured
from worker.telemetry.guardsignals import RetryScheduled as RetryScheduled
from worker.telemetry.guardsignals import RetrySuppressed as RetrySuppressed
from worker.telemetry.operations import (
    ERROR_TYPES as ERROR_TYPES,
    MODEL_FAULTS as MODEL_FAULTS,
    ModelCall as ModelCall,
    Operation as Operation,
    QueueCall as QueueCall,
    RunLoop as RunLoop,
    Step as Step,
    StoreCall as StoreCall,
    TaskProcessing as TaskProcessing,
    ToolCalling as ToolCalling,
)
from worker.telemetry.parking import ApprovalDecided as ApprovalDecided
from worker.telemetry.parking import JobBegun as JobBegun
from worker.telemetry.parking import JobReported as JobReported
from worker.telemetry.parking import ParkingSignal as ParkingSignal
from worker.telemetry.parking import RunParked as RunParked
from worker.telemetry.parking import RunResumed as RunResumed
from worker.telemetry.toolsignals import RuleBroken as RuleBroken
from worker.telemetry.toolsignals import ServerChanged as ServerChanged
from worker.telemetry.toolsignals import ServerSaid as ServerSaid
from worker.telemetry.toolsignals import StateDropped as StateDropped
from worker.telemetry.toolsignals import ToolLeftOut as ToolLeftOut
from worker.telemetry.toolsignals import ToolUndeclared as ToolUndeclared
# isort: on


@dataclass(frozen=True, slots=True)
class WorkerChanged:
    """The worker's life: starting, running, draining, stopped."""

    state: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessChanged:
    """One of several processes: started, restarting (it ended), killed (stuck), ended (drained)."""

    number: int
    pid: int
    change: str
    exit_code: int | None = None  # negative: the signal that ended it
    delay_seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConfigLoaded:
    """The effective settings, secrets masked."""

    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskReceived:
    """A task was claimed from the queue."""

    queue: str
    task_id: str
    delivery: int
    redelivered: bool


@dataclass(frozen=True, slots=True)
class TaskRefused:
    """A task could not be read. `reason`: invalid_json | schema | too_large | bad_headers."""

    queue: str
    task_id: str
    reason: str
    problem: str


@dataclass(frozen=True, slots=True)
class TaskDuplicated:
    """A task was put whose id is known already; nothing was queued."""

    queue: str
    task_id: str


@dataclass(frozen=True, slots=True)
class TaskSettled:
    """The queue was told what became of a task: ack, retry, park, release or dead_letter."""

    queue: str
    task_id: str
    outcome: str
    status: str | None = None
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskDeadLettered:
    """A task was given up. `cause` is a closed word for the metric, `reason` the full text."""

    queue: str
    task_id: str
    cause: str  # rejected | deliveries | permanent | corrupt
    reason: str


@dataclass(frozen=True, slots=True)
class ResultPublished:
    """The result went to the queue named in reply_to."""

    task_id: str
    destination: str


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    """A heartbeat; `outcome` is success or error."""

    queue: str
    outcome: str
    late_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LeaseWasLost:
    """Somebody else owns a task that this worker was running."""

    queue: str
    task_id: str


@dataclass(frozen=True, slots=True)
class WriteFenced:
    """A journal write of an older epoch was refused."""

    run_id: str
    name: str


@dataclass(frozen=True, slots=True)
class RunTakenOver:
    """A run was opened whose earlier owner had not let go."""

    run_id: str
    epoch: int
    events: int


@dataclass(frozen=True, slots=True)
class QueueFailed:
    """A claim failed; the consumer waits and tries again."""

    queue: str
    error_type: str
    error: str


@dataclass(frozen=True, slots=True)
class QueueMeasured:
    """The depth of a queue, as last read."""

    queue: str
    ready: int
    delayed: int
    leased: int
    parked: int
    dead: int
    oldest_ready_seconds: float | None


@dataclass(frozen=True, slots=True)
class ClientRecycled:
    """An HTTP client with a poisoned pool was replaced."""

    target: str


@dataclass(frozen=True, slots=True)
class StepUpdated:
    """What a watcher of a run sees; `step_id` is the sequence of the journal."""

    task_id: str
    step_id: int
    content: str
    is_final: bool
    kind: str = "step"  # started | step | tool | retry | degraded | ended


@dataclass(frozen=True, slots=True)
class LoopLagged:
    """The event loop answered late by `lag_seconds` (one per tick)."""

    lag_seconds: float


@dataclass(frozen=True, slots=True)
class LoopStuck:
    """The event loop has not ticked for `seconds`; told from another thread."""

    seconds: float


@dataclass(frozen=True, slots=True)
class TasksDrained:
    """The drain is over: how many runs finished, were released, were cancelled."""

    finished: int
    released: int
    cancelled: int
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class SlotsChanged:
    """How many runs may go on at once, and how many do."""

    slots: int
    in_use: int


@dataclass(frozen=True, slots=True)
class ErrorUnhandled:
    """Something raised where nothing should. `component`: consumer, loop, tool, store, …"""

    component: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class TelemetryDropped:
    """Telemetry was lost: signal traces|metrics|logs, and why."""

    signal: str
    reason: str  # queue_full | export_failed | invalid_value | serialization | label_overflow
    count: int = 1


@dataclass(frozen=True, slots=True)
class QuirkLearned:
    """An endpoint objected to something, and from now on it is done differently."""

    endpoint: str
    quirk: str
    evidence: str


Signal = (
    WorkerChanged
    | ProcessChanged
    | ConfigLoaded
    | TaskReceived
    | TaskRefused
    | TaskDuplicated
    | TaskSettled
    | TaskDeadLettered
    | ResultPublished
    | LeaseRenewed
    | LeaseWasLost
    | WriteFenced
    | RunTakenOver
    | QueueFailed
    | QueueMeasured
    | ClientRecycled
    | ToolUndeclared
    | RuleBroken
    | StateDropped
    | ServerChanged
    | ServerSaid
    | ToolLeftOut
    | StepUpdated
    | LoopLagged
    | LoopStuck
    | TasksDrained
    | SlotsChanged
    | ErrorUnhandled
    | TelemetryDropped
    | QuirkLearned
    | GuardSignal
    | ParkingSignal
)

"""What is told of runs that wait: import these from `signals.py`, which holds all signals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunParked:
    """A run let go of its slot and waits. `reason`: approval | job."""

    task_id: str
    reason: str
    until: float | None
    tools: tuple[str, ...] = ()  # of the calls that wait


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A run that was parked goes on."""

    task_id: str
    reason: str  # what it was parked for
    parked_seconds: float


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A person's decision reached its run."""

    task_id: str
    tool_name: str
    call_id: str
    arguments_hash: str
    approved: bool
    who: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobBegun:
    """A tool began a job that the run will wait for."""

    task_id: str
    tool_name: str
    call_id: str
    handle: str
    until: float


@dataclass(frozen=True, slots=True)
class JobReported:
    """The result of a job reached its run. `outcome`: success | error."""

    task_id: str
    tool_name: str
    call_id: str
    handle: str
    outcome: str
    waited_seconds: float


ParkingSignal = RunParked | RunResumed | ApprovalDecided | JobBegun | JobReported

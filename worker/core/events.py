"""Facts about a run, in the past tense: the only thing the journal stores.

Rules: no field is ever removed or re-used; new fields have defaults; `store/codec.py` reads every
older version. Times (`at`) are wall clock seconds since the epoch. Store deltas, never the whole
prompt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from worker.core.messages import Observation, Reply


@dataclass(frozen=True, slots=True)
class Started:
    """The run began: what was decided once and must not change under it."""

    at: float
    task: dict[str, Any]  # the task in wire format 1, so that the journal alone can be replayed
    max_steps: int
    max_steps_reason: str
    system_prompt: str
    tools: tuple[str, ...]
    language: str  # zh | en: the language of the question
    history: tuple[dict[str, Any], ...] = ()  # messages of the session, as loaded
    deadline: float | None = None  # when the run has to be over
    steps_bound: int = 0  # how far failures may raise max_steps; 0: not at all
    pollers: tuple[str, ...] = ()  # tools whose repetition is no loop


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The model answered; journaled before anything in the reply is acted on."""

    at: float
    reply: Reply


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """The model gave no usable reply, after all attempts."""

    at: float
    status: str
    error: str
    transient: bool
    text: str = ""
    retry_after_seconds: float | None = None
    attempted: bool = True  # False: no request was made, so no delivery is used up


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call with an effect is about to be made (write-ahead; reads have no such event)."""

    at: float
    call_id: str
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A call has its one observation; it never runs again."""

    at: float
    call_id: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class NoteAdded:
    """Something the model is told besides results: what is left, a warning."""

    at: float
    kind: str  # repeated_call | …
    text: str


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A call waits for a person; nothing of it has run."""

    at: float
    call_id: str
    arguments_hash: str  # what the decision is bound to
    expires_at: float


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A call has begun something that goes on without us; its result is reported, or asked for."""

    at: float
    call_id: str
    handle: str
    expires_at: float
    poll_at: float | None = None  # when to ask for it, if the tool can be asked
    effect: str = "write"  # of the tool, as it was when the job began


@dataclass(frozen=True, slots=True)
class JobPolled:
    """A job was asked for and is not done yet; None: it will not be asked for again."""

    at: float
    call_id: str
    poll_at: float | None


@dataclass(frozen=True, slots=True)
class StateKept:
    """What the calls of a sequential group share has changed; the newest of a group counts.

    `kept` is JSON that only `running/groups.py` reads. There are cookies in it: it is never shown.
    """

    at: float
    group: str
    kept: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Away:
    """A tool whose breaker is open, as it was when the model was asked."""

    tool: str
    reason: str  # breaker_open | trial_in_flight | forced_open
    stub: str | None = None
    retry_after_seconds: float | None = None
    offered: bool = False  # it may still give an old value, or has another source
    concerns: bool = False  # the question is about it
    instead: tuple[str, ...] = ()  # tools on offer that are about the same


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """Other tools are away than at the request before: all of them, not only the new ones."""

    at: float
    away: tuple[Away, ...]


@dataclass(frozen=True, slots=True)
class HandedOff:
    """A rule found that a person has to take over; what the rules say later changes nothing."""

    at: float
    rule: str
    reason: str
    source: str = "answer"  # answer | result
    call_id: str | None = None  # of the result


@dataclass(frozen=True, slots=True)
class HistoryCut:
    """The conversation was too long for the model: less of it is sent from here on.

    Of the turns that were sent so far the newest `turns` stay, the newest `whole` of those with their
    calls.
    """

    at: float
    turns: int
    whole: int


@dataclass(frozen=True, slots=True)
class StepsChanged:
    """The run may take another number of steps from here on."""

    at: float
    max_steps: int
    reason: str


@dataclass(frozen=True, slots=True)
class CallHeld:
    """A call waits until another one of its sequential group, which waits itself, is over."""

    at: float
    call_id: str
    behind: str  # the id of the other call


@dataclass(frozen=True, slots=True)
class Parked:
    """The run waits for a time, a job or a person, holding nothing."""

    at: float
    reason: str
    until: float | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """A later delivery took the run up again."""

    at: float
    delivery: int
    reason: str = "redelivered"


@dataclass(frozen=True, slots=True)
class Decided:
    """A person approved or denied one call (bound to the digest of its arguments)."""

    at: float
    call_id: str
    approved: bool
    arguments_hash: str
    by: str = ""
    why: str = ""
    expires_at: float | None = None  # an approval has to be used before that


@dataclass(frozen=True, slots=True)
class Ended:
    """The run was ended from outside: cancelled, expired, or a bug was met."""

    at: float
    status: str
    error: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


Event = (
    Started
    | ModelReplied
    | ModelFailed
    | ToolStarted
    | ToolReturned
    | NoteAdded
    | ApprovalAsked
    | JobStarted
    | JobPolled
    | HistoryCut
    | StepsChanged
    | ToolsChanged
    | HandedOff
    | StateKept
    | CallHeld
    | Parked
    | Resumed
    | Decided
    | Ended
)

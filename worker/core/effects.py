"""What the loop asks the outside to do."""

from __future__ import annotations

from dataclasses import dataclass

from worker.core.events import JobStarted
from worker.core.messages import Message, Observation, ToolCall
from worker.core.staying import Stay


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model for one reply. `allow_calls=False` is the closing turn.

    `stay` is the fallback that the run goes on with for now, `withheld` names tools that are not
    on offer.
    """

    step: int  # 1 for the first reply
    messages: list[Message]
    allow_calls: bool
    seconds_left: float | None
    stay: Stay | None = None
    withheld: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CallTools:
    """Make these calls, in any order; `in_doubt` names those whose effect may have happened.

    `answered` are observations that need no call (too many calls in one reply). `approved` names
    the calls that a person has allowed. `polls` are jobs to ask for.
    """

    step: int
    calls: tuple[ToolCall, ...]
    in_doubt: frozenset[str] = frozenset()
    answered: tuple[tuple[ToolCall, Observation], ...] = ()
    approved: frozenset[str] = frozenset()
    polls: tuple[tuple[ToolCall, JobStarted], ...] = ()


@dataclass(frozen=True, slots=True)
class AddNote:
    """Write a note for the model into the journal."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangeSteps:
    """Write into the journal that the run gets another number of steps."""

    max_steps: int
    reason: str


@dataclass(frozen=True, slots=True)
class CutHistory:
    """Write into the journal that only these turns of the conversation are sent from here on."""

    turns: int
    whole: int


@dataclass(frozen=True, slots=True)
class Park:
    """Let go of the run until a time; `call_id` when it waits for one call alone."""

    reason: str
    until: float | None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over. `transient`: the same task may succeed in a later delivery."""

    status: str
    answer: str
    error: str | None = None
    transient: bool = False
    retry_after_seconds: float | None = None
    attempted: bool = True


Effect = CallModel | CallTools | AddNote | ChangeSteps | CutHistory | Park | Finish

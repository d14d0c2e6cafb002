"""The agent loop as a state machine: what to do next, given what has happened.

    thinking ──ModelReplied(calls)──▶ acting ──last ToolReturned──▶ thinking
       │                                                              │
       └── ModelReplied(answer …) · ModelFailed · Ended ──▶ ended ◀───┘ (a limit is reached)

Policy lives in `next` (which may change between releases), facts in `apply` (which must not).
`next` is idempotent and changes nothing; `apply` refuses an event that cannot follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from worker.core import ending, remaining
from worker.core.effects import AddNote, CallModel, CallTools, ChangeSteps, Effect, Park
from worker.core.errors import IllegalEvent
from worker.core.events import (
    ApprovalAsked,
    CallHeld,
    Decided,
    Ended,
    Event,
    HandedOff,
    HistoryCut,
    JobPolled,
    JobStarted,
    ModelFailed,
    ModelReplied,
    NoteAdded,
    Parked,
    Resumed,
    Started,
    StateKept,
    StepsChanged,
    ToolReturned,
    ToolsChanged,
    ToolStarted,
)
from worker.core.limits import Limits
from worker.core.messages import Observation, Reply, ReplyKind, Source, ToolCall, Usage
from worker.core.offering import Offering
from worker.core.repetition import Repetition
from worker.core.shortening import Shortening
from worker.core.staying import Stay, after_reply, still
from worker.core.steps import after_failures, is_failed
from worker.core.texts import NUDGE, REPEATED_CALL, TOO_MANY_CALLS
from worker.core.transcript import Transcript
from worker.core.waiting import Sorted, Waiting, WaitingEvent


class Loop:
    """One run. Build it with `replay`; then alternate `next` and `apply`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.started: Started | None = None
        self.usage = Usage()
        self.models: tuple[str, ...] = ()
        self.unpriced: str | None = None  # a model whose reply cost nobody knows what
        self.stay: Stay | None = None
        self.replies = 0
        self.last: Reply | None = None
        self.failed: ModelFailed | None = None
        self.parked: Parked | None = None
        self.parked_seconds = 0.0
        self.waiting = Waiting()
        self.offering = Offering()
        self.shortening = Shortening()
        self.ended: Ended | None = None
        self.handed_off: HandedOff | None = None
        self.kept: dict[str, str] = {}  # of each sequential group, as its last call left it
        self.observed: list[tuple[int, ToolCall, Observation]] = []
        self.steps_changed: StepsChanged | None = None
        self.failed_steps = 0
        self.calling: list[dict[str, Any]] = []  # the model's messages with calls, as sent back
        self.invalid_turns = 0
        self.empty_replies = 0
        self.empty_results = 0
        self.repetition = Repetition()
        self.pending: dict[str, ToolCall] = {}
        self.returned: dict[str, Observation] = {}
        self._intents: set[str] = set()
        self._transcript: Transcript | None = None

    @classmethod
    def replay(cls, limits: Limits, events: Iterable[Event]) -> Loop:
        """Fold a journal into a loop. Raises IllegalEvent if the events contradict each other."""
        loop = cls(limits)
        for event in events:
            loop.apply(event)
        return loop

    def __repr__(self) -> str:
        state = "ended" if self.ended else "acting" if self.pending else "thinking"
        return (
            f"Loop({state}, {self.replies} of {self.max_steps} steps, {len(self.observed)} calls)"
        )

    @property
    def max_steps(self) -> int:
        """The bound of this run: as decided when it began, or changed since."""
        if self.steps_changed is not None:
            return self.steps_changed.max_steps
        return self.started.max_steps if self.started else 0

    @property
    def max_steps_reason(self) -> str:
        """Why it is that many: the first decision, then the last change of it."""
        first = self.started.max_steps_reason if self.started else ""
        return f"{first}; {self.steps_changed.reason}" if self.steps_changed else first

    @property
    def tokens_used(self) -> int:
        """The tokens of all replies, guessed where the endpoint told none."""
        usage = self.usage
        return usage.prompt_tokens + usage.completion_tokens + usage.guessed_tokens

    @property
    def deadline(self) -> float | None:
        """When the run has to be over, wall clock seconds; decided when it began.

        An end that the task names stands. One from the settings bounds the work, and so moves on
        by the time that the run was parked: what a run waits for has limits of its own.
        """
        if self.started is None or self.started.deadline is None:
            return None
        return self.started.deadline + (0.0 if self.deadline_is_own else self.parked_seconds)

    @property
    def deadline_is_own(self) -> bool:
        """Whether the task itself names its end."""
        return self.started is not None and self.started.task.get("deadline") is not None

    @property
    def language(self) -> str:
        """The language of the question: zh or en."""
        return self.started.language if self.started else "en"

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no observation yet, in call order."""
        return tuple(c for c in self.pending.values() if c.id not in self.returned)

    @property
    def in_doubt(self) -> frozenset[str]:
        """The ids of the unanswered calls whose effect may have happened."""
        return frozenset(self._intents)

    # --- policy ----------------------------------------------------------------------------------

    def next(self, now: float) -> Effect:
        """Decide the next effect. `now` is wall clock seconds since the epoch."""
        assert self.started is not None, "a run begins with Started"
        if self.ended is not None:
            return ending.ended(self, self.ended)
        if self.handed_off is not None:
            return ending.handed_off(self, self.handed_off)
        if self.parked is not None:
            return Park(self.parked.reason, self.parked.until, self.parked.call_id)
        if self.failed is not None:
            return self.shortening.after(self.failed) or ending.failed(self, self.failed)
        over = ending.limit_reached(self, now)
        if over is not None:
            return over
        if self.pending:
            return self._next_calls(now)
        if self.last is not None and self.last.kind not in (ReplyKind.CALLS, ReplyKind.EMPTY):
            return ending.answered(self, self.last)
        return self._next_thought(now)

    def _next_calls(self, now: float) -> Effect:
        calls, limit = self.unanswered, self.limits.max_calls_per_step
        if self.closing_turn_over:
            return ending.out_of_steps(self)
        position = {call_id: i for i, call_id in enumerate(self.pending)}
        text = TOO_MANY_CALLS[self.language].format(limit=limit)
        refused = Observation(text, Source.SKIPPED, reason="too_many_calls", status_code=422)
        within = [c for c in calls if position[c.id] < limit]
        found = self.waiting.sort(within, in_doubt=self._intents, now=now, language=self.language)
        answered = [*found.answered, *((c, refused) for c in calls if position[c.id] >= limit)]
        answered += self._not_offered(found)
        if found.waiting and not (found.runnable or found.polls or answered):
            return self._park(found)
        return CallTools(
            step=self.replies,
            calls=tuple(found.runnable),
            in_doubt=self.in_doubt,
            answered=tuple(answered),
            approved=frozenset(found.approved),
            polls=tuple(found.polls),
        )

    def _not_offered(self, found: Sorted) -> list[tuple[ToolCall, Observation]]:
        """Take out the calls of tools that were not on offer; what has begun is left to its end."""
        rows: list[tuple[ToolCall, Observation]] = []
        for call in list(found.runnable):
            told = self.offering.answer(call, self.language)
            if told is not None and call.id not in self._intents | found.approved:
                found.runnable.remove(call)
                rows.append((call, told))
        return rows

    def _park(self, found: Sorted) -> Park:
        until, waiting = found.until, found.waiting
        if self.deadline is not None and self.deadline_is_own:
            until = self.deadline if until is None else min(until, self.deadline)
        only = waiting[0].id if len(waiting) == 1 else None
        return Park(self.waiting.reason(waiting), until, only)

    def _next_thought(self, now: float) -> Effect:
        more = self._more_steps()
        if more is not None:
            return more
        left = self.max_steps - self.replies
        if left <= 0:
            return ending.out_of_steps(self)
        warn_at = max(2, self.limits.max_repeats - 1)
        if self.repetition.count >= warn_at and not self.repetition.is_warned:
            text = REPEATED_CALL[self.language].format(count=self.repetition.count)
            return AddNote("repeated_call", text)
        assert self._transcript is not None
        return CallModel(
            step=self.replies + 1,
            messages=self._transcript.messages(passing_note=remaining.note_of(self, now)),
            allow_calls=left > 1,
            seconds_left=ending.seconds_left(self, now),
            stay=still(self.stay, now),
            withheld=self.offering.withheld,
        )

    def _more_steps(self) -> ChangeSteps | None:
        assert self.started is not None
        bound, failed = self.started.steps_bound, self.failed_steps
        due = after_failures(self.started.max_steps, bound=bound, failed_steps=failed)
        if due <= self.max_steps:
            return None
        return ChangeSteps(due, f"adaptive: {failed} of {self.replies} steps failed")

    @property
    def closing_turn_over(self) -> bool:
        """Whether the last reply was the closing one: a call in it is never run."""
        return self.replies >= self.max_steps

    # --- facts -----------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Take a fact in. Raises IllegalEvent, leaving the state alone, if it cannot follow."""
        if isinstance(event, Started):
            return self._apply_started(event)
        if self.started is None:
            raise IllegalEvent(f"{type(event).__name__} before Started")
        if self.ended is not None and not isinstance(event, Resumed):
            raise IllegalEvent(f"{type(event).__name__} after the end")
        match event:
            case ModelReplied():
                self._apply_reply(event.reply)
                self.stay = after_reply(self.stay, event.reply, event.at)
            case ModelFailed():
                self._refuse_if_acting(event)
                self.failed = event
            case ToolStarted():
                self._call(event.call_id)
                self._intents.add(event.call_id)
            case ToolReturned():
                self._apply_returned(event)
            case NoteAdded():
                self._apply_note(event)
            case ApprovalAsked() | Decided() | JobStarted() | JobPolled() | CallHeld():
                self._apply_waiting(event)
            case HistoryCut():
                self._apply_history_cut(event)
            case StepsChanged():
                self._refuse_if_acting(event)
                self.steps_changed = event
            case ToolsChanged():
                self._apply_tools_changed(event)
            case StateKept():
                self.kept[event.group] = event.kept
            case HandedOff():
                self._apply_handed_off(event)
            case Parked():
                self.parked = event
            case Resumed():
                if self.parked is not None:
                    self.parked_seconds += max(0.0, event.at - self.parked.at)
                self.failed = self.parked = self.ended = None
            case Ended():
                self.ended = event
            case _:
                assert_never(event)

    def _apply_started(self, event: Started) -> None:
        if self.started is not None:
            raise IllegalEvent("Started twice")
        self.started = event
        self.shortening.begin(event)
        question = str(event.task["input"])
        self._transcript = Transcript(event.system_prompt, event.history, question)

    def _apply_history_cut(self, event: HistoryCut) -> None:
        self._refuse_if_acting(event)
        assert self._transcript is not None
        self.failed = None
        self._transcript.shorten(self.shortening.apply(event))

    def _apply_reply(self, reply: Reply) -> None:
        self._refuse_if_acting(reply)
        if len({call.id for call in reply.calls}) != len(reply.calls):
            raise IllegalEvent("two calls of one reply have the same id")
        assert self._transcript is not None
        self.replies += 1
        self.failed = None
        self.last = reply
        self.usage = self.usage.plus(reply.usage)
        if reply.usage.cost is None or reply.usage.cost_is_partial:
            self.unpriced = reply.model
        if reply.model and reply.model not in self.models:
            self.models += (reply.model,)
        if reply.kind is ReplyKind.EMPTY:
            # The empty message itself is not sent back: several servers refuse such a turn.
            self.empty_replies += 1
            self._transcript.note(NUDGE[self.language])
            return
        self.empty_replies = 0
        if reply.kind is ReplyKind.CALLS:
            self._transcript.turn(reply.message)
            self.calling.append(reply.message)
            self.pending = {call.id: call for call in reply.calls}
            self.returned = {}
            runnable = any(call.problem is None for call in reply.calls)
            self.invalid_turns = 0 if runnable else self.invalid_turns + 1

    def _apply_tools_changed(self, event: ToolsChanged) -> None:
        self._refuse_if_acting(event)
        assert self._transcript is not None
        for text in self.offering.apply(event, self.language):
            self._transcript.note(text, lasting=True)

    def _apply_waiting(self, event: WaitingEvent) -> None:
        self._call(event.call_id)
        if event.call_id in self.returned:
            raise IllegalEvent(f"{type(event).__name__} for call {event.call_id!r}, which is over")
        self.waiting.apply(event)

    def _apply_returned(self, event: ToolReturned) -> None:
        self._call(event.call_id)
        if event.call_id in self.returned:
            raise IllegalEvent(f"a second observation for call {event.call_id!r}")
        self.returned[event.call_id] = event.observation
        self._intents.discard(event.call_id)
        self.waiting.forget(event.call_id)
        if len(self.returned) == len(self.pending):
            self._close_round()

    def _close_round(self) -> None:
        assert self._transcript is not None and self.started is not None
        pollers = self.started.pollers
        rows = [(call, self.returned[call.id]) for call in self.pending.values()]
        for call, observation in rows:
            self._transcript.result(call, observation)
            self.observed.append((self.replies, call, observation))
            self.offering.observe(call, observation)
            # An empty result of a poller says: not yet.
            self.empty_results += observation.empty and call.name not in pollers
        if not all(observation.empty for _, observation in rows):
            self.empty_results = 0  # also where others of the same reply found nothing
        self.failed_steps += any(is_failed(observation) for _, observation in rows)
        self.repetition.close(rows, pollers=pollers)
        self.pending = {}
        self.returned = {}

    def _apply_handed_off(self, event: HandedOff) -> None:
        ending.check_handoff(self, event)
        if self.handed_off is None:  # of several in one round, the first counts
            self.handed_off = event

    def _apply_note(self, event: NoteAdded) -> None:
        assert self._transcript is not None
        self._transcript.note(event.text)
        if event.kind == "repeated_call":
            self.repetition.is_warned = True

    def _call(self, call_id: str) -> ToolCall:
        if call_id not in self.pending:
            raise IllegalEvent(f"no such call: {call_id!r}")
        return self.pending[call_id]

    def _refuse_if_acting(self, event: object) -> None:
        if self.pending:
            raise IllegalEvent(f"{type(event).__name__} while {len(self.unanswered)} calls wait")

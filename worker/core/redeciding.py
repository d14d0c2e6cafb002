"""Decide a recorded run again, fact by fact, under the code and the limits of now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from worker.core import events as facts
from worker.core.effects import (
    AddNote,
    CallModel,
    CallTools,
    ChangeSteps,
    CutHistory,
    Effect,
    Park,
)
from worker.core.events import Event
from worker.core.limits import Limits
from worker.core.loop import Loop
from worker.core.opening import limits_of
from worker.core.prices import PriceList
from worker.core.wireformat import task_from_wire

# What has to be decided for a fact to follow. All others come from outside: they are not decided.
_LEADS: dict[type, tuple[type, ...]] = {
    facts.ModelReplied: (CallModel,),
    facts.ModelFailed: (CallModel,),
    facts.ToolsChanged: (CallModel,),
    facts.NoteAdded: (AddNote,),
    facts.HistoryCut: (CutHistory,),
    facts.StepsChanged: (ChangeSteps,),
    facts.ToolStarted: (CallTools,),
    facts.ToolReturned: (CallTools, Park),  # a job or a decision is heard before anything else
    facts.ApprovalAsked: (CallTools,),
    facts.JobStarted: (CallTools,),
    facts.JobPolled: (CallTools,),
    facts.CallHeld: (CallTools,),
    facts.Parked: (Park,),
}


@dataclass(frozen=True, slots=True)
class Redecided:
    """One fact and the decision before it: None for what comes from outside, and after a
    difference, where the run would not have come.
    """

    event: Event
    decision: Effect | None
    differs: bool = False


@dataclass(frozen=True, slots=True)
class Redecision:
    """A whole run: its facts, the loop after them, and what it would do next."""

    facts: tuple[Redecided, ...]
    loop: Loop
    last: Effect | None  # None for a journal without facts

    @property
    def difference(self) -> int | None:
        """The place of the first fact that would not follow today, or None."""
        return next((at for at, fact in enumerate(self.facts) if fact.differs), None)


def redecide(limits: Limits, events: Sequence[Event], *, now: float | None = None) -> Redecision:
    """Take a journal apart into facts and decisions; nothing is called, nothing is written.

    `limits` are those of the settings; the budget of the task, which is in its journal, narrows
    them. `now` is when the last decision was made, wall clock seconds; by default the time of the last
    fact. A fact follows from the decision made when the fact before it was there, or when it came
    itself: a journal does not tell when between the two it was. Raises IllegalEvent for events
    that contradict each other.
    """
    loop, read = Loop(_of_this_run(limits, events)), list[Redecided]()
    before, is_reached = 0.0, True
    for event in events:
        told = _judged(loop, event, before) if is_reached else Redecided(event, None)
        read.append(told)
        is_reached = is_reached and not told.differs
        loop.apply(event)
        before = event.at
    last = None if loop.started is None else loop.next(before if now is None else now)
    return Redecision(tuple(read), loop, last)


def priced(events: Sequence[Event], prices: PriceList) -> list[Event]:
    """The facts with a cost for each reply that had none when it came; what was paid stays."""
    return [
        _priced(each, prices) if isinstance(each, facts.ModelReplied) else each for each in events
    ]


def _priced(event: facts.ModelReplied, prices: PriceList) -> facts.ModelReplied:
    reply = event.reply
    if reply.usage.cost is not None:
        return event
    cost = prices.cost_of(reply.usage, model=reply.model)
    return replace(event, reply=replace(reply, usage=replace(reply.usage, cost=cost)))


def _of_this_run(limits: Limits, events: Sequence[Event]) -> Limits:
    begun = next((event for event in events if isinstance(event, facts.Started)), None)
    if begun is None:
        return limits
    # The id may be any that a queue has taken; the rest was read when the run began.
    return limits_of(task_from_wire({**begun.task, "id": "any"}, default_id=""), limits)


def _judged(loop: Loop, event: Event, before: float) -> Redecided:
    if loop.started is None or type(event) not in _LEADS:
        return Redecided(event, None)
    decision = loop.next(before)
    if not _leads_to(decision, event):
        later = loop.next(event.at)
        if not _leads_to(later, event):
            return Redecided(event, decision, differs=True)
        decision = later
    return Redecided(event, decision)


def _leads_to(decision: Effect, event: Event) -> bool:
    if not isinstance(decision, _LEADS[type(event)]):
        return False
    match decision, event:
        case CallTools(), facts.ToolStarted():
            return any(call.id == event.call_id for call in decision.calls)
        case CallTools(), facts.ToolReturned():
            refused = {call.id for call, _ in decision.answered}
            return event.call_id not in refused or event.observation.attempts == 0
        case ChangeSteps(), facts.StepsChanged():
            return decision.max_steps == event.max_steps
        case _:
            return True

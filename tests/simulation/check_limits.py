"""Limits: of steps, attempts, deliveries and bytes; and what may not be counted against anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.simulation.facts import (
    Claimed,
    Ended,
    Mishap,
    ModelAsked,
    Opened,
    Revived,
    Settled,
    Told,
    ToolRan,
    Wrote,
)
from tests.simulation.world import Outcome
from worker.core.events import ModelReplied, Started
from worker.telemetry.signals import BreakerChanged, ErrorUnhandled

_ATTEMPTS = 3  # of a tool call, and of a model call
_EVENT_BYTES = 1_500  # of one event besides the first: what is new in it, not what was before
_EVENTS_PER_STEP = 16
_EMPTY_REPLIES = 3
_UNDISTURBED = ("calm", "outside")  # worlds in which every owner renews its leases
_FROM_INSIDE = ("drain", "interrupted", "handed back")


def neutral(outcome: Outcome) -> Iterator[str]:
    """Shutdown, cancels and pauses open no breaker and cost no delivery."""
    faults = outcome.plan.faults
    fails = faults.model_fails or faults.tool_fails or faults.tool_hangs
    for fact in outcome.facts.all:
        match fact:
            case Mishap(kind="leak"):
                yield f"still held, and nothing is under way: {fact.detail}"
            case Claimed() if fact.lapses and outcome.plan.world in _UNDISTURBED:
                yield f"the lease of {fact.task} ran out, and its owner lives"
            case Told(signal=BreakerChanged(to_state="open") as signal) if not fails:
                if not (faults.pause or faults.block):  # a stopped process may find itself slow
                    yield f"{fact.by} opened the breaker {signal.name}, and nothing had failed"
            case Settled(action="nack", counted=True, by_drain=True):
                if fact.reason.startswith(_FROM_INSIDE):
                    yield f"{fact.by} drained, and {fact.task} paid for it: {fact.reason}"
    yield from _deliveries(outcome)


def _deliveries(outcome: Outcome) -> Iterator[str]:
    """A delivery is counted as often as it was claimed, without those that were handed back."""
    counted: Counter[str] = Counter()
    for fact in outcome.facts.all:
        match fact:
            case Claimed():
                counted[fact.task] += 1
                if counted[fact.task] != fact.deliveries:
                    yield f"{fact.task} is at delivery {fact.deliveries}, not {counted[fact.task]}"
                if fact.deliveries > outcome.plan.max_deliveries:
                    yield f"{fact.task} was delivered {fact.deliveries} times"
            case Settled(action="nack", counted=False):
                counted[fact.task] -= 1
            case Revived():
                counted[fact.task] = 0


def bounded(outcome: Outcome) -> Iterator[str]:
    """Steps, attempts and questions to the model stay within their limits, for each owner."""
    lives: Counter[str] = Counter()
    asked: Counter[tuple[str, int]] = Counter()
    tried: Counter[tuple[str, str, int, str]] = Counter()
    limits: dict[str, int] = {}
    for fact in outcome.facts.all:
        match fact:
            case Opened():
                lives[fact.run] += 1
            case Wrote():
                for event in fact.events:
                    if isinstance(event, Started):
                        limits[fact.run] = event.max_steps
            case ModelAsked():
                asked[fact.run, lives[fact.run]] += 1
            case ToolRan():
                tried[fact.run, fact.call, lives[fact.run], fact.purpose] += 1
            case Ended(result=result):
                most = limits.get(fact.run, 0)
                if result.steps > most:
                    yield f"{fact.run} took {result.steps} steps, at most {most} are right"
    most = (outcome.plan.max_steps + _EMPTY_REPLIES) * _ATTEMPTS
    for (run, _), times in asked.items():
        if times > 2 * most:  # a cut-off owner may ask on for a moment beside the next one
            yield f"the model was asked {times} times for {run}"
    for (run, call, _, purpose), times in tried.items():
        if times > 2 * _ATTEMPTS:
            yield f"{purpose} {call} of {run} was tried {times} times"


def linear(outcome: Outcome) -> Iterator[str]:
    """An event holds what is new in it, and there are only so many for each step."""
    events: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    lives: Counter[str] = Counter()
    for fact in outcome.facts.all:
        match fact:
            case Opened():
                lives[fact.run] += 1
            case Wrote():
                for event, size in zip(fact.events, fact.sizes, strict=True):
                    events[fact.run] += 1
                    steps[fact.run] += isinstance(event, ModelReplied)
                    if size > _EVENT_BYTES and not isinstance(event, Started):
                        yield f"{fact.run}: a {type(event).__name__} of {size} bytes"
    for run, count in events.items():
        most = 4 + 3 * lives[run] + _EVENTS_PER_STEP * (steps[run] + 1)
        if count > most:
            yield f"{run} has {count} events in {steps[run]} steps"


def no_bugs(outcome: Outcome) -> Iterator[str]:
    """Nothing raised what nobody expected, least of all because a listener is broken."""
    for fact in outcome.facts.of(Told):
        if isinstance(fact.signal, ErrorUnhandled):
            yield f"{fact.by}: {fact.signal.component}: {fact.signal.error!r}"
    for mishap in outcome.facts.of(Mishap):
        if mishap.kind == "bug":
            yield mishap.detail

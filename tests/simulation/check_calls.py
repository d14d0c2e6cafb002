"""What is called: with paired conversations, after the journal knows, and never twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.simulation.facts import Effected, ModelAsked, ToolRan, Wrote
from tests.simulation.world import Outcome
from worker.core.events import ModelReplied, ToolReturned, ToolStarted

Call = tuple[str, str]


def paired(outcome: Outcome) -> Iterator[str]:
    """Every conversation that a model was sent has each call answered once, in order."""
    for fact in outcome.facts.of(ModelAsked):
        if fact.unpaired is not None:
            yield f"{fact.run}: {fact.unpaired}"


def never_again(outcome: Outcome) -> Iterator[str]:
    """A call runs only after its reply is in the journal, and is not begun once its result is.

    An effect has its intent in the journal before; a write is made once, ever, and whatever is
    repeated is repeated with its key.
    """
    asked: set[Call] = set()
    intended: dict[Call, str] = {}
    returned: set[Call] = set()
    begun: set[tuple[str, Call]] = set()
    keys: dict[Call, str] = {}
    effects: Counter[Call] = Counter()
    for fact in outcome.facts.all:
        match fact:
            case Wrote():
                yield from _learn(fact, asked, intended, returned)
            case ToolRan():
                call = (fact.run, fact.call)
                # An owner that was fenced while the call was under way may try it on for a moment:
                # with its key, and to no avail.
                is_under_way = (fact.by, call) in begun
                yield from _judge(fact, asked, intended, set() if is_under_way else returned)
                begun.add((fact.by, call))
                if keys.setdefault(call, fact.key) != fact.key:
                    yield f"{fact.tool} {call} was repeated with another key"
            case Effected(effect="write"):
                effects[fact.run, fact.call] += 1
                if effects[fact.run, fact.call] > 1:
                    yield f"the write {fact.tool} of {fact.run}, {fact.call} was made twice"


def _learn(
    fact: Wrote, asked: set[Call], intended: dict[Call, str], returned: set[Call]
) -> Iterator[str]:
    for event in fact.events:
        match event:
            case ModelReplied():
                asked.update((fact.run, call.id) for call in event.reply.calls)
            case ToolStarted():
                intended[fact.run, event.call_id] = event.idempotency_key
            case ToolReturned():
                if (fact.run, event.call_id) in returned:
                    yield f"{fact.run}, {event.call_id} has two observations"
                returned.add((fact.run, event.call_id))


def _judge(
    fact: ToolRan, asked: set[Call], intended: dict[Call, str], returned: set[Call]
) -> Iterator[str]:
    call = (fact.run, fact.call)
    if call not in asked:
        yield f"{fact.tool} ran for {call}, which no journaled reply asks for"
    if call in returned:
        yield f"{fact.tool} ran for {call}, whose result is journaled"
    if fact.effect != "read" and intended.get(call) != fact.key:
        yield f"{fact.tool} ran for {call} without its intent in the journal"

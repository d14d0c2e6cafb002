"""What is called: with paired conversations, after the journal knows, and never twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.simulation.facts import Effected, ModelAsked, Opened, ToolRan, Wrote
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
    repeated is repeated with its key. An owner that was stopped right after it wrote an intent, and
    has been followed since, may begin the call when it goes on: only the key can prevent that.
    """
    book = _Book()
    keys: dict[Call, str] = {}
    effects: Counter[Call] = Counter()
    for fact in outcome.facts.all:
        match fact:
            case Opened():
                book.owned[fact.by, fact.run] = fact.epoch
            case Wrote():
                yield from book.learn(fact)
            case ToolRan():
                yield from book.judge(fact)
                call = (fact.run, fact.call)
                if keys.setdefault(call, fact.key) != fact.key:
                    yield f"{fact.tool} {call} was repeated with another key"
            case Effected(effect="write"):
                effects[fact.run, fact.call] += 1
                if effects[fact.run, fact.call] > 1:
                    yield f"the write {fact.tool} of {fact.run}, {fact.call} was made twice"


class _Book:
    """What the journal knows of calls, and the epoch in which it came to know it."""

    def __init__(self) -> None:
        self.owned: dict[tuple[str, str], int] = {}  # by process and run
        self.asked: dict[Call, int] = {}
        self.intended: dict[Call, tuple[str, int]] = {}
        self.returned: dict[Call, int] = {}
        self.begun: dict[tuple[str, Call], int] = {}

    def learn(self, fact: Wrote) -> Iterator[str]:
        """Take in what was written."""
        for event in fact.events:
            match event:
                case ModelReplied():
                    for made in event.reply.calls:
                        self.asked.setdefault((fact.run, made.id), fact.epoch)
                case ToolStarted():
                    intent = (event.idempotency_key, fact.epoch)
                    self.intended.setdefault((fact.run, event.call_id), intent)
                case ToolReturned():
                    if (fact.run, event.call_id) in self.returned:
                        yield f"{fact.run}, {event.call_id} has two observations"
                    self.returned[fact.run, event.call_id] = fact.epoch

    def judge(self, fact: ToolRan) -> Iterator[str]:
        """Object to a call for which the journal was not ready, as far as its owner could know."""
        call, own = (fact.run, fact.call), self.owned[fact.by, fact.run]
        if self.asked.get(call, own + 1) > own:
            yield f"{fact.tool} ran for {call}, which no journaled reply asks for"
        if call in self.returned and not self._was_under_way(fact.by, call, own):
            yield f"{fact.tool} ran for {call}, whose result is journaled"
        key, epoch = self.intended.get(call, ("", own + 1))
        if fact.effect != "read" and (key != fact.key or epoch > own):
            yield f"{fact.tool} ran for {call} without its intent in the journal"
        self.begun.setdefault((fact.by, call), own)

    def _was_under_way(self, by: str, call: Call, own: int) -> bool:
        known = self.returned[call]
        return own < known or (own == known and self.begun.get((by, call), own) < known)

"""What is said: nothing that stood in goes unsaid, and no secret is."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from tests.simulation.facts import Effected, Ended, Settled, ToolRan, Wrote
from tests.simulation.outside import CANARY
from tests.simulation.world import Outcome
from worker.core.events import ModelReplied, ToolReturned, ToolStarted
from worker.core.messages import Observation, Source
from worker.core.wireformat import result_to_wire

_STOOD_IN = (Source.STUB, Source.STALE, Source.ALTERNATIVE, Source.UNKNOWN)


def honest(outcome: Outcome) -> Iterator[str]:
    """What stood in for a result is in `degraded`, and is said in the answer of a full one."""
    names: dict[tuple[str, str], str] = {}
    seen: dict[str, list[tuple[str, Observation]]] = {}
    open_calls: dict[str, dict[str, str]] = {}  # of each run: intents without a result
    worked = {(fact.run, fact.call) for fact in outcome.facts.of(ToolRan)}
    done = {(fact.run, fact.call) for fact in outcome.facts.of(Effected)}
    for fact in outcome.facts.all:
        match fact:
            case Wrote():
                for event in fact.events:
                    if isinstance(event, ModelReplied):
                        names |= {(fact.run, call.id): call.name for call in event.reply.calls}
                    elif isinstance(event, ToolStarted):
                        intents = open_calls.setdefault(fact.run, {})
                        intents[event.call_id] = names[fact.run, event.call_id]
                    elif isinstance(event, ToolReturned):
                        call = (fact.run, event.call_id)
                        open_calls.get(fact.run, {}).pop(event.call_id, None)
                        seen.setdefault(fact.run, []).append((names[call], event.observation))
                        if event.observation.source is Source.LIVE and call not in worked & done:
                            yield f"{call} has a live result, and its tool never did it"
            case Ended() if fact.epoch is not None:
                doubtful = set(open_calls.get(fact.run, {}).values())
                yield from _said(fact, seen.get(fact.run, []), doubtful)


def _said(fact: Ended, seen: list[tuple[str, Observation]], doubtful: set[str]) -> Iterator[str]:
    told = {(part.tool, part.source) for part in fact.result.degraded}
    for tool in sorted(doubtful):
        if (tool, "unknown") not in told:
            yield f"{fact.run} does not say that {tool} had begun, and nobody knows its end"
    for tool, observation in seen:
        source = observation.source
        if source in _STOOD_IN and (tool, str(source)) not in told:
            yield f"{fact.run} does not say that {tool} was {source}"
        is_answered = fact.result.status == "completed"
        if (
            source is Source.STUB
            and is_answered
            and str(observation.stub) not in fact.result.answer
        ):
            yield f"the answer of {fact.run} hides that {tool} was a stub"
    live = all(observation.source is Source.LIVE for _, observation in seen)
    if told and live and not doubtful and not any(source == "skipped" for _, source in told):
        yield f"{fact.run} says that it is degraded, and is not: {sorted(told)}"


def no_secrets(outcome: Outcome) -> Iterator[str]:
    """No reason, error, result or dead letter holds the secret that tools and the model blurt out."""
    for fact in outcome.facts.all:
        match fact:
            case Settled() if CANARY in fact.reason:
                yield f"{fact.task} was settled with it: {fact.reason}"
            case Ended() if CANARY.encode() in orjson.dumps(result_to_wire(fact.result)):
                yield f"the result of {fact.run} holds it"
            case Wrote() if any(CANARY in repr(event) for event in fact.events):
                yield f"the journal of {fact.run} holds it"
    for row in outcome.rows.values():
        if CANARY in row.reason or any(CANARY in line for line in row.history):
            yield f"the dead letter {row.id} holds it"

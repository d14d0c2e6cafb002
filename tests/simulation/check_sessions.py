"""Conversations: one run at a time has one, and each run has read what was said before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.simulation.facts import Accepted, Ended, Opened, Wrote
from tests.simulation.world import Outcome
from worker.core.events import Started


def one_after_another(outcome: Outcome) -> Iterator[str]:
    """A run that has begun in a session knows all turns that were there, in order, and only those.

    In a calm world the tasks of a session end in the order in which they were handed in.
    """
    order: dict[str, list[str]] = {}  # session: its turns by the questions, as they were saved
    read: dict[str, tuple[str, list[str]]] = {}
    questions: dict[str, str] = {}
    lives: Counter[str] = Counter()
    for fact in outcome.facts.all:
        match fact:
            case Opened() if fact.session is not None:
                lives[fact.run] += 1
                if fact.known == 0:
                    read[fact.run] = (fact.session, list(order.get(fact.session, [])))
            case Wrote():
                for event in fact.events:
                    if isinstance(event, Started) and fact.run in read:
                        questions[fact.run] = str(event.task["input"])
                        said = [m["content"] for m in event.history if m["role"] == "user"]
                        if said != read[fact.run][1]:
                            yield f"{fact.run} began with {said}, there was {read[fact.run][1]}"
            case Ended() if fact.session is not None:
                turns = order.setdefault(fact.session, [])
                if questions[fact.run] in turns:  # of before its redrive
                    turns.remove(questions[fact.run])
                turns.append(questions[fact.run])
                is_undisturbed = lives[fact.run] == 1  # the others read what they had begun with
                if is_undisturbed and read[fact.run][1] != turns[:-1]:
                    yield f"{fact.run} ended in a session in which others spoke meanwhile"
    if outcome.plan.world == "calm":
        yield from _in_order(outcome, order)


def _in_order(outcome: Outcome, order: dict[str, list[str]]) -> Iterator[str]:
    places = {fact.task: number for number, fact in enumerate(outcome.facts.of(Accepted))}
    for session, turns in order.items():
        tasks = [question.rpartition("(")[2].rstrip(")") for question in turns]
        numbers = [places[task] for task in tasks]
        if numbers != sorted(numbers):
            yield f"{session} answered in the order {tasks}"

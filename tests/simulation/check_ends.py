"""How tasks end: none is lost, each has one result, nobody writes who no longer owns the run."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from tests.simulation.facts import Accepted, Ended, LetGo, Opened, Published, Redriven, Wrote
from tests.simulation.world import Outcome
from worker.core.limits import Status
from worker.core.task import Result
from worker.core.wireformat import result_to_wire

_KNOWN = {str(status) for status in Status}


def nothing_lost(outcome: Outcome) -> Iterator[str]:
    """An accepted task has exactly one result, or one after each redrive; a dead one has a reason."""
    results: dict[str, Result] = {}
    for fact in outcome.facts.all:
        match fact:
            case Ended():
                if fact.run in results:
                    yield f"{fact.run} has two results"
                results[fact.run] = fact.result
            case Redriven():
                results.pop(fact.run, None)
    for task in {fact.task: None for fact in outcome.facts.of(Accepted)}:
        if task not in results:
            yield f"{task} has no result"
        elif results[task].status not in _KNOWN:
            yield f"{task} ended as {results[task].status!r}"
        row = outcome.rows.get(task)
        if row is None:
            yield f"{task} is gone from the queue"
        elif row.state == "dead" and not row.reason:
            yield f"{task} lies in the dead letters without a reason"
    yield from _published(outcome)


def _published(outcome: Outcome) -> Iterator[str]:
    """What was published is what is stored, and who named a queue for his result finds it there."""
    said: dict[str, dict[str, object]] = {}
    for fact in outcome.facts.of(Ended):
        said[fact.result.id] = result_to_wire(fact.result)
    for published in outcome.facts.of(Published):
        body = orjson.loads(published.body)
        stored = said.get(body["id"])
        if stored is None:
            yield f"{body['id']} was published and never stored"
        elif (stored["status"], stored["answer"]) != (body["status"], body["answer"]):
            yield f"{body['id']} was published as {body['status']}, stored as {stored['status']}"
    for task, row in outcome.rows.items():
        is_wanted = task in outcome.wanted
        if is_wanted and row.state in ("done", "dead") and not _is_there(outcome, task):
            yield f"the result of {task} was never published"


def _is_there(outcome: Outcome, task: str) -> bool:
    last = None
    for fact in outcome.facts.of(Ended):
        last = fact.result if fact.run == task else last
    return last is not None and last.id in outcome.replies


def queue_empty(outcome: Outcome) -> Iterator[str]:
    """In the end nothing waits, nothing is leased, and no run is open."""
    if not outcome.is_over:
        yield f"still not over after {outcome.seconds:.0f} s"
    for row in outcome.rows.values():
        if row.state not in ("done", "dead"):
            yield f"{row.id} is {row.state}: {row.history[-1:]}"
    for record in outcome.base.records.values():
        if record.state != "finished":
            yield f"the run {record.id} is {record.state}"


def fenced(outcome: Outcome) -> Iterator[str]:
    """Who has been followed by another owner, or by the end, writes nothing any more."""
    newest: dict[str, int] = {}
    over: set[str] = set()
    for fact in outcome.facts.all:
        match fact:
            case Opened():
                if fact.epoch <= newest.get(fact.run, 0):
                    yield f"{fact.run} got epoch {fact.epoch} again"
                if fact.run in over:
                    yield f"{fact.run} was opened after its end"
                newest[fact.run] = fact.epoch
            case Wrote() | LetGo():
                if fact.epoch != newest.get(fact.run):
                    yield f"{fact.by} wrote into {fact.run} with the old epoch {fact.epoch}"
                if fact.run in over:
                    yield f"{fact.by} wrote into {fact.run} after its end"
            case Ended():
                if fact.epoch is not None and fact.epoch != newest.get(fact.run):
                    yield f"{fact.by} ended {fact.run} with the old epoch {fact.epoch}"
                over.add(fact.run)
            case Redriven():
                over.discard(fact.run)

"""Why a task is where it is, in a word for programs and a sentence for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from worker.core.wireformat import rfc3339
from worker.queues.port import Depth, Place

UNCLAIMED_SECONDS = 3.0  # a worker that receives takes a task in a second
_AHEAD_SECONDS = 2.0  # so far may the clock of a queue be ahead of ours
_NOTE_CHARACTERS_MAX = 300
_WAITS_FOR = {"approval": "a person has to allow", "job": "the job has to report for"}


@dataclass(frozen=True, slots=True)
class Why:
    """What a task waits for, or who has it. `reason` is one of a closed set:

    `scheduled`, `retry`, `session`, `approval`, `job`, `busy`, `suspect`, `parked`, `worker`,
    `leased`, `lost`, `cancelling`, `dead`. `until` is wall clock seconds, `task` the one that is in front.
    """

    reason: str
    text: str
    until: float | None = None
    task: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Write it as a JSON object."""
        until = None if self.until is None else rfc3339(self.until)
        return {"reason": self.reason, "text": self.text, "until": until, "task": self.task}


@dataclass(frozen=True, slots=True)
class Receiving:
    """Who could take a task: `obstacle` is what keeps the worker of this desk from it, if anything.

    Where no worker is asked, `leased` is how many tasks are in work anywhere.
    """

    obstacle: str | None = None
    leased: int | None = None


def receiving_of(depth: Depth) -> Receiving:
    """Who could take a task, seen from the queue alone."""
    return Receiving(leased=depth.leased)


def why_in_work(owner: str | None, place: Place | None) -> Why:
    """A task that somebody has."""
    owner = owner or (place.owner if place is not None else "") or "a worker"
    if place is None or place.until is None:
        return Why("leased", f"{owner} has it")
    until = rfc3339(place.until)
    return Why("leased", f"{owner} has it, until {until} at least", until=place.until)


def why_lost(owner: str) -> Why:
    """A task whose worker has gone, and of which the queue does not tell."""
    text = (
        f"{owner} had it and has gone, and the queue does not know it; handed in again under the"
        " same id it goes on where it stood"
    )
    return Why("lost", text)


def why_cancelling(owner: str) -> Why:
    """A task that was cancelled and is not over yet."""
    return Why("cancelling", f"{owner} has it, and ends it as soon as what has an effect is done")


def why_waiting_for_calls(waiting: Sequence[dict[str, Any]], until: float | None) -> Why:
    """A task whose calls wait for persons or jobs; `waiting` as the API shows it."""
    kinds = {each["kind"] for each in waiting}
    reason = "approval" if "approval" in kinds else "job"
    parts = [f"{_WAITS_FOR[one['kind']]} {one['tool']} (call {one['call']})" for one in waiting]
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return Why(reason, "; ".join(parts[:3]) + more, until=until)


def why_in_line(wait: dict[str, Any] | None, until: float | None) -> Why:
    """A task whose session another one has, or has had until now; `wait` as the API shows it."""
    if wait is None:
        return Why("session", "its session has become free for it", until=until)
    session, task, ahead = f"session {wait['session']!r}", wait["task"], wait["ahead"]
    others = f"{ahead} {'waits' if ahead == 1 else 'wait'} before it"
    if task is None:
        return Why("session", f"{session} is free, but {others}", until=until)
    more = f", and {others}" if ahead else ""
    return Why("session", f"{session} is busy with task {task!r}{more}", until=until, task=task)


def why_hidden(place: Place, *, owner: str | None) -> Why:
    """A task that is delayed or parked, by what was said when it was handed back."""
    until, note = place.until, place.note[:_NOTE_CHARACTERS_MAX]
    when = "later" if until is None else f"at {rfc3339(until)}"
    if note in ("", "not_before", "redriven"):
        return Why("scheduled", f"it is not to begin before its time, {when}", until=until)
    if note == "busy":
        text = f"{owner or 'a worker'} still has its run; it is looked at again {when}"
        return Why("busy", text, until=until)
    if note == "quarantine":
        text = f"workers died while they had it, so it is tried again alone, {when}"
        return Why("suspect", text, until=until)
    if place.state == "delayed" or ": " in note:
        tried = f" (delivery {place.deliveries})" if place.state == "delayed" else ""
        return Why("retry", f"{note}{tried}; it is tried again {when}", until=until)
    return Why("parked", f"{note}; it comes back {when}", until=until)


def why_ready(place: Place, receiving: Receiving, *, now: float) -> Why:
    """A task that any worker could take."""
    if place.since is not None and place.since > now + _AHEAD_SECONDS:
        when = f"at {rfc3339(place.since)}"  # another program has written that into its row
        return Why("scheduled", f"it is not to begin before its time, {when}", until=place.since)
    waited = 0.0 if place.since is None else max(0.0, now - place.since)
    before = f"{place.note[:_NOTE_CHARACTERS_MAX]}; " if place.note else ""
    since = f"{before}ready for {waited:.0f} s"
    if receiving.obstacle is not None:
        return Why("worker", f"{since}: {receiving.obstacle}")
    if receiving.leased:
        return Why("worker", f"{since}: the workers have {receiving.leased} others in work")
    if waited < UNCLAIMED_SECONDS:
        # The queue alone does not tell whether a worker waits at it.
        taker = "a worker" if receiving.leased is None else "any worker that is running"
        return Why("worker", f"{since}: {taker} takes it in a moment")
    if receiving.leased is None:
        return Why("worker", f"{since}: others go before it")
    return Why("worker", f"{since}: no worker receives; is one running on this queue?")

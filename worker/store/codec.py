"""Events to JSON and back, and from every older version.

An event is written as `{"v": 1, "kind": "tool_returned", "data": {…}}`, a batch as a JSON array.
The kind and the names of the fields are public for ever: journals outlive the code that wrote
them. A field that is added has a default, so older events load without an upcast; anything else
needs a new version number in `VERSIONS` and a function in `UPCASTS` that lifts the older form.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import orjson

from worker.core import events
from worker.core.errors import IllegalEvent, TaskInvalid, UnknownEvent
from worker.core.events import Event
from worker.core.limits import Status
from worker.core.messages import Observation, Reply, ReplyKind, Source, ToolCall, Usage
from worker.core.task import Result
from worker.core.wireformat import result_from_wire, result_to_wire

Data = dict[str, Any]

KINDS: dict[str, type[Any]] = {
    "started": events.Started,
    "model_replied": events.ModelReplied,
    "model_failed": events.ModelFailed,
    "tool_started": events.ToolStarted,
    "tool_returned": events.ToolReturned,
    "note_added": events.NoteAdded,
    "approval_asked": events.ApprovalAsked,
    "job_started": events.JobStarted,
    "job_polled": events.JobPolled,
    "history_cut": events.HistoryCut,
    "steps_changed": events.StepsChanged,
    "tools_changed": events.ToolsChanged,
    "handed_off": events.HandedOff,
    "state_kept": events.StateKept,
    "call_held": events.CallHeld,
    "parked": events.Parked,
    "resumed": events.Resumed,
    "decided": events.Decided,
    "ended": events.Ended,
}
VERSIONS: dict[str, int] = dict.fromkeys(KINDS, 1)
# (kind, version) -> the same data in the form of version + 1.
UPCASTS: dict[tuple[str, int], Callable[[Data], Data]] = {}

_HEADS = {
    kind: b'{"v":%d,"kind":"%s","data":' % (VERSIONS[name], name.encode())
    for name, kind in KINDS.items()
}
_FIELDS = {
    kind: frozenset(field.name for field in dataclasses.fields(kind))
    for kind in (*KINDS.values(), events.Away, Observation, Reply, ToolCall, Usage)
}
_DAMAGED = (KeyError, TypeError, ValueError, AttributeError, RecursionError)
_ERROR_CHARS = 300

# What orjson cannot write (a lone surrogate, an integer beyond 64 bits) is written by json. The
# blank in front, which JSON allows, sends it back to json: orjson would not read it the same.
_BY_JSON = b" "


def dump(value: Any) -> bytes:
    """Any JSON value or dataclass of such as JSON bytes, whatever its strings and integers hold."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _BY_JSON + json.dumps(value, default=_plain, separators=(",", ":")).encode()


def load(raw: bytes) -> Any:
    """Read what `dump` wrote. Raises ValueError for anything that is not JSON."""
    return json.loads(raw) if raw[:1] == _BY_JSON else orjson.loads(raw)


def encode(batch: Sequence[Event]) -> bytes:
    """A batch of events as one JSON array."""
    try:
        return b"[" + b",".join([_HEADS[type(e)] + orjson.dumps(e) + b"}" for e in batch]) + b"]"
    except TypeError:
        return dump([_envelope(event) for event in batch])


def decode(raw: bytes) -> list[Event]:
    """The events of a batch. Raises UnknownEvent or IllegalEvent."""
    try:
        return [_event(envelope) for envelope in load(raw)]
    except _DAMAGED as error:
        raise IllegalEvent(f"journal batch cannot be read ({error}): {raw[:200]!r}") from error


def decode_all(batches: Iterable[bytes]) -> tuple[Event, ...]:
    """The events of many batches, in order."""
    return tuple([event for raw in batches for event in decode(raw)])


def envelopes(raw: bytes) -> list[Data]:
    """The envelopes of a batch, as `Journal.view` shows them. Raises IllegalEvent."""
    try:
        return [{**envelope} for envelope in load(raw)]
    except _DAMAGED as error:
        raise IllegalEvent(f"journal batch cannot be read ({error}): {raw[:200]!r}") from error


def revived(shown: Sequence[Data]) -> list[Event]:
    """The events that `Journal.view` shows, which stay as they are. Raises as `decode` does."""
    return decode(dump(list(shown)))


def encode_result(result: Result) -> bytes:
    """A result in the public wire format."""
    return dump(result_to_wire(result))


def decode_result(raw: bytes | None, task_id: str) -> Result:
    """Read what `encode_result` wrote.

    What cannot be read is told as the error that it is: the task has ended, nobody knows how, and
    whoever asks for it must neither wait for ever nor fail.
    """
    try:
        return result_from_wire(load(raw or b""))
    except (*_DAMAGED, TaskInvalid) as error:
        text = f"the stored result cannot be read ({error})"[:_ERROR_CHARS]
        return Result(task_id, Status.ERROR, error=text)


def load_turns(bodies: Iterable[bytes]) -> tuple[tuple[Data, ...], int]:
    """The messages of some turns of a session, and how many turns cannot be read.

    Those are left out: a conversation with a gap is better than one that nobody can go on with.
    """
    messages: list[Data] = []
    unreadable = 0
    for body in bodies:
        try:
            turn = load(body)
        except _DAMAGED:
            turn = None
        if isinstance(turn, list):
            messages += [message for message in turn if isinstance(message, dict)]
        else:
            unreadable += 1
    return tuple(messages), unreadable


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} is not JSON")


def _envelope(event: Event) -> Data:
    name = next(name for name, kind in KINDS.items() if kind is type(event))
    return {"v": VERSIONS[name], "kind": name, "data": event}


def _event(envelope: Data) -> Event:
    name, version = envelope["kind"], envelope["v"]
    kind = KINDS.get(name)
    if kind is None or not 1 <= version <= VERSIONS[name]:
        raise UnknownEvent(name, version, VERSIONS.get(name))
    data = envelope["data"]
    while version < VERSIONS[name]:
        data = UPCASTS[name, version](data)
        version += 1
    if kind is events.ModelReplied:
        data["reply"] = _reply(data["reply"])
    elif kind is events.ToolReturned:
        data["observation"] = _observation(data["observation"])
    elif kind is events.ToolsChanged:
        data["away"] = tuple([_away(each) for each in data["away"]])
    elif kind is events.Started:
        data["tools"] = tuple(data["tools"])
        data["pollers"] = tuple(data.get("pollers", ()))
        data["history"] = tuple(data.get("history", ()))
    return cast(Event, _build(kind, data))


def _build(kind: type[Any], data: Data) -> Any:
    try:
        return kind(**data)
    except TypeError:
        # A newer worker may have added fields that have defaults: they do not concern us.
        return kind(**{name: value for name, value in data.items() if name in _FIELDS[kind]})


def _away(data: Data) -> events.Away:
    data["instead"] = tuple(data.get("instead", ()))
    return cast(events.Away, _build(events.Away, data))


def _reply(data: Data) -> Reply:
    data["kind"] = ReplyKind(data["kind"])
    data["calls"] = tuple([_build(ToolCall, call) for call in data.get("calls", ())])
    data["usage"] = _build(Usage, data.get("usage", {}))
    return cast(Reply, _build(Reply, data))


def _observation(data: Data) -> Observation:
    data["source"] = Source(data.get("source", Source.LIVE))
    return cast(Observation, _build(Observation, data))

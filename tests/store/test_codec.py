"""The codec: every event comes back equal, from bytes that stay readable for ever."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core import events
from worker.core.errors import IllegalEvent
from worker.core.messages import Observation, Reply, ReplyKind, Source, ToolCall, Usage
from worker.core.task import Result
from worker.store import codec

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates too
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(ANY_TEXT, JSON, max_size=3)
COUNT = st.integers(0, 2**63 - 1)
CALL = st.builds(ToolCall, ANY_TEXT, ANY_TEXT, st.none() | OBJECT, st.none() | ANY_TEXT)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT, st.none() | NUMBER)
REPLY = st.builds(
    Reply,
    kind=st.sampled_from(ReplyKind),
    text=ANY_TEXT,
    message=OBJECT,
    calls=st.lists(CALL, max_size=2).map(tuple),
    usage=USAGE,
    finish_reason=st.none() | ANY_TEXT,
)
OBSERVATION = st.builds(
    Observation,
    ANY_TEXT,
    source=st.sampled_from(Source),
    reason=st.none() | ANY_TEXT,
    age_seconds=st.none() | NUMBER,
    stub=st.none() | ANY_TEXT,
)
MAYBE = st.none() | NUMBER
AWAY = st.builds(
    events.Away,
    *(ANY_TEXT, ANY_TEXT, st.none() | ANY_TEXT, MAYBE, st.booleans(), st.booleans()),
    instead=st.lists(ANY_TEXT, max_size=2).map(tuple),
)
EVENT = st.one_of(
    st.builds(
        events.Started,
        at=NUMBER,
        task=OBJECT,
        max_steps=COUNT,
        max_steps_reason=ANY_TEXT,
        system_prompt=ANY_TEXT,
        tools=st.lists(ANY_TEXT, max_size=2).map(tuple),
        language=st.sampled_from(["zh", "en"]),
        history=st.lists(OBJECT, max_size=2).map(tuple),
        steps_bound=COUNT,
        pollers=st.lists(ANY_TEXT, max_size=2).map(tuple),
    ),
    st.builds(events.ModelReplied, NUMBER, REPLY),
    st.builds(events.ModelFailed, NUMBER, ANY_TEXT, ANY_TEXT, st.booleans(), ANY_TEXT, MAYBE),
    st.builds(events.ToolStarted, NUMBER, ANY_TEXT, ANY_TEXT),
    st.builds(events.ToolReturned, NUMBER, ANY_TEXT, OBSERVATION),
    st.builds(events.NoteAdded, NUMBER, ANY_TEXT, ANY_TEXT),
    st.builds(events.ApprovalAsked, NUMBER, ANY_TEXT, ANY_TEXT, NUMBER),
    st.builds(events.JobStarted, NUMBER, ANY_TEXT, ANY_TEXT, NUMBER, MAYBE, ANY_TEXT),
    st.builds(events.JobPolled, NUMBER, ANY_TEXT, MAYBE),
    st.builds(events.HistoryCut, NUMBER, COUNT, COUNT),
    st.builds(events.StepsChanged, NUMBER, COUNT, ANY_TEXT),
    st.builds(events.ToolsChanged, NUMBER, st.lists(AWAY, max_size=3).map(tuple)),
    st.builds(events.StateKept, NUMBER, ANY_TEXT, ANY_TEXT),
    st.builds(events.HandedOff, NUMBER, *[ANY_TEXT] * 3, st.none() | ANY_TEXT),
    st.builds(events.CallHeld, NUMBER, ANY_TEXT, ANY_TEXT),
    st.builds(events.Parked, NUMBER, ANY_TEXT, MAYBE, st.none() | ANY_TEXT),
    st.builds(events.Resumed, NUMBER, COUNT, ANY_TEXT),
    st.builds(
        *(events.Decided, NUMBER, ANY_TEXT, st.booleans()),
        *(ANY_TEXT, ANY_TEXT, ANY_TEXT, MAYBE),
    ),
    st.builds(events.Ended, NUMBER, ANY_TEXT, ANY_TEXT, OBJECT),
)


@given(st.lists(EVENT, max_size=4))
def test_round_trip(batch: list[Any]) -> None:
    """Whatever the strings and numbers hold, a batch comes back equal and is valid JSON."""
    raw = codec.encode(batch)

    assert codec.decode(raw) == batch
    assert [envelope["v"] for envelope in json.loads(raw)] == [1] * len(batch)


def test_every_event_has_a_kind() -> None:
    """An event that was added to the core without a kind here would be lost."""
    assert set(codec.KINDS.values()) == set(events.Event.__args__)  # type: ignore[attr-defined]


def test_types_survive() -> None:
    """Enumerations come back as members and sequences as tuples: the loop compares by them."""
    reply = Reply(ReplyKind.CALLS, "", {"role": "assistant"}, (ToolCall("1", "t", {}),))
    observation = Observation("x", Source.STUB)
    first, second = codec.decode(
        codec.encode([events.ModelReplied(1.0, reply), events.ToolReturned(1.0, "1", observation)])
    )

    assert isinstance(first, events.ModelReplied) and first.reply.kind is ReplyKind.CALLS
    assert isinstance(first.reply.calls, tuple) and isinstance(first.reply.calls[0], ToolCall)
    assert isinstance(second, events.ToolReturned) and second.observation.source is Source.STUB


def test_the_written_form() -> None:
    """The bytes of version 1 are pinned: journals in the field are read by them."""
    raw = codec.encode([events.NoteAdded(1.5, "repeated_call", "别")])

    expected = '[{"v":1,"kind":"note_added","data":{"at":1.5,"kind":"repeated_call","text":"别"}}]'
    assert raw == expected.encode()


@pytest.mark.parametrize(
    "raw, named",
    [
        (b'[{"v":1,"kind":"teleported","data":{}}]', "'teleported' version 1"),
        (b'[{"v":7,"kind":"note_added","data":{}}]', "'note_added' version 7.*up to version 1"),
        (b'[{"v":0,"kind":"note_added","data":{}}]', "'note_added' version 0"),
    ],
)
def test_an_unknown_event_names_itself(raw: bytes, named: str) -> None:
    """An event that only another version knows is refused by kind and version."""
    with pytest.raises(codec.UnknownEvent, match=named):
        codec.decode(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"[", b"[1]", b'[{"v":1}]', b'[{"v":1,"kind":"note_added","data":{"at":1}}]']
)
def test_a_corrupt_batch(raw: bytes) -> None:
    """Bytes that are no batch of events are a corrupt journal, never a driver's error."""
    with pytest.raises(IllegalEvent):
        codec.decode(raw)


def test_fields_of_a_newer_worker_are_passed_over() -> None:
    """A field that a newer worker added with a default does not stop an older one."""
    raw = b'[{"v":1,"kind":"note_added","data":{"at":1.0,"kind":"k","text":"t","colour":"red"}}]'

    assert codec.decode(raw) == [events.NoteAdded(1.0, "k", "t")]


def test_upcasts_are_chained(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older form is lifted version by version to the one that is known now."""
    monkeypatch.setitem(codec.VERSIONS, "note_added", 3)
    renamed = {(1, 2): ("words", "line"), (2, 3): ("line", "text")}
    for (old, _), (source, target) in renamed.items():
        monkeypatch.setitem(
            codec.UPCASTS,
            ("note_added", old),
            lambda data, source=source, target=target: {
                **{name: value for name, value in data.items() if name != source},
                target: data[source],
            },
        )

    raw = b'[{"v":1,"kind":"note_added","data":{"at":1.0,"kind":"k","words":"t"}}]'
    assert codec.decode(raw) == [events.NoteAdded(1.0, "k", "t")]


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b"null",
        b"{}",
        b'{"task_id": "t", "status": "x"}',
        b" " + b"[" * 9_000,
    ],
)
def test_a_result_that_cannot_be_read_is_an_error_and_says_so(raw: bytes | None) -> None:
    """The task has ended: whoever asks hears that nobody knows how, and nothing raises."""
    result = codec.decode_result(raw, "t")

    assert (result.task_id, result.status) == ("t", "error")
    assert result.error is not None and "cannot be read" in result.error


@pytest.mark.parametrize("raw", [b"\xff", b"3", b"[1]", b" " + b"[" * 9_000])
def test_a_batch_that_cannot_be_read_is_an_illegal_event(raw: bytes) -> None:
    """To whoever runs it and to whoever looks at it alike."""
    for read in (codec.decode, codec.envelopes):
        with pytest.raises(IllegalEvent, match="cannot be read"):
            read(raw)


def test_results_round_trip() -> None:
    """A result comes back equal, to the millisecond of the wire format."""
    result = Result(task_id="t", status="completed", answer="八\ud800", started_at=1.25, cost=0.5)

    assert codec.decode_result(codec.encode_result(result), "t") == result
    assert dataclasses.asdict(result)["answer"] == "八\ud800"

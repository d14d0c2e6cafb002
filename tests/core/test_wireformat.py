"""Tasks and results on the wire, and bad input that names its field."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.errors import TaskInvalid
from worker.core.limits import Status
from worker.core.task import CallRecord, Degradation, Result, Symptom
from worker.core.wireformat import (
    result_from_wire,
    result_to_wire,
    rfc3339,
    task_from_wire,
    task_to_wire,
)
from worker.intake import MAX_TASK_BYTES, check_reply_to, read_task


def test_a_task_needs_an_input_only():
    """Everything else has a default; the id comes from the message."""
    task = task_from_wire({"input": "现在几点?"}, default_id="m1")

    assert (task.id, task.input, task.priority, task.tools) == ("m1", "现在几点?", 0, None)


def test_unknown_fields_are_kept():
    """What this version does not know goes into extensions, never away."""
    task = task_from_wire({"input": "x", "colour": "red", "metadata": {"a": 1}}, default_id="i")

    assert (task.extensions, task.metadata) == ({"colour": "red"}, {"a": 1})


@pytest.mark.parametrize(
    ("wire", "field"),
    [
        ({}, "input"),
        ({"input": 5}, "input"),
        ({"input": "  "}, "input"),
        ({"input": "x", "id": ["a"]}, "id"),
        ({"input": "x", "session_id": ""}, "session_id"),
        ({"input": "x", "session_id": 7}, "session_id"),
        ({"input": "x", "session_id": "s" * 201}, "session_id"),
        ({"input": "x", "session_id": " s"}, "session_id"),
        ({"input": "x", "session_id": "s\n"}, "session_id"),
        ({"input": "x", "session_id": "a\x00b"}, "session_id"),
        ({"input": "x", "tenant": "a\tb"}, "tenant"),
        ({"input": "x", "max_steps": "5"}, "max_steps"),
        ({"input": "x", "max_steps": True}, "max_steps"),
        ({"input": "x", "max_steps": 0}, "max_steps"),
        ({"input": "x", "priority": 1000}, "priority"),
        ({"input": "x", "tools": "clock"}, "tools"),
        ({"input": "x", "tools": [1]}, "tools"),
        ({"input": "x", "deadline": "tomorrow"}, "deadline"),
        ({"input": "x", "deadline": "2026-12-02T10:00:00"}, "deadline"),
        ({"input": "x", "not_before": -1}, "not_before"),
        ({"input": "x", "not_before": 10**400}, "not_before"),
        ({"input": "x", "not_before": float("nan")}, "not_before"),
        ({"input": "x", "deadline": 10**5000}, "deadline"),
        ({"input": "x", "deadline": "0001-01-01T00:00:00+14:00"}, "deadline"),
        ({"input": "x", "deadline": "1969-12-31T23:59:59Z"}, "deadline"),
        ({"input": "x", "not_before": "9999-12-31T23:59:59-14:00"}, "not_before"),
        ({"input": "x", "deadline": 99, "not_before": 100}, "deadline"),
        ({"input": "x", "id": "a\nb"}, "id"),
        ({"input": "x", "id": " a"}, "id"),
        ({"input": "x", "id": "a\ufffd"}, "id"),
        ({"input": "x", "max_steps": 10**5000}, "max_steps"),
        ({"input": "x", "priority": -(10**400)}, "priority"),
        ({"input": "x", "budget": {"cost": 10**400}}, "budget.cost"),
        ({"input": "x", "budget": {"tokens": 10**400}}, "budget.tokens"),
        ({"input": "x", "budget": {"tokens": -5}}, "budget.tokens"),
        ({"input": "x", "budget": {"coins": 5}}, "budget.coins"),
        ({"input": "x", "budget": {"cost": float("inf")}}, "budget.cost"),
        ({"input": "x", "metadata": []}, "metadata"),
        ({"input": "x", "version": 2}, "version"),
        ([], "task"),
        (None, "task"),
    ],
)
def test_bad_input_names_the_field(wire, field):
    """The error says which field is wrong."""
    with pytest.raises(TaskInvalid) as caught:
        task_from_wire(wire, default_id="i")

    assert caught.value.field == field
    assert field.split(".")[0] in str(caught.value)


def test_a_bad_trace_header_costs_no_task():
    """A header that is no text would crash the propagator; it is dropped."""
    task = task_from_wire({"input": "x", "traceparent": 123}, default_id="i")

    assert task.traceparent is None


names = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="\ufffd"),
    min_size=1,
    max_size=20,
).filter(lambda text: text == text.strip())


@given(
    st.fixed_dictionaries(
        {"input": st.text(min_size=1).filter(str.strip)},
        optional={
            "id": names,
            "session_id": st.none() | names,
            "tenant": st.none() | names,
            "tools": st.none() | st.lists(st.text(max_size=5), max_size=3),
            "max_steps": st.none() | st.integers(1, 100),
            "priority": st.integers(-100, 100),
            "deadline": st.none() | st.just("2026-12-02T10:00:00Z"),
            "budget": st.just({"tokens": 5, "cost": 0.5}),
            "extra": st.integers(),
        },
    )
)
def test_a_task_survives_the_round_trip(wire):
    """Writing and reading a task gives the same task."""
    task = task_from_wire(wire, default_id="i")

    assert task_from_wire(json.loads(json.dumps(task_to_wire(task))), default_id="j") == task


def test_a_result_survives_the_round_trip():
    """Writing and reading a result gives the same result."""
    result = Result(
        "t1",
        Status.COMPLETED,
        "42",
        session_id="s",
        steps=2,
        tool_calls=(CallRecord("c", "price", "sha256:00", "stub", 0.5, 3),),
        degraded=(Degradation("price", "stub", "breaker_open", None, 12.0),),
        model_calls=2,
        prompt_tokens=10,
        cost=0.25,
        started_at=1000.0,
        ended_at=1001.5,
        models=("m",),
        diagnosis=(Symptom("repeated_call", "look"),),
        error=None,
    )

    assert result_from_wire(json.loads(json.dumps(result_to_wire(result)))) == result
    assert result_to_wire(result)["id"] == "t1/result"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\xff\xfe", "invalid_json"),
        (b'{"input": "x"', "invalid_json"),
        (b'{"input": NaN}', "invalid_json"),
        (b'{"input": "x", "metadata": {"a": 1e999}}', "invalid_json"),
        (b'{"input": "x", "metadata": {"a": -%s}}' % (b"9" * 1001), "invalid_json"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "invalid_json"),
        (b"x" * (MAX_TASK_BYTES + 1), "too_large"),
        (b"{}", "schema"),
        (b"   ", "schema"),
    ],
    ids=["not utf-8", "cut", "nan", "infinite", "digits", "deep", "large", "no input", "blank"],
)
def test_bytes_that_are_no_task_say_why(body, kind):
    """Nothing that can be sent crashes the reader."""
    with pytest.raises(TaskInvalid) as caught:
        read_task(body, default_id="i")

    assert caught.value.kind == kind
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("body", [b"[1]", b"null", b'"text"'])
def test_declared_json_must_be_an_object(body):
    """With JSON declared, anything but an object is refused; undeclared it is plain text."""
    with pytest.raises(TaskInvalid):
        read_task(body, default_id="i", content_type="application/json")

    assert read_task(body, default_id="i").input == body.decode()


def test_plain_text_is_the_input():
    """A text body is a task whose input is that text."""
    assert read_task("现在几点?".encode(), default_id="m").input == "现在几点?"
    declared = read_task(b'{"input": 1}', default_id="m", content_type="text/plain")
    assert declared.input == '{"input": 1}'


def test_brackets_in_text_are_no_nesting():
    """A long text full of brackets is a fine input."""
    text = "[{" * 500

    assert read_task(json.dumps({"input": text}).encode(), default_id="m").input == text


def test_a_lone_surrogate_is_replaced():
    """What cannot be written as UTF-8 later is mended at the door."""
    task = read_task(b'{"input": "a\\ud83d b"}', default_id="m")

    assert task.input.encode("utf-8")


@pytest.mark.parametrize("field", ["id", "session_id", "tenant"])
def test_names_with_half_characters_are_refused(field):
    """Replaced, two different names would become one: tasks dropped as known, sessions shared."""
    body = b'{"input": "x", "%s": "a\\ud800"}' % field.encode()

    with pytest.raises(TaskInvalid) as caught:
        read_task(body, default_id="m")

    assert caught.value.field == field


@given(
    st.datetimes(timezones=st.sampled_from([timezone(timedelta(hours=h)) for h in (-14, 0, 14)])),
)
def test_any_time_can_be_written_again_or_is_refused(moment):
    """What is read as a time survives the way through the queue and the journal."""
    try:
        task = task_from_wire({"input": "x", "deadline": moment.isoformat()}, default_id="i")
    except TaskInvalid as problem:
        assert problem.field == "deadline"
        assert moment < datetime(1970, 1, 1, tzinfo=UTC) or moment.year == 9999
    else:
        again = task_from_wire(task_to_wire(task), default_id="i")
        assert again.deadline == pytest.approx(task.deadline, abs=0.002)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_task_or_a_named_problem(body):
    """No input at all crashes the reader."""
    try:
        task = read_task(body, default_id="m")
    except TaskInvalid as problem:
        assert problem.field
    else:
        assert task.input.strip()


@pytest.mark.parametrize("reply_to", ["https://x.example/cb", "queue:", "queue:a b", "queue:tasks"])
def test_a_reply_to_that_leads_nowhere_is_refused(reply_to):
    """Nothing is published to an address that is not supported, or to the tasks themselves."""
    task = task_from_wire({"input": "x", "reply_to": reply_to}, default_id="i")

    with pytest.raises(TaskInvalid) as caught:
        check_reply_to(task, queue="tasks")

    assert caught.value.field == "reply_to"


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (1e13, "9999-12-31T23:59:59.999Z"),
        (float("inf"), "9999-12-31T23:59:59.999Z"),
        (-1e13, "0001-01-01T00:00:00.000Z"),
        (0.0, "1970-01-01T00:00:00.000Z"),
        (float("nan"), None),
        (None, None),
    ],
)
def test_a_time_that_no_calendar_holds_is_told_as_its_end(at, told):
    """Only a foreign hand writes one, and whoever asks for the task must not pay for that."""
    assert rfc3339(at) == told

"""Arguments: what is read, what is refused, and what goes back (models.md 2.2)."""

from __future__ import annotations

import json

import pytest

from tests.model.puredriver import offer
from tests.model.said import arguments_of, body, call, problem_of, read
from worker.core.messages import ReplyKind
from worker.model.arguments import BadArguments, read_arguments
from worker.model.coerce import coerce

TWO = {"a": 1, "b": 2}


def echoed(reply):
    """Return the arguments of the only call as they go back."""
    (entry,) = reply.message["tool_calls"]
    return entry["function"]["arguments"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('{"a":1,"b":2}{"a":1,"b":2}', TWO),  # C08
        ('{"a":1,"b":2}\n{"b":2,"a":1}\n{"a":1,"b":2}', TWO),
        ('{"a":1,"b":2}<|im_end|>', TWO),  # C29
        ('```json\n{"a":1,"b":2}\n```<|eot_id|>', TWO),
        ('{"a":1,"b":2}</s>', TWO),
        ('```\n{"a": 1, "b": 2,}\n```', TWO),
        ('{"a":"1","b":"2"}', TWO),  # C18
        ('{"a":"1.0","b":2.0}', TWO),  # C20
        ('{"a":1.0,"b":2e0}', TWO),
        ("{'a': 1, 'b': 2,}", TWO),
        ('"{\\"a\\":1,\\"b\\":2}"', TWO),
        ('"\\"{\\\\\\"a\\\\\\":1,\\\\\\"b\\\\\\":2}\\""', TWO),
        ('{"a":1,"a":1,"b":2}', TWO),
        ({"a": 1, "b": 2}, TWO),
        ({"a": "1", "b": 2.0}, TWO),
        ('\ufeff  {"a":1,"b":2}  ', TWO),
    ],
)
def test_what_can_be_read_in_one_way_is_read(written, meant):
    """Lossless repairs run, and what goes back is a JSON object that says the same."""
    reply = arguments_of(written)

    assert reply.calls[0].arguments == meant
    assert json.loads(echoed(reply)) == meant
    assert [type(value) for value in reply.calls[0].arguments.values()] == [int, int]


@pytest.mark.parametrize(
    "written",
    [
        '{"a":1,"b":2}{"a":3,"b":4}',  # C09
        '{"a":1,"b":2}{"a":1.0,"b":2}',
        '{"a":true,"b":2}{"a":1,"b":2}',
        '{"a":1,"b":2} and more',
        '{"a":1,"b":',  # C12
        '{"a":1,"b":2',
        '{"a": NaN, "b": 1}',
        '{"a": 1e999, "b": 1}',
        '{"a": 36893488147419103232, "b": 1}',
        '{"a":1,"a":9,"b":2}',
        "{'a': 1, 'a': 9, 'b': 2}",
        "{'a': 1, 'b': __import__('os')}",
        "{'a': 1, 'b': {1, 2}}",
        "{1: 2}",
        "[1, 2]",
        "7",
        '"text"',
        "true",
        "the ACME ticker",  # C33
        "<html></html>",
        "[" * 5000,
        '{"a":' * 200 + "1" + "}" * 200,
        '"' * 500,
        b"bytes",
        {"a": 2**70, "b": 1},
        7,
        [],
        False,
    ],
)
def test_what_needs_a_guess_is_told(written):
    """Nothing runs, the model is told, and the history holds an empty object instead."""
    reply = arguments_of(written)

    assert problem_of(reply)["type"] == "invalid_arguments"
    assert echoed(reply) == "{}"


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ('{"a":"abc","b":1}', "a"),  # C19
        ('{"a":true,"b":1}', "a"),  # C21
        ('{"a":"true","b":1}', "a"),
        ('{"a":"007","b":1}', "a"),
        ('{"a":1.5,"b":1}', "a"),
        ('{"a":"","b":1}', "a"),
        ('{"a":null,"b":1}', "a"),
        ('{"a":1,"b":2,"unit":"x"}', "unit"),  # C22
        ('{"a":1}', "b"),  # C23
        ("", "a"),
    ],
)
def test_wrong_values_are_told_by_field(written, field):
    """The model learns which field is wrong; the call goes back as it was written."""
    reply = arguments_of(written)

    assert any(field in violation for violation in problem_of(reply)["violations"])
    assert json.loads(echoed(reply)) == json.loads(written or "{}")


def test_case_of_an_enum_is_not_mended():
    """C25: `eu` is not `EU`; the model gets the allowed values."""
    reply = arguments_of('{"order_id":"A12345678901","region":"eu"}', tool="get_order_detail")

    (violation,) = problem_of(reply)["violations"]
    assert "EU" in violation


def test_oversized_arguments_are_refused_and_not_echoed():
    """C27: above the limit nothing is parsed, run or sent again."""
    big = json.dumps({"symbol": "x" * 70_000})
    reply = arguments_of(big, tool="get_stock_price")

    assert "too large" in problem_of(reply)["violations"][0]
    assert echoed(reply) == "{}"
    assert (
        read(body(calls=[call("get_stock_price", json.loads(big))]), max_argument_bytes=1000)
        .calls[0]
        .problem_kind
        == "invalid_arguments"
    )


def test_limit_counts_bytes():
    """A text of three-byte characters is measured as it is sent."""
    with pytest.raises(BadArguments, match="too large"):
        read_arguments('{"a":"' + "价" * 400 + '"}', max_bytes=1000)

    assert read_arguments('{"a":"' + "价" * 300 + '"}', max_bytes=1000).value == {"a": "价" * 300}


def test_well_written_arguments_go_back_byte_for_byte():
    """What any server can read is not rewritten: prompt caches compare bytes."""
    assert echoed(arguments_of('{"b": 2,  "a":1}')) == '{"b": 2,  "a":1}'


def test_raw_newlines_are_rewritten():
    """C32: we read a raw newline in a text, strict servers would not."""
    reply = arguments_of('{"symbol":"AC\nME"}', tool="get_stock_price")

    assert reply.calls[0].arguments == {"symbol": "AC\nME"}
    assert echoed(reply) == '{"symbol":"AC\\nME"}'


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ('{"a":1,"b":2}', ReplyKind.CALLS),  # C11
        ('"{\\"a\\":1,\\"b\\":2}"', ReplyKind.CALLS),
        ('{"a":1,"b":2}{"a":1,"b":2}', ReplyKind.CALLS),  # whole, and said again
        ('{"a":1,"b":2}{"a":1,"b', ReplyKind.LENGTH),
        ('{"a":1,"b":2', ReplyKind.LENGTH),  # C10
        ('{"a":1,"b":2,}', ReplyKind.LENGTH),
        ("{'a': 1, 'b': 2}", ReplyKind.LENGTH),
        ("", ReplyKind.LENGTH),
        (None, ReplyKind.LENGTH),
    ],
)
@pytest.mark.parametrize("reason", ["length", "max_tokens", "model_length", "MAX_TOKENS"])
def test_under_length_only_strict_json_runs(arguments, kind, reason):
    """A reply that was cut runs nothing that may have been cut."""
    assert arguments_of(arguments, finish=reason).kind is kind


def test_one_cut_call_stops_the_whole_ones():
    """C35: one complete and one cut call under `length`: nothing runs, nothing is echoed."""
    calls = [call("add", '{"a":1,"b":2}', "c1"), call("add", '{"a":1,', "c2")]
    reply = read(body("Adding", calls=calls, finish="length"))

    assert reply.kind is ReplyKind.LENGTH
    assert reply.calls == ()
    assert "tool_calls" not in reply.message
    assert reply.text == "Adding"


def test_lone_surrogate_is_replaced_and_a_pair_is_one_character():
    """C30 and C31: what cannot be sent again never enters the history."""
    lone = arguments_of('{"symbol":"AC\\ud83dME"}', tool="get_stock_price")
    pair = arguments_of('{"symbol":"\\ud83d\\ude00"}', tool="get_stock_price")

    assert lone.calls[0].arguments == {"symbol": "AC\ufffdME"}
    assert pair.calls[0].arguments == {"symbol": "\U0001f600"}
    assert json.loads(echoed(lone).encode()) == {"symbol": "AC\ufffdME"}


NESTED = {
    "type": "object",
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
    "properties": {
        "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "t": {"type": ["string", "integer"]},
        "s": {"type": "string"},
        "flag": {"type": "boolean"},
        "level": {"enum": [1, 2, 3]},
        "tags": {"type": "array", "items": {"type": "integer"}},
        "at": {"$ref": "#/$defs/point"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
        "free": {},
    },
}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"n": "5"}, {"n": 5}),
        ({"n": "null"}, {"n": None}),
        ({"t": "5"}, {"t": "5"}),
        ({"s": 123456789012}, {"s": "123456789012"}),
        ({"s": 1.5}, {"s": 1.5}),
        ({"s": True}, {"s": True}),
        ({"flag": "true"}, {"flag": True}),
        ({"flag": "False"}, {"flag": False}),
        ({"flag": "yes"}, {"flag": "yes"}),
        ({"flag": 1}, {"flag": 1}),
        ({"level": "2"}, {"level": 2}),
        ({"tags": "[1, 2]"}, {"tags": [1, 2]}),
        ({"tags": ["1", 2.0]}, {"tags": [1, 2]}),
        ({"at": '{"x": 1.5}'}, {"at": {"x": 1.5}}),
        ({"at": {"x": "1.5"}}, {"at": {"x": 1.5}}),
        ({"maybe": {"x": "-2e3"}}, {"maybe": {"x": -2000.0}}),
        ({"free": "5"}, {"free": "5"}),
        ({"other": "5"}, {"other": "5"}),
        ({"n": "9" * 30}, {"n": "9" * 30}),
        ({"n": 1e300}, {"n": 1e300}),
        ({"at": "{" * 100}, {"at": "{" * 100}),
    ],
)
def test_coercion_is_lossless_and_asked_for(given, wanted):
    """A value changes only when its type is not allowed and the same value exists in one that is."""
    assert json.dumps(coerce(given, NESTED)) == json.dumps(wanted)


def test_nothing_to_change_gives_the_same_object():
    """Identity tells the caller that the original text may go back."""
    value = {"n": 5, "tags": [1], "at": {"x": 1.0}}

    assert coerce(value, NESTED) is value


def test_endless_references_end():
    """A schema that refers to itself bounds the walk, not the stack."""
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    loop = {"type": "object", "properties": {"c": {"$ref": "#"}}, "anyOf": [{"$ref": "#"}]}
    deep: dict = {}
    for _ in range(60):
        deep = {"c": deep}

    assert coerce({"x": "1"}, schema) == {"x": "1"}
    assert coerce(deep, loop) == deep


def test_defaults_of_the_world_do_not_matter():
    """A tool without a schema for its parts takes what was written."""
    tools = offer({"type": "function", "function": {"name": "any", "parameters": {}}})
    reply = read(body(calls=[call("any", '{"x": "5"}')]), tools)

    assert reply.calls[0].arguments == {"x": "5"}

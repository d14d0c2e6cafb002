"""Ids, names and the message that goes back (models.md 2.1 and 2.3)."""

from __future__ import annotations

import random
import re

import pytest

from tests.model.puredriver import offer
from tests.model.said import TOOLS, arguments_of, body, call, played, problem_of, read
from tests.model.said import spec as tool_spec
from worker.core.messages import ReplyKind
from worker.model.calls import PLACEHOLDER, find_tool, id_source


def ids_of(reply):
    """Return the ids of the calls and of their echo; they must be the same."""
    echoed = [entry["id"] for entry in reply.message["tool_calls"]]
    assert echoed == [made.id for made in reply.calls]
    return echoed


@pytest.mark.parametrize("given", ["", "  ", None, True, [], {"x": 1}])
def test_unusable_id_is_replaced(given):
    """B02: an empty or impossible id counts as missing."""
    reply = read(body(calls=[call("add", '{"a":1,"b":2}', given)]))

    assert ids_of(reply) == ["new000001"]


def test_two_empty_ids_become_two_ids():
    """B03: no result may be lost because two calls share the empty id."""
    reply = read(body(calls=[call("get_current_time", "{}", ""), call("add", "{}", "")]))

    assert ids_of(reply) == ["new000001", "new000002"]


def test_a_made_up_id_avoids_the_ones_that_are_there():
    """A new id never equals an id that the server chose."""
    calls = [call("add", "{}", "new000001"), call("add", "{}", ""), call("add", "{}", "new000001")]

    assert ids_of(read(body(calls=calls))) == ["new000001", "new000002", "new000003"]


def test_long_id_goes_back_as_it_came():
    """B09: the endpoint that made an 83-character id gets it back byte for byte."""
    long_id = "call_" + "x" * 78

    assert ids_of(read(body(calls=[call("add", '{"a":1,"b":2}', long_id)]))) == [long_id]


def test_numeric_ids_become_text():
    """B10: 0 is an id like any other."""
    assert ids_of(read(body(calls=[call("add", "{}", 0), call("add", "{}", 7)]))) == ["0", "7"]


def test_made_ids_fit_every_server():
    """Nine letters and digits, and never the same twice in a row."""
    make = id_source(random.Random(7))
    made = [make() for _ in range(200)]

    assert len(set(made)) == 200
    assert all(re.fullmatch("[A-Za-z0-9]{9}", one) for one in made)


@pytest.mark.parametrize(
    "said",
    [
        "add",
        " add\n",
        "Add",
        "functions.add",
        "default_api.add",
        "default_api:add",
        "tools.ADD",
        "functions.add:0",
        "add<|channel|>commentary",
        "functions.add<|constrain|>json",
    ],
)
def test_name_is_found(said):
    """D03, D04, D06 and kin: known prefixes, another case and leaked tokens do no harm."""
    reply = read(body(calls=[call(said, '{"a":1,"b":2}')]))

    assert reply.calls[0].name == "add"
    assert reply.calls[0].arguments == {"a": 1, "b": 2}
    assert reply.message["tool_calls"][0]["function"]["name"] == "add"


@pytest.mark.parametrize("said", ["ad", "addd", "evil.add", "add2", "add.functions", "a d d"])
def test_name_is_never_guessed(said):
    """Likeness is not enough: delete_x and delete_y are alike."""
    assert find_tool(said, TOOLS) is None


def test_ambiguous_case_is_not_guessed():
    """Two tools that differ only in case are told apart by case alone."""
    tools = offer(tool_spec("Get"), tool_spec("get"))

    assert find_tool("GET", tools) is None
    assert find_tool("Get", tools).name == "Get"


def test_unknown_tool_lists_what_there_is():
    """D01: the model gets the names that it may use, and the call stays in the history."""
    reply = read(body(calls=[call("lookup.price", '{"symbol":"X"}')]))

    error = problem_of(reply)
    assert error["type"] == reply.calls[0].problem_kind == "unknown_tool"
    assert error["available_tools"] == [tool.wire_name for tool in TOOLS]
    assert "lookup.price" in error["message"]
    assert reply.message["tool_calls"][0]["function"]["name"] == "lookup_price"


def test_nameless_call_with_arguments_gets_a_placeholder():
    """D10: an empty name never goes back on the wire."""
    reply = read(body(calls=[call("", '{"symbol":"X"}')]))

    assert reply.calls[0].name == PLACEHOLDER
    assert reply.message["tool_calls"][0]["function"]["name"] == PLACEHOLDER


@pytest.mark.parametrize("entry", [{"id": "x", "type": "function"}, None, 7, "add", {}, []])
def test_entry_without_anything_is_dropped(entry):
    """D08: what names nothing and holds nothing is no call; the content is the answer."""
    reply = read(body("Done", calls=[entry]))

    assert reply.kind is ReplyKind.ANSWER
    assert "tool_calls" not in reply.message


def test_parallel_wrapper_is_expanded():
    """D07: one wrapped call per use, in order, each with an id of its own."""
    uses = (
        '{"tool_uses":[{"recipient_name":"functions.add","parameters":{"a":1,"b":2}},'
        '{"recipient_name":"functions.get_current_time","parameters":{}}]}'
    )
    reply = read(body(calls=[call("multi_tool_use.parallel", uses)]))

    assert [(made.name, made.arguments) for made in reply.calls] == [
        ("add", {"a": 1, "b": 2}),
        ("get_current_time", {}),
    ]
    assert len(set(ids_of(reply))) == 2


@pytest.mark.parametrize(
    "uses",
    [
        "{}",
        '{"tool_uses":[]}',
        '{"tool_uses":[7]}',
        '{"tool_uses":[{"recipient_name":"multi_tool_use.parallel","parameters":{}}]}',
    ],
)
def test_parallel_wrapper_that_wraps_nothing_is_an_unknown_tool(uses):
    """D07: a wrapper without uses, or around itself, is answered and never expanded."""
    reply = read(body(calls=[call("multi_tool_use.parallel", uses)]))

    assert problem_of(reply)["type"] == "unknown_tool"


def test_registered_name_is_run_under_any_of_its_names():
    """D09: the wire name and the registered name both lead to the tool."""
    tools = offer(tool_spec("time.now"))

    for said in ("time.now", "time_now"):
        reply = read(body(calls=[call(said)]), tools)
        assert reply.calls[0].name == "time.now"
        assert reply.message["tool_calls"][0]["function"]["name"] == "time_now"


def test_three_turns_without_a_usable_call_end():
    """C34: the model is corrected twice; the third time it is over."""
    prose = body(calls=[call("get_stock_price", "the ACME ticker")])
    outcome, conversation = played(prose, prose, prose)

    assert outcome["status"] == "tool_errors"
    assert outcome["executed"] == []
    assert len(conversation.requests) == 3


def test_flood_of_calls_is_bounded():
    """A reply with thousands of calls does not become thousands of values."""
    reply = read(body(calls=[call("add", "{}", f"c{n}") for n in range(5000)]))

    assert len(reply.calls) == len(reply.message["tool_calls"]) == 128


def test_text_beside_calls_is_kept():
    """Prose beside a call is shown and goes back with it."""
    reply = read(body("Let me see.", calls=[call("add", '{"a":1,"b":2}')]))

    assert reply.kind is ReplyKind.CALLS
    assert reply.text == reply.message["content"] == "Let me see."


def test_problem_names_the_tool_and_the_fields():
    """C23 and C24: every violation is told at once, by field."""
    reply = arguments_of('{"order_id":"A1","region":"UK"}', tool="get_order_detail")

    error = problem_of(reply)
    assert "get_order_detail" in error["message"]
    assert {text.partition(":")[0] for text in error["violations"]} == {"order_id", "region"}

"""The JSON of a request: strict in what we send."""

from __future__ import annotations

import json
import re

import pytest

from tests.model.puredriver import offer
from tests.model.said import CLOCK, TOOLS, call, spec
from tests.model.verify import unpaired
from worker.core.errors import ConfigError
from worker.core.messages import Message
from worker.model.port import ModelRequest
from worker.model.quirks import Quirk, Quirks
from worker.model.wire import encode_message, portable_id, request_body, wire_names

USER = Message({"role": "user", "content": "Please help"})


def sent(*bodies, tools=TOOLS, quirks=(), stream=False, allow_calls=True, extra=None, **settings):
    """Build a request and decode it as a server would."""
    request = ModelRequest(
        [USER, *map(Message, bodies)], tools, allow_calls=allow_calls, extra=extra or {}
    )
    raw = request_body(request, model="mock", stream=stream, quirks=Quirks(*quirks), **settings)
    return json.loads(raw)


def test_plain_request():
    """The least there is: model, messages, tools; nothing that a server could stumble over."""
    body = sent()

    assert set(body) == {"model", "messages", "tools"}
    assert body["messages"] == [USER.body]
    assert [tool["function"]["name"] for tool in body["tools"]] == [t.wire_name for t in TOOLS]


def test_no_tools_no_key():
    """H26: an empty list is refused by some servers, and what is about tools goes with it."""
    body = sent(tools=(), parallel_tool_calls=False, allow_calls=False)

    assert set(body) == {"model", "messages"}


@pytest.mark.parametrize(
    "parameters", [{}, {"type": "object"}, {"type": "object", "properties": {}}]
)
def test_tool_without_parameters(parameters):
    """H27: an empty object schema, or none where the server wants none."""
    tools = offer({"type": "function", "function": {"name": "now", "parameters": parameters}})

    (tool,) = sent(tools=tools)["tools"]
    assert tool["function"]["parameters"] == {"type": "object", "properties": {}}
    (bare,) = sent(tools=tools, quirks=[Quirk.BARE_TOOLS])["tools"]
    assert "parameters" not in bare["function"]


def test_bare_tools_keep_real_parameters():
    """The quirk is about empty schemas only."""
    assert sent(quirks=[Quirk.BARE_TOOLS])["tools"][0] == sent()["tools"][0]


def test_closing_turn():
    """Decision 7: tools stay and the choice is none; where that is refused, both go."""
    body = sent(allow_calls=False, parallel_tool_calls=False)
    without = sent(allow_calls=False, parallel_tool_calls=False, quirks=[Quirk.NO_TOOL_CHOICE])

    assert body["tool_choice"] == "none"
    assert len(body["tools"]) == len(TOOLS)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(without)
    assert "tools" in sent(quirks=[Quirk.NO_TOOL_CHOICE])


def test_output_limit():
    """H15: max_tokens first, the other name once the server asked for it."""
    assert sent(max_output_tokens=10)["max_tokens"] == 10
    renamed = sent(max_output_tokens=10, quirks=[Quirk.MAX_COMPLETION_TOKENS])
    assert renamed["max_completion_tokens"] == 10
    assert "max_tokens" not in renamed


def test_streaming():
    """A stream is asked for with its usage; each can be a quirk of its own."""
    body = sent(stream=True)

    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert "stream_options" not in sent(stream=True, quirks=["without:stream_options"])
    assert "stream" not in sent(stream=True, quirks=[Quirk.NO_STREAM])
    assert sent(stream=False, quirks=[Quirk.STREAM])["stream"] is True


def test_optional_fields():
    """H25: sent when configured, left out once refused; the request's own win over settings."""
    assert sent(parallel_tool_calls=False)["parallel_tool_calls"] is False
    refused = sent(parallel_tool_calls=False, quirks=["without:parallel_tool_calls"])
    assert "parallel_tool_calls" not in refused
    request = ModelRequest([USER], extra={"temperature": 1, "model": "x", "tools": []})
    body = json.loads(
        request_body(
            request,
            model="mock",
            stream=False,
            quirks=Quirks(),
            extra={"temperature": 0, "seed": 1},
        )
    )
    assert body == {"model": "mock", "temperature": 1, "seed": 1, "messages": [USER.body]}


def assistant(**fields):
    """Write an assistant message with one call."""
    return {"role": "assistant", "content": None, "tool_calls": [call("add")], **fields}


RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "3"}


@pytest.mark.parametrize(
    ("content", "plain", "as_text", "as_null"),
    [
        (None, None, "", None),
        ("", "", "", None),
        ("  \n", None, "", None),  # I12
        ("Hi", "Hi", "Hi", "Hi"),
    ],
)
def test_empty_content_beside_calls(content, plain, as_text, as_null):
    """E22: as it came, unless the server wants one or the other; white space alone is nothing."""
    message = assistant(content=content)

    assert sent(message, RESULT)["messages"][1]["content"] == plain
    for quirk, wanted in (("empty_content_as_text", as_text), ("empty_content_as_null", as_null)):
        body = sent(message, RESULT, quirks=[quirk])
        assert body["messages"][1]["content"] == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("", {}), (None, {}), ("{", {}), ({"a": 1}, {"a": 1}), ("[1]", {}), ("{'a': 1}", {"a": 1})],
)
def test_history_from_elsewhere_is_made_legal(given, wanted):
    """C05: servers that read the history as JSON get JSON, whoever wrote the history."""
    message = {"role": "assistant", "tool_calls": [call("add", given)]}
    body = sent(message, RESULT)

    assert json.loads(body["messages"][1]["tool_calls"][0]["function"]["arguments"]) == wanted
    assert body["messages"][1]["content"] is None
    assert unpaired(body["messages"]) is None


@pytest.mark.parametrize("calls", [[], None])
def test_empty_call_list_is_left_out(calls):
    """E04: an empty list in the history is refused."""
    message = {"role": "assistant", "content": "Hi", "tool_calls": calls}

    assert sent(message)["messages"][1] == {"role": "assistant", "content": "Hi"}


def test_bodies_are_never_changed():
    """What is mended is mended on the wire; the message itself stays as the journal has it."""
    message = assistant(content=" ", tool_calls=[call("add", "")])
    before = json.dumps(message)
    sent(message, RESULT, quirks=["empty_content_as_text", "short_ids"])

    assert json.dumps(message) == before


def test_short_ids():
    """B09: ids of another endpoint become nine letters and digits, the same on both sides."""
    long_id = "call_" + "x" * 78
    message = assistant(tool_calls=[call("add", "{}", long_id), call("add", "{}", "D681PevKs")])
    results = [{**RESULT, "tool_call_id": one} for one in (long_id, "D681PevKs")]
    body = sent(message, *results, quirks=[Quirk.SHORT_IDS])

    assert unpaired(body["messages"]) is None
    first, second = (entry["id"] for entry in body["messages"][1]["tool_calls"])
    assert re.fullmatch("[A-Za-z0-9]{9}", first)
    assert second == "D681PevKs"
    assert sent(message, *results)["messages"][1]["tool_calls"][0]["id"] == long_id
    assert portable_id(long_id) == portable_id(long_id) != portable_id(long_id + "x")


def test_messages_are_encoded_once():
    """A conversation is sent with every step; each message is encoded the first time only."""
    message = Message({"role": "user", "content": "hi"})
    first = encode_message(message, Quirks())

    assert encode_message(message, Quirks()) is first
    assert encode_message(message, Quirks("empty_content_as_text")) is first


def test_quirk_leaves_the_cache_alone():
    """Two endpoints share a history; what one wants is not what the other gets."""
    message = Message(assistant())
    quirky = encode_message(message, Quirks("empty_content_as_text"))

    assert b'"content":""' in quirky
    assert b'"content":null' in encode_message(message, Quirks())


def test_tool_lists_do_not_mix():
    """Equal looking lists of other tools are encoded for themselves."""
    one, other = offer(CLOCK), offer(spec("other"))

    assert [sent(tools=tools)["tools"][0]["function"]["name"] for tools in (one, other, one)] == [
        "get_current_time",
        "other",
        "get_current_time",
    ]
    for number in range(200):
        assert sent(tools=offer(spec(f"t{number}")))["tools"][0]["function"]["name"] == f"t{number}"


@pytest.mark.parametrize("text", ["bad \ud83d tail", "\udc00", "ok 🦀 \u2028"])
def test_any_text_can_be_sent(text):
    """I07: a lone surrogate from a tool or a user does not stop the next request."""
    body = sent({**RESULT, "content": text, "x": 2**70})

    assert body["messages"][1]["content"] == text.encode("utf-8", "replace").decode().replace(
        "?", "\ufffd"
    )


def test_wire_names():
    """D09: legal names stay, others are mapped one to one."""
    names = wire_names(["add", "time.now", "查询", "x" * 100, "a-b_C9"])

    assert names["add"] == "add"
    assert names["time.now"] == "time_now"
    assert names["a-b_C9"] == "a-b_C9"
    assert len(set(names.values())) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names.values())


@pytest.mark.parametrize("names", [["time.now", "time_now"], ["a", "a"], [""]])
def test_wire_names_that_collide(names):
    """A collision is a mistake of the settings, found at start and named."""
    with pytest.raises(ConfigError, match="name"):
        wire_names(names)

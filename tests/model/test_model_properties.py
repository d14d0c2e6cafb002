"""What holds for every reply: garbage raises one error, chunking changes nothing, echoes are legal."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.said import TOOLS, ids, read
from tests.model.verify import unpaired
from worker.core.errors import ModelError
from worker.core.limits import Status
from worker.core.messages import Message, Reply
from worker.model.arguments import BadArguments, read_arguments
from worker.model.deltas import ReplyAssembler
from worker.model.jsontext import decode
from worker.model.normalise import normalise
from worker.model.port import ModelRequest
from worker.model.quirks import Quirks
from worker.model.sse import SseParser
from worker.model.textcalls import find_calls
from worker.model.wire import request_body

# Hundreds of replies each: together a tenth of the unit part.
pytestmark = pytest.mark.slow

NASTY = st.text(max_size=12) | st.sampled_from(
    [
        "",
        " ",
        "\ud83d",
        "add",
        "get_current_time",
        "{}",
        '{"a":1,"b":2}',
        "null",
        "[1",
        "<tool_call>",
    ]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NASTY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NASTY, inner, max_size=3),
    max_leaves=8,
)
FUNCTIONS = st.fixed_dictionaries(
    {}, optional={"name": NASTY | VALUES, "arguments": NASTY | VALUES, "extra": VALUES}
)
ENTRIES = VALUES | st.fixed_dictionaries(
    {}, optional={"id": NASTY | VALUES, "type": VALUES, "function": FUNCTIONS, "index": VALUES}
)
MESSAGES = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "role": VALUES,
        "content": NASTY
        | VALUES
        | st.lists(st.fixed_dictionaries({"type": NASTY, "text": VALUES})),
        "tool_calls": VALUES | st.lists(ENTRIES, max_size=3),
        "function_call": FUNCTIONS | VALUES,
        "refusal": VALUES,
        "reasoning_content": VALUES,
    },
)
REASONS = st.sampled_from(["stop", "tool_calls", "length", "content_filter", None, "", "x"])
CHOICES = VALUES | st.fixed_dictionaries(
    {}, optional={"message": MESSAGES, "delta": MESSAGES, "finish_reason": REASONS | VALUES}
)
BODIES = VALUES | st.fixed_dictionaries(
    {}, optional={"choices": st.lists(CHOICES, max_size=2), "usage": VALUES, "error": VALUES}
)


def check_sendable(reply: Reply) -> None:
    """A reply can be answered, sent and stored, whatever it was made from."""
    orjson.dumps(reply.message)
    orjson.dumps([call.arguments for call in reply.calls])
    results = [
        Message({"role": "tool", "tool_call_id": call.id, "content": call.problem or "ok"})
        for call in reply.calls
    ]
    request = ModelRequest([Message(reply.message), *results], TOOLS)
    body = json.loads(request_body(request, model="m", stream=False, quirks=Quirks()))
    assert unpaired(body["messages"]) is None
    for call, entry in zip(reply.calls, reply.message.get("tool_calls", []), strict=True):
        assert (call.problem is None) == (call.arguments is not None)
        assert entry["id"] == call.id


@given(BODIES)
@settings(max_examples=400)
def test_any_body_gives_a_reply_or_the_one_error(raw):
    """Garbage either normalises to something sendable or raises ModelError with a known ending."""
    try:
        reply = read(raw)
    except ModelError as error:
        assert error.status in set(Status)
        return

    check_sendable(reply)


@given(NASTY | st.text() | VALUES)
def test_any_arguments_are_read_or_refused(raw):
    """Arguments either become a JSON object that can be sent again, or raise BadArguments."""
    try:
        arguments = read_arguments(raw, max_bytes=10_000)
    except BadArguments:
        return

    assert orjson.loads(arguments.text) == orjson.loads(orjson.dumps(arguments.value))


@given(st.text() | st.lists(st.sampled_from(
    ["<tool_call>", "</tool_call>", "<function=add>", "</function>", "<parameter=a>", "1",
     "</parameter>", "[TOOL_CALLS]", "add", "[ARGS]", '{"a":1,"b":2}', "<invoke name=\"add\">",
     "</invoke>", "<｜DSML｜", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
     "<|tool_call_begin|>", "<|tool_call_end|>", "```", "\n", "[", "{"]
)).map("".join))  # fmt: skip
def test_any_text_is_searched_without_harm(text):
    """Markup in any order is read as calls or left as text, and raises nothing."""
    find_calls(text)


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: t.encode("utf-8", "replace")))
def test_any_bytes_decode_or_raise_value_error(data):
    """A body is JSON or a ValueError."""
    try:
        decode(data)
    except ValueError:
        pass


@given(st.lists(BODIES | CHOICES.map(lambda choice: {"choices": [choice]}), max_size=4))
@settings(max_examples=300)
def test_any_chunks_give_a_reply_or_the_one_error(chunks):
    """A stream of garbage gives something sendable or ModelError."""
    assembler = ReplyAssembler()
    try:
        for chunk in chunks:
            if isinstance(chunk, dict):
                assembler.add(chunk)
        reply = read(assembler.finish())
    except ModelError as error:
        assert error.status in set(Status)
        return

    check_sendable(reply)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
# How servers write arguments: well, encoded twice, said twice, cut, with a comma too many.
WAYS = (
    str,
    json.dumps,
    lambda text: text * 2,
    lambda text: text[:-1],
    lambda text: text[:-1] + ",}",
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["add", "get_stock_price", "get_current_time", "nope"]),
        st.dictionaries(st.sampled_from(["a", "b", "symbol"]), st.integers() | WORDS, max_size=3),
        st.sampled_from(WAYS),
    ),
    max_size=3,
)


@given(
    WORDS | st.none(),
    CALLS,
    WORDS | st.none(),
    st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
    st.data(),
)
@settings(max_examples=200)
def test_streamed_or_not_a_reply_is_the_same(content, calls, reasoning, reason, data):
    """However a reply is cut into deltas, and the stream into bytes, the same Reply comes out."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{at}",
                "type": "function",
                "function": {"name": name, "arguments": way(json.dumps(arguments))},
            }
            for at, (name, arguments, way) in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {"id": "x", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 3}}

    parser, assembler = SseParser(), ReplyAssembler()
    for piece in cut(data, stream_of(data, whole).encode()):
        for event in parser.feed(piece):
            assembler.feed(event)

    assert assembler.done
    assert normalise(assembler.finish(), TOOLS, new_id=ids()) == normalise(
        whole, TOOLS, new_id=ids()
    )


def stream_of(data: st.DataObject, whole: dict[str, Any]) -> str:
    """Write a whole reply as a stream: fields in turn, each in pieces, calls by index."""
    (choice,) = whole["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for key in ("reasoning_content", "content"):
        if message.get(key) is not None:
            deltas += [{key: piece} for piece in cut(data, message[key])]
    for at, call in enumerate(message.get("tool_calls", [])):
        first = {**call, "index": at, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [first]})
        for piece in cut(data, call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    chunks = [
        {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    chunks += [{"id": "x", "choices": [last]}, {"choices": [], "usage": whole["usage"]}]
    ascii_only = data.draw(st.booleans())
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    events = [json.dumps(chunk, ensure_ascii=ascii_only) for chunk in chunks]
    return "".join(f"data: {event}{end}{end}" for event in [*events, "[DONE]"])


def cut(data: st.DataObject, whole: Any) -> list[Any]:
    """Cut a text or bytes at random places."""
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=5).map(sorted))
    edges = [0, *places, len(whole)]
    return [whole[one:other] for one, other in pairwise(edges)]

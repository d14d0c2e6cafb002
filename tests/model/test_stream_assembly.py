"""Replies put together from the chunks of a stream (models.md 2.6)."""

from __future__ import annotations

import json

import pytest

from tests.model.said import body, call, chunk, read, streamed
from worker.core.errors import ModelError
from worker.core.messages import ReplyKind
from worker.model.deltas import ReplyAssembler

OPEN = chunk(role="assistant", content=None)
END = chunk("tool_calls")


def part(index=None, call_id=None, name=None, arguments=None, **more):
    """Write a chunk with one fragment of a call; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    fragment = {
        "index": index,
        "id": call_id,
        "function": {key: value for key, value in function.items() if value is not None},
        **more,
    }
    return chunk(tool_calls=[{k: v for k, v in fragment.items() if v is not None}])


def calls_of(*chunks):
    """Stream these chunks; return id, name and arguments of every call."""
    reply = read(streamed(OPEN, *chunks, END))
    return [(made.id, made.name, made.arguments) for made in reply.calls]


SUM = {"a": 1, "b": 2}


def test_arguments_cut_anywhere_are_joined():
    """G01: fragments end inside keys, numbers and escapes."""
    text = '{"symbol":"A\\"\\u00e9\\n"}'
    pieces = [part(0, "c1", "get_stock_price", "")] + [part(0, arguments=one) for one in text]

    assert calls_of(*pieces) == [("c1", "get_stock_price", {"symbol": 'A"é\n'})]


def test_interleaved_calls_are_told_apart_by_index():
    """G05: the id comes once, the index always."""
    found = calls_of(
        part(0, "c1", "add", '{"a":'),
        part(1, "c2", "get_stock_price", '{"symbol"'),
        part(0, arguments='1,"b":2}'),
        part(1, arguments=':"X"}'),
    )

    assert found == [("c1", "add", SUM), ("c2", "get_stock_price", {"symbol": "X"})]


def test_index_as_text_is_a_number():
    """Some gateways write "0" and "1"; interleaved calls are told apart all the same."""
    found = calls_of(
        part("0", "c1", "add", '{"a":'),
        part("1", "c2", "get_stock_price", '{"symbol"'),
        part("0", arguments='1,"b":2}'),
        part("1", arguments=':"X"}'),
    )

    assert found == [("c1", "add", SUM), ("c2", "get_stock_price", {"symbol": "X"})]


def test_fragment_without_its_levels_is_a_fragment():
    """Name and arguments beside the id, or no list around the fragment: read as without a stream."""
    flat = {"index": 0, "id": "c1", "type": "function", "name": "add", "arguments": '{"a":1,'}

    assert calls_of(
        chunk(tool_calls=[flat]), chunk(tool_calls={"index": 0, "arguments": '"b":2}'})
    ) == [("c1", "add", SUM)]


def test_repeated_name_is_not_doubled():
    """G07: name and type in every fragment say the same again."""
    found = calls_of(
        part(0, "c1", "add", "", type="function"),
        part(0, "c1", "add", '{"a":1,', type="function"),
        part(0, "c1", "add", '"b":2}', type="function"),
    )

    assert found == [("c1", "add", SUM)]


def test_repeated_name_without_id_is_not_doubled():
    """G07 without ids: one call, not one per fragment."""
    found = calls_of(
        part(0, "c1", "add", '{"a":1,'),
        part(0, name="add", arguments='"b":2}'),
        part(0, name="add"),
    )

    assert found == [("c1", "add", SUM)]


def test_name_in_pieces_is_joined():
    """G08: pieces that differ are appended; a longer and longer name replaces."""
    pieces = [part(0, "c1", "get_", ""), part(0, name="stock_"), part(0, name="price")]
    growing = [part(0, "c1", "get_", ""), part(0, name="get_stock_price")]
    last = part(0, arguments='{"symbol":"X"}')

    assert calls_of(*pieces, last) == [("c1", "get_stock_price", {"symbol": "X"})]
    assert calls_of(*growing, last) == [("c1", "get_stock_price", {"symbol": "X"})]


def test_arguments_before_the_name_wait_for_it():
    """G26: the buffer stays nameless until the name comes."""
    found = calls_of(
        part(0, arguments='{"a":1,'), part(0, "c1", "add"), part(0, arguments='"b":2}')
    )

    assert found == [("c1", "add", SUM)]


def test_arguments_before_the_name_without_index():
    """G26 as one server sends it: no index at all."""
    assert calls_of(part(arguments='{"a":1,"b":2}'), part(None, "c1", "add")) == [
        ("c1", "add", SUM)
    ]


def test_thought_signature_stays_on_its_call():
    """G28: what belongs to one call goes back on that call."""
    extra = {"google": {"thought_signature": "sig=="}}
    raw = streamed(
        part(0, "c1", "add", '{"a":1,"b":2}', extra_content=extra),
        part(1, "c2", "get_current_time", "{}"),
        END,
    )
    first, second = read(raw).message["tool_calls"]

    assert first["extra_content"] == extra
    assert "extra_content" not in second


@pytest.mark.parametrize("index", [0, None])
def test_calls_without_ids_are_told_apart(index):
    """A second complete object, or another name after one, is another call."""
    found = calls_of(
        part(index, None, "add", '{"a":1,"b":2}'),
        part(index, None, "get_current_time", "{}"),
        part(index, None, "add", '{"a":3,"b":4}'),
    )

    assert [(name, arguments) for _, name, arguments in found] == [
        ("add", SUM),
        ("get_current_time", {}),
        ("add", {"a": 3, "b": 4}),
    ]


def test_calls_without_arguments_on_one_index():
    """G04 with empty arguments: another id with another name is another call."""
    found = calls_of(part(0, "c1", "get_current_time", ""), part(0, "c2", "add", '{"a":1,"b":2}'))

    assert found == [("c1", "get_current_time", {}), ("c2", "add", SUM)]


def test_whole_call_sent_twice_is_one():
    """The same id says that it is the same call, however complete it was."""
    twice = part(0, "c1", "add", '{"a":1,"b":2}')

    assert calls_of(twice, twice) == [("c1", "add", SUM)]


def test_two_equal_calls_in_one_chunk_are_two():
    """A06 in a stream: same tool, same arguments, two ids."""
    both = [call("add", '{"a":1,"b":2}', one) for one in ("c1", "c2")]

    assert calls_of(chunk(tool_calls=both)) == [("c1", "add", SUM), ("c2", "add", SUM)]


def test_nested_object_is_not_taken_for_a_repetition():
    """G10's negative: a fragment may begin like the buffer and still continue it."""
    raw = streamed(
        part(0, "c1", "get_stock_price", '{"symbol":'), part(0, arguments='{"symbol":1}}'), END
    )
    entry = raw["choices"][0]["message"]["tool_calls"][0]

    assert json.loads(entry["function"]["arguments"]) == {"symbol": {"symbol": 1}}


def test_whole_arguments_once_more_at_the_end_count_once():
    """G10: fragments, then everything again."""
    found = calls_of(
        part(0, "c1", "add", '{"a":1,'),
        part(0, arguments='"b":2}'),
        part(0, arguments='{"a":1,"b":2}'),
    )

    assert found == [("c1", "add", SUM)]


def test_arguments_as_an_object_in_a_stream():
    """C06 in a stream: the object is taken as it is."""
    assert calls_of(part(0, "c1", "add", SUM)) == [("c1", "add", SUM)]


@pytest.mark.parametrize("ending", ["finish", "done"])
def test_one_end_mark_is_enough(ending):
    """G15: either a finish reason or [DONE] ends a reply."""
    pieces = [chunk(content="Hel"), chunk(content="lo")]
    if ending == "finish":
        raw = streamed(*pieces, chunk("stop"), done=False)
    else:
        raw = streamed(*pieces)

    assert read(raw).text == "Hello"


@pytest.mark.parametrize("reason", [None, ""])
def test_stream_without_end_mark_is_cut(reason):
    """G17: the text so far is known, but it is no reply."""
    with pytest.raises(ModelError) as caught:
        streamed(chunk(reason, content="Hel"), done=False)

    assert (caught.value.status, caught.value.transient) == ("model_unavailable", True)
    assert caught.value.text == "Hel"


@pytest.mark.parametrize(
    "broken",
    [
        {"error": {"code": 502, "message": "x"}},
        {"error": "boom", "choices": []},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]},
        {"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "x"}}]},
        {"code": "InternalError", "message": "x"},
    ],
)
def test_error_after_a_complete_call_runs_nothing(broken):
    """G19: a call that stands complete before the error is not used."""
    with pytest.raises(ModelError) as caught:
        streamed(part(0, "c1", "add", '{"a":1,"b":2}'), broken, END)

    assert caught.value.transient


@pytest.mark.parametrize("line", ["{", "[]", "7", "null", "text", '{"choices":[{"delta":{"tool_ca'])
def test_unreadable_line_breaks_the_stream(line):
    """G32: skipping a line could lose a fragment of arguments."""
    assembler = ReplyAssembler()
    with pytest.raises(ModelError) as caught:
        assembler.feed(line)

    assert caught.value.transient
    assert assembler.failure is not None


def test_character_cut_into_two_chunks_is_one():
    """Servers that count in UTF-16 cut between the halves of a character."""
    assembler = ReplyAssembler()
    assembler.feed('{"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}')
    assembler.feed(
        '{"choices":[{"index":0,"delta":{"content":"\\ude00b"},"finish_reason":"stop"}]}'
    )

    assert read(assembler.finish()).text == "a\U0001f600b"


def test_usage_is_taken_from_wherever_it_is():
    """G12: a chunk without choices, the last chunk, or a vendor's own corner."""
    usage = {"prompt_tokens": 5, "completion_tokens": 6}
    for last in ({"choices": [], "usage": usage}, {"x_groq": {"usage": usage}}, {"usage": usage}):
        reply = read(streamed(chunk(content="Hi"), chunk("stop"), last))
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (5, 6)


def test_reasoning_details_are_joined_part_by_part():
    """E20 in a stream: pieces of one block become one block, other blocks stay apart."""
    raw = streamed(
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "a"}]),
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "b"}]),
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "signature": "s"}]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "x"}]),
        chunk("stop", content="Hi"),
    )
    details = read(raw).message["reasoning_details"]

    assert details[0] == {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"}
    assert details[1] == {"type": "reasoning.encrypted", "index": 1, "data": "x"}


def test_content_parts_in_a_stream():
    """E10 in a stream: text before and between lists keeps its place."""
    raw = streamed(
        chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}]),
        chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]),
        chunk(content="They "),
        chunk("stop", content=[{"type": "text", "text": "meet."}]),
    )
    reply = read(raw)

    assert reply.text == "They meet."
    assert reply.message["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "They meet."},
    ]


def test_whole_message_in_place_of_deltas():
    """A server that sends the message in one piece, or again at the end, is read once."""
    whole = body("Hello")
    again = [chunk(content="Hel"), chunk(content="lo"), body("Hello")]

    assert read(streamed(whole)).text == "Hello"
    assert read(streamed(*again)).text == "Hello"


def test_other_choices_are_ignored():
    """A second choice is not mixed into the first."""
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}

    assert read(streamed(chunk(content="yes"), second, chunk("stop"))).text == "yes"


def test_refusal_in_a_stream():
    """E14 in a stream: the pieces of a refusal are one refusal."""
    reply = read(streamed(chunk(refusal="I can"), chunk(refusal="not."), chunk("stop")))

    assert (reply.kind, reply.text) == (ReplyKind.REFUSED, "I cannot.")


def test_cut_arguments_under_a_wrong_reason_are_told():
    """C12: one server says tool_calls although the arguments were cut."""
    reply = read(streamed(part(0, "c1", "add", '{"a":1,'), END))

    assert reply.calls[0].problem_kind == "invalid_arguments"


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": None},
        {"choices": [None, 7, "x"]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [None, 7, {}, {"function": None}]}}]},
        {"choices": [{"index": 0, "delta": {"function_call": 7, "content": 7, "x": {"y": 1}}}]},
        {"choices": {"0": 1}},
        {"usage": 7, "x_groq": 7},
    ],
)
def test_odd_chunks_do_no_harm(odd):
    """What is no delta adds nothing and breaks nothing."""
    reply = read(streamed(chunk(content="Hi"), odd, chunk("stop")))

    assert reply.text == "Hi"

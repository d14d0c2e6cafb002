"""The envelope of a reply: kinds, finish reasons, and the message that goes back (models.md 2.4)."""

from __future__ import annotations

import orjson
import pytest

from tests.model.said import body, call, played, read
from worker.core.errors import ModelError
from worker.core.messages import ReplyKind
from worker.model.jsontext import decode, encode, scrub
from worker.model.normalise import shown_text
from worker.model.usage import read_usage

SUM = call("add", '{"a":1,"b":2}')


def test_legacy_function_call_becomes_a_tool_call():
    """E01: `function_call` alone is a call with an id of ours, and never goes back as it was."""
    legacy = {"name": "add", "arguments": '{"a":1,"b":2}'}
    reply = read(body(finish="function_call", function_call=legacy))

    assert [(made.id, made.arguments) for made in reply.calls] == [("new000001", {"a": 1, "b": 2})]
    assert "function_call" not in reply.message
    assert reply.message["tool_calls"][0]["id"] == "new000001"


def test_unusable_tool_calls_leave_the_legacy_call():
    """An empty list beside a `function_call` does not hide it."""
    reply = read(body(calls=[], function_call={"name": "get_current_time"}))

    assert [made.name for made in reply.calls] == ["get_current_time"]


def test_one_call_without_its_list_is_a_call():
    """A server that sends the entry itself where a list is due has called all the same."""
    reply = read(body(calls=SUM, finish="tool_calls"))

    assert [made.arguments for made in reply.calls] == [{"a": 1, "b": 2}]
    assert [entry["id"] for entry in reply.message["tool_calls"]] == ["call_1"]


@pytest.mark.parametrize("calls", [[], None, {}, "none", 0])
def test_no_calls_are_never_echoed(calls):
    """E04: `tool_calls: []` or null in a request is refused by strict servers."""
    message = body("Hello")
    message["choices"][0]["message"]["tool_calls"] = calls
    reply = read(message)

    assert reply.kind is ReplyKind.ANSWER
    assert "tool_calls" not in reply.message


@pytest.mark.parametrize("reason", ["stop", "end_turn", "eos", "", None, 7, "function_call"])
def test_calls_count_whatever_the_reason_says(reason):
    """E05: presence of usable calls decides, not the finish reason."""
    assert read(body(calls=[SUM], finish=reason)).kind is ReplyKind.CALLS


@pytest.mark.parametrize("content", ["", None, "  \n", [], [{"type": "text", "text": ""}], 7])
@pytest.mark.parametrize("reason", ["stop", "tool_calls", None])
def test_nothing_is_empty(content, reason):
    """E06 and E12: neither text nor calls, whatever the reason promises."""
    assert read(body(content, finish=reason)).kind is ReplyKind.EMPTY


def test_null_content_goes_back_only_beside_calls():
    """An assistant turn of nothing but null is refused everywhere."""
    assert read(body(None)).message == {"role": "assistant", "content": ""}
    assert read(body(None, calls=[SUM])).message["content"] is None


def test_thinking_alone_is_empty():
    """A reply that only thought has said nothing."""
    reply = read(body("<think>hm</think>\n", reasoning_content="hm"))

    assert reply.kind is ReplyKind.EMPTY
    assert reply.message["content"] == "<think>hm</think>\n"


def test_empty_reply_is_asked_again():
    """E06: a promise of calls without calls is asked again and then answered."""
    outcome, conversation = played(body(finish="tool_calls"), body("Hello"))

    assert outcome["answer"] == "Hello"
    assert len(conversation.requests) == 2


def test_reasoning_goes_back_untouched():
    """E17: unknown fields stay, on the message, on the call and inside its function."""
    marked = call("add", '{"a":1,"b":2}', extra_content={"google": {"thought_signature": "s"}})
    marked["function"]["x_hint"] = 1
    reply = read(body(calls=[marked], reasoning_content="", reasoning="r", vendor={"deep": [1]}))

    assert reply.message["reasoning_content"] == ""
    assert reply.message["reasoning"] == "r"
    assert reply.message["vendor"] == {"deep": [1]}
    (entry,) = reply.message["tool_calls"]
    assert entry["extra_content"] == {"google": {"thought_signature": "s"}}
    assert entry["function"]["x_hint"] == 1


def test_empty_extras_of_the_known_kind_are_left_out():
    """`refusal: null` and the like say nothing, and some servers refuse to get them back."""
    reply = read(body("Hi", refusal=None, annotations=[], audio=None, function_call=None))

    assert reply.message == {"role": "assistant", "content": "Hi"}


def test_unwritable_extras_do_not_kill_the_run():
    """A field nested beyond what can be sent is left out; the answer stays."""
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    reply = read(body("Hi", vendor=deep))

    assert reply.message == {"role": "assistant", "content": "Hi"}


def test_unwritable_extras_cost_no_call():
    """Beside such a field, and holding one, a call still runs; bad arguments are told."""
    deep: list = []
    for _ in range(300):
        deep = [deep]
    calls = [call("add", {"a": 1, "b": 2}, "c1", extra=deep, big=2**70), call("add", {"a": deep})]
    reply = read(body(calls=calls, vendor=deep))

    assert [made.arguments for made in reply.calls] == [{"a": 1, "b": 2}, None]
    assert "nested" in str(reply.calls[1].problem)
    assert set(reply.message["tool_calls"][0]) == {"id", "type", "function"}
    orjson.dumps(reply.message)


def test_lone_surrogates_leave_every_text():
    """R11: what cannot be encoded is replaced before it enters history."""
    reply = read(body("bad \ud83d tail", reasoning_content="\udc00"))

    assert reply.text == reply.message["content"] == "bad \ufffd tail"
    assert reply.message["reasoning_content"] == "\ufffd"
    orjson.dumps(reply.message)


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        ({"refusal": "No.", "calls": [SUM]}, ReplyKind.REFUSED, "No."),
        ({"finish": "refusal", "content": "No."}, ReplyKind.REFUSED, "No."),
        ({"content": [{"type": "refusal", "refusal": "No."}]}, ReplyKind.REFUSED, "No."),
        ({"finish": "content_filter", "calls": [SUM]}, ReplyKind.CONTENT_FILTERED, ""),
        ({"finish": "content_filter: SAFETY"}, ReplyKind.CONTENT_FILTERED, ""),
        ({"finish": "SAFETY", "content": "He"}, ReplyKind.CONTENT_FILTERED, "He"),
        ({"finish": "sensitive"}, ReplyKind.CONTENT_FILTERED, ""),
        ({"finish": "length", "content": "The ans"}, ReplyKind.LENGTH, "The ans"),
        ({"finish": "length"}, ReplyKind.LENGTH, ""),
        ({"finish": "length", "content": "<think>still"}, ReplyKind.LENGTH, ""),
        ({"refusal": "", "content": "Yes"}, ReplyKind.ANSWER, "Yes"),
    ],
)
def test_what_wins_over_calls_and_text(fields, kind, text):
    """R2: refusals, filters and cuts win, and nothing runs."""
    reply = read(body(**{"content": None, **fields}))

    assert (reply.kind, reply.text, reply.calls) == (kind, text, ())
    assert "tool_calls" not in reply.message


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<think>a</think>\n\nHello", "Hello"),
        ("  <thinking>a</thinking>Hello", "Hello"),
        ("<think>a</think><think>b</think>Hello", "Hello"),
        ("plan\n</think>\n\nHello", "Hello"),
        ("<think>never closed", "<think>never closed"),
        ("The `</think>` tag ends it.", "The `</think>` tag ends it."),
        ("Use <think> and </think> so.", "Use <think> and </think> so."),
        ("Hello <think>a</think>", "Hello <think>a</think>"),
    ],
)
def test_thinking_is_not_shown(said, shown):
    """E21: thinking that leads the text is cut from what a person sees; quotations stay."""
    assert shown_text(said) == shown


def test_parts_stay_a_list_in_the_history():
    """E10 and E11: text parts are joined for people, the list goes back as it came."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "See "},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "doc 1."},
    ]
    reply = read(body(parts))

    assert reply.text == "See doc 1."
    assert reply.message["content"] == parts


def test_one_part_without_its_list_is_the_text():
    """What stands alone is read, and goes back in a form that servers accept."""
    part = {"type": "text", "text": "Hello"}
    reply = read(body(part))

    assert (reply.kind, reply.text) == (ReplyKind.ANSWER, "Hello")
    assert reply.message["content"] == [part]


@pytest.mark.parametrize(
    ("raw", "status", "transient"),
    [
        ({"error": {"code": 429, "message": "slow"}, "choices": None}, "rate_limited", True),
        ({"error": {"code": 502, "message": "bad"}}, "model_unavailable", True),  # E24
        ({"error": {"code": "502", "message": "bad"}}, "model_unavailable", True),
        ({"error": {"code": 402, "message": "credits"}}, "quota_exhausted", False),
        ({"error": {"message": "Invalid", "type": "invalid_request_error"}}, "bad_request", False),
        ({"error": "Input validation error", "error_type": "validation"}, "bad_request", False),
        ({"error": "overloaded"}, "model_unavailable", True),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "rate_limited", True),
        ([{"error": {"code": 401, "message": "no"}}], "auth_error", False),
        ({"choices": []}, "protocol_error", True),  # E27
        ({"choices": [None]}, "protocol_error", True),
        ({"choices": [{"index": 0}]}, "protocol_error", True),
        ({"data": {"choices": []}, "success": True}, "protocol_error", True),
        ({}, "protocol_error", True),
        ([], "protocol_error", True),
        ("text", "protocol_error", True),
        (None, "protocol_error", True),
        ({"choices": [{"finish_reason": "error", "message": {}}]}, "model_unavailable", True),
    ],
)
def test_bodies_that_are_no_reply(raw, status, transient):
    """E23 to E28: an error inside a 200 counts by its code, and no reply is asked for again."""
    with pytest.raises(ModelError) as caught:
        read(raw)

    assert (caught.value.status, caught.value.transient) == (status, transient)


def test_unknown_envelope_names_its_keys():
    """E28: whoever has to find out sees what the server sent instead."""
    with pytest.raises(ModelError, match="data, success"):
        read({"success": True, "data": {}})


def test_error_beside_a_reply_wins():
    """R2: what came with an error is not used, however complete it looks."""
    with pytest.raises(ModelError):
        read({**body(calls=[SUM]), "error": {"code": 502, "message": "x"}})


@pytest.mark.parametrize("error", [None, {}, "", [], {"code": 0, "message": "", "type": None}])
def test_empty_error_is_no_error(error):
    """Some servers send the key always."""
    assert read({**body("Hi"), "error": error}).text == "Hi"


@pytest.mark.parametrize("space", [b"\n\n\n", b"\xef\xbb\xbf", b" \r\n\t"])
def test_space_before_the_json_does_not_matter(space):
    """E29: keep-alive lines and a byte order mark come before some bodies."""
    assert decode(space + b'{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("data", [b"", b"<html>", b'{"a": ', b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_json_raises_one_error(data):
    """E30 and E31: the caller gets a ValueError and nothing else."""
    with pytest.raises(ValueError):
        decode(data)


def test_numbers_that_are_none():
    """NaN and its kind in some corner of a body do not cost the reply."""
    assert decode(b'{"a": NaN, "b": [-Infinity, 1e999, 1.5]}') == {
        "a": None,
        "b": [None, None, 1.5],
    }


def test_halves_of_a_character_meet():
    """Two surrogates that came separately are one character once they stand together."""
    assert scrub(["\ud83d\ude00", {"\ud83d": "a\udc00"}]) == ["\U0001f600", {"\ufffd": "a\ufffd"}]
    assert encode({"n": 2**70, "t": "\ud83d"}) == '{"n":1180591620717411303424,"t":"�"}'.encode()


def test_usage_under_all_its_names():
    """Token counts are read from any dialect; nonsense counts as nothing."""
    openai = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
        "cost": 0.25,
    }
    usage = read_usage(openai)

    assert (usage.prompt_tokens, usage.completion_tokens) == (10, 5)
    assert (usage.cached_tokens, usage.reasoning_tokens, usage.cost) == (4, 3, 0.25)
    assert read_usage({"input_tokens": 7, "prompt_cache_hit_tokens": 2}).cached_tokens == 2
    for nonsense in (None, [], {"prompt_tokens": "9", "cost": float("nan")}, {"prompt_tokens": -1}):
        assert read_usage(nonsense).prompt_tokens == 0
        assert read_usage(nonsense).cost is None
        assert read_usage(nonsense).model_calls == 1

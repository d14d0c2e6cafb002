"""The probe against servers of every dialect, over real HTTP on loopback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.model.speakers import Body, calls, odd, probed, said, speaking, streamed
from worker.model.client import Endpoint, ModelOptions
from worker.model.dialect import Verdict
from worker.model.offline import OfflineModel
from worker.model.probe import Standing, probe


async def test_stand_in_has_no_quirk() -> None:
    """Our strict stand-in takes every question, and each trait of it is ok."""
    async with OfflineModel() as server:
        report = await probe(Endpoint(server.url, "any"))
        refused = server.refused

    assert (report.standing, report.requests, refused) == (Standing.USABLE, 4, 0)
    assert odd(report) == {}
    assert {trait.topic: trait.seen for trait in report.traits}["calls"] == "tool_calls"
    assert [trait.topic for trait in report.traits if "stream" in trait.topic] == [
        *("stream", "stream end", "stream index")
    ]


async def test_common_server_is_the_measure() -> None:
    """The speaker of these tests has no quirk of its own, so that each test sees only its change."""
    report = await probed(speaking(calls()))

    assert (odd(report), report.standing) == ({}, Standing.USABLE)


async def test_legacy_function_call() -> None:
    """A function_call is named as such, and its result goes back paired with a tool call."""
    function = calls()["tool_calls"][0]["function"]
    requests: list[Body] = []
    message = {"role": "assistant", "content": None, "function_call": function}
    report = await probed(speaking(message, reason="function_call"), requests=requests)

    assert report.standing == Standing.USABLE
    assert set(odd(report)) == {"calls"}
    assert odd(report)["calls"].seen == "function_call"
    echo = next(each["messages"] for each in requests if each["messages"][-1]["role"] == "tool")
    assert echo[1]["tool_calls"][0]["id"] == echo[2]["tool_call_id"]


@pytest.mark.parametrize(
    ("changes", "topic", "seen"),
    [
        (
            {"function": {"name": "get_weather", "arguments": {"city": "Paris"}}},
            "arguments",
            "an object",
        ),
        (
            {"function": {"name": "get_weather", "arguments": json.dumps('{"city": "Paris"}')}},
            "arguments",
            "JSON text within JSON text",
        ),
        (
            {"function": {"name": "get_weather", "arguments": "{'city': 'Paris',}"}},
            "arguments",
            "not quite the JSON text of an object",
        ),
        (
            {"function": {"name": "get_weather", "arguments": '{"town": "Paris"}'}},
            "schema",
            "the call does not fit the tool",
        ),
        ({"id": None}, "ids", "missing"),
        ({"id": ""}, "ids", "empty"),
        ({"id": 7}, "ids", "no text but int"),
        ({"id": "get_weather"}, "ids", "the same for several calls"),
    ],
)
async def test_oddities_of_calls(changes: Body, topic: str, seen: str) -> None:
    """Each oddity is named, alone, with what becomes of it; the echo is legal all the same."""
    requests: list[Body] = []
    report = await probed(speaking(calls(**changes)), requests=requests)

    assert report.standing == Standing.USABLE
    assert set(odd(report)) == {topic}
    assert odd(report)[topic].seen == seen
    assert odd(report)[topic].does
    echo = next(each["messages"] for each in requests if each["messages"][-1]["role"] == "tool")
    ids = [call["id"] for call in echo[1]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in echo[2:]]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(each, str) and each for each in ids)


@pytest.mark.parametrize(
    ("content", "seen"), [("", '"" beside a call'), ([], "a list of parts"), (3, "int beside")]
)
async def test_content_beside_a_call(content: Any, seen: str) -> None:
    """What stands where the text would is told."""
    report = await probed(speaking({**calls(), "content": content}))

    assert {t.topic: t.seen for t in report.traits}["content"].startswith(seen)
    assert report.standing == Standing.USABLE


async def test_finish_reason_that_lies() -> None:
    """A stop beside a call is told, once for both ways of asking."""
    report = await probed(speaking(calls(), reason="stop"))

    assert set(odd(report)) == {"finish_reason"}
    assert "'stop'" in odd(report)["finish_reason"].seen


async def test_leaked_text_call() -> None:
    """Calls in the text are told with the form they have, and answered as calls."""
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    requests: list[Body] = []
    speaker = speaking({"role": "assistant", "content": text}, reason="stop")
    report = await probed(speaker, requests=requests)

    assert report.standing == Standing.USABLE
    assert odd(report)["calls"].seen == "leaked into the text (hermes)"
    assert any(each["messages"][-1]["role"] == "tool" for each in requests)


async def test_model_that_does_not_call() -> None:
    """A server that only chats is unusable, and its words are shown."""
    report = await probed(speaking({"role": "assistant", "content": "It rains."}, reason="stop"))

    assert report.standing == Standing.UNUSABLE
    assert odd(report)["calls"].verdict is Verdict.WRONG
    assert "It rains." in odd(report)["calls"].seen


async def test_calls_that_only_the_stream_loses() -> None:
    """What is well without a stream and not with it is told of the stream."""
    chat = streamed({"role": "assistant", "content": "It rains."}, "stop")
    report = await probed(speaking(calls(), stream=chat))
    needed = await probed(speaking(calls(), stream=chat), options=ModelOptions(stream=True))

    assert (report.standing, needed.standing) == (Standing.USABLE, Standing.UNUSABLE)
    assert "LOOPWORKER_MODEL_STREAM" in odd(report)["stream calls"].does
    assert odd(report)["stream calls"].verdict is Verdict.WRONG
    assert "calls" not in odd(report)


async def test_stream_that_is_answered_as_json() -> None:
    """No streaming support: the reply is one JSON body, and that is told."""
    report = await probed(speaking(calls(), stream=said(calls())))

    assert set(odd(report)) == {"stream"}
    assert odd(report)["stream"].seen == "answered as one JSON reply"


async def test_stream_that_is_refused() -> None:
    """A telling refusal is learned, obeyed at once and listed."""
    words = {"error": {"message": "streaming is not supported"}}
    speaker = speaking(calls(), stream={"status": 400, "body": words})
    report = await probed(speaker)

    assert report.quirks == ["no_stream"]
    assert odd(report)["stream"].seen == "refused"
    assert odd(report)["learned"].does == "no reply is asked for as a stream"


async def test_stream_that_breaks() -> None:
    """A stream without any end mark gives no reply; whether that matters depends on the settings."""
    speaker = speaking(calls(), stream=streamed(calls(), None, done=False))
    unasked = await probed(speaker)
    needed = await probed(speaker, options=ModelOptions(stream=True))

    assert odd(unasked)["stream"].verdict is Verdict.WRONG
    assert "ended before the reply was complete" in odd(unasked)["stream"].seen
    assert "LOOPWORKER_MODEL_STREAM" in odd(unasked)["stream"].does
    assert (unasked.standing, needed.standing) == (Standing.USABLE, Standing.UNUSABLE)


async def test_stream_without_done() -> None:
    """A missing [DONE] after a finish reason is a quirk and no more."""
    report = await probed(speaking(calls(), stream=streamed(calls(), done=False)))

    assert set(odd(report)) == {"stream end"}


async def test_stream_with_one_index_for_all() -> None:
    """Fragments that all say index 0 are told, and still make two calls."""
    entries = [{**each, "index": 0} for each in calls()["tool_calls"]]
    items = streamed(calls())
    items["stream"][0]["choices"][0]["delta"]["tool_calls"] = entries
    report = await probed(speaking(calls(), stream=items))

    assert set(odd(report)) == {"stream index"}
    assert odd(report)["stream index"].seen == "the same for several calls"


@pytest.mark.parametrize(
    ("indexes", "seen"), [((None, None), "missing"), ((1, 2), "begins at 1 or skips")]
)
async def test_odd_indexes(indexes: tuple[Any, Any], seen: str) -> None:
    """Fragments without an index, or that count from one, are told."""
    entries = [
        {**each, "index": index} for index, each in zip(indexes, calls()["tool_calls"], strict=True)
    ]
    items = streamed(calls())
    items["stream"][0]["choices"][0]["delta"]["tool_calls"] = entries
    report = await probed(speaking(calls(), stream=items))

    assert {topic: trait.seen for topic, trait in odd(report).items()} == {"stream index": seen}


async def test_stream_with_another_content_type() -> None:
    """Events that call themselves plain text are read, and told."""
    items = {**streamed(calls()), "headers": {"content-type": "text/plain"}}
    report = await probed(speaking(calls(), stream=items))

    assert {t.topic: t.seen for t in odd(report).values()} == {
        "stream": "sent, with another content type"
    }


async def test_refused_field_is_learned() -> None:
    """A server that knows no max_tokens is asked in its own words; the probe names the quirk."""
    speaker = speaking(calls())
    words = {
        "message": "use 'max_completion_tokens' instead of 'max_tokens'",
        "param": "max_tokens",
    }
    refusal = {"status": 400, "body": {"error": {**words, "code": "unsupported_parameter"}}}
    options = ModelOptions(max_output_tokens=500)
    report = await probed(
        lambda body: refusal if "max_tokens" in body else speaker(body), options=options
    )

    assert (report.standing, report.requests) == (Standing.USABLE, 5)
    assert report.quirks == ["max_completion_tokens"]
    assert odd(report)["learned"].seen == "max_completion_tokens"


async def test_usage_that_is_not_sent() -> None:
    """Without usage the reader learns that budgets cannot hold."""
    reply = said(calls())
    reply["body"].pop("usage")
    speaker = speaking(calls())
    report = await probed(lambda body: reply if speaker(body) == said(calls()) else speaker(body))

    assert set(odd(report)) == {"usage"}


async def test_results_that_are_refused() -> None:
    """A server that takes no results can run no loop."""
    speaker = speaking(calls())

    def answer(body: Body) -> Body:
        refused = {"status": 400, "body": {"error": {"message": "role tool is strange"}}}
        return refused if body["messages"][-1]["role"] == "tool" else speaker(body)

    report = await probed(answer)

    assert report.standing == Standing.UNUSABLE
    assert "role tool is strange" in odd(report)["results"].seen


async def test_closing_turns_without_tool_choice() -> None:
    """A refused tool_choice is learned; one that is not heeded is told."""
    speaker = speaking(calls())

    def refusing(body: Body) -> Body:
        words = {"error": {"message": "tool_choice is not supported", "param": "tool_choice"}}
        return {"status": 400, "body": words} if "tool_choice" in body else speaker(body)

    def heedless(body: Body) -> Body:
        return said(calls()) if "tool_choice" in body else speaker(body)

    refused, unheeded = await probed(refusing), await probed(heedless)

    assert odd(refused)["tool_choice"].seen == "refused"
    assert refused.quirks == ["no_tool_choice"]
    assert odd(unheeded)["tool_choice"].seen == "none is not heeded"
    assert refused.standing == unheeded.standing == Standing.USABLE

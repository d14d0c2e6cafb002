"""What an endpoint teaches us, and when a request is worth sending once more (R10)."""

from __future__ import annotations

import json

import pytest

from worker.model.failures import from_http
from worker.model.quirks import Quirk, Quirks


def refuse(message, status=400, **error):
    """Judge a 400 with this message."""
    body = json.dumps({"error": {"message": message, **error}}).encode()
    return from_http(status, {}, body, now=0.0)


@pytest.mark.parametrize(
    ("message", "error", "quirk"),
    [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
            " 'max_completion_tokens' instead.",
            {"param": "max_tokens", "code": "unsupported_parameter"},
            Quirk.MAX_COMPLETION_TOKENS,
        ),
        ("max_tokens is deprecated", {}, Quirk.MAX_COMPLETION_TOKENS),
        ("invalid message content type: <nil>", {}, Quirk.EMPTY_CONTENT_AS_TEXT),  # E22
        ("messages[1].content: cannot be null", {}, Quirk.EMPTY_CONTENT_AS_TEXT),
        ("messages.1.content: Input should be a valid string", {}, Quirk.EMPTY_CONTENT_AS_TEXT),
        (
            "Invalid value for 'content': expected a string, got null.",
            {},
            Quirk.EMPTY_CONTENT_AS_TEXT,
        ),
        ("messages: text content blocks must be non-empty", {}, Quirk.EMPTY_CONTENT_AS_NULL),
        ("The text field in the ContentBlock object is blank", {}, Quirk.EMPTY_CONTENT_AS_NULL),
        (
            "parameter.enable_thinking must be set to false for non-streaming calls",  # H22
            {},
            Quirk.STREAM,
        ),
        ("This model only supports streaming", {}, Quirk.STREAM),
        ("Streaming is not supported for this model", {}, Quirk.NO_STREAM),
        ("Unrecognized request argument supplied: stream_options", {}, "without:stream_options"),
        ("stream_options is not supported", {}, "without:stream_options"),
        (
            "This model only supports single tool-calls at once!",  # H25
            {"param": "parallel_tool_calls", "code": 400},
            "without:parallel_tool_calls",
        ),
        ("Unknown parameter: 'parallel_tool_calls'.", {}, "without:parallel_tool_calls"),
        (
            "Unsupported value: 'temperature' does not support 0.2 with this model.",
            {"param": "temperature", "code": "unsupported_value"},
            "without:temperature",
        ),
        ("Extra inputs are not permitted: `seed`", {}, "without:seed"),
        ("tool_choice 'none' is not supported", {}, Quirk.NO_TOOL_CHOICE),
        (
            "No endpoints found that support the provided 'tool_choice' value.",
            {},
            Quirk.NO_TOOL_CHOICE,
        ),
        (
            "function_declarations[0].parameters.properties: should be non-empty for OBJECT type",
            {},
            Quirk.BARE_TOOLS,  # H27
        ),
        (
            "Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9.",
            {},
            Quirk.SHORT_IDS,
        ),
        (
            "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with"
            " maximum length 40, but got a string with length 83 instead.",
            {"code": "string_above_max_length"},
            Quirk.SHORT_IDS,
        ),
        ("Invalid value for 'temperature': must be below 2", {"param": "temperature"}, None),
        ("Invalid 'temperature'", {"param": "temperature", "code": "invalid_value"}, None),
        ("The model `nope` does not exist", {"code": "model_not_found"}, None),
        ("max_tokens is too large: 100000", {"param": "max_tokens"}, None),
        ("The user does not exist", {}, None),
        ("Something went wrong", {}, None),
    ],
)
def test_what_a_refusal_teaches(message, error, quirk):
    """A telling 400 names one change; an ordinary mistake names none."""
    assert refuse(message, **error).quirk == quirk


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_only_refused_forms_teach(status):
    """A busy or forbidding server says nothing about the form of the request."""
    assert refuse("max_tokens is not supported", status).quirk is None


def test_quirk_is_learned_once():
    """The request is sent once more; the same refusal again is an ordinary error."""
    quirks = Quirks()
    failure = refuse("invalid message content type: <nil>")

    assert quirks.learn(failure)
    assert not quirks.learn(failure)
    assert quirks.has(Quirk.EMPTY_CONTENT_AS_TEXT)
    assert quirks.as_data() == ["empty_content_as_text"]


def test_request_built_before_the_lesson_is_sent_again():
    """A concurrent request that was built without the quirk is worth another try, once."""
    quirks = Quirks()
    failure = refuse("Unknown parameter: 'seed'.")
    before = quirks.revision
    assert quirks.learn(failure, sent=before)

    assert quirks.learn(failure, sent=before)
    assert not quirks.learn(failure, sent=quirks.revision)


def test_opposites_do_not_go_on_for_ever():
    """A server that wants neither null nor "" is tried both ways and then believed."""
    quirks = Quirks()
    null, empty = refuse("content cannot be null"), refuse("content must be non-empty")

    assert [quirks.learn(one) for one in (null, empty, null, empty)] == [True, True, False, False]
    assert quirks.as_data() == ["empty_content_as_null"]


def test_known_quirks_and_streaming():
    """Quirks may be known from the start, and the stream ones override the settings."""
    assert Quirks("stream").streams(False)
    assert not Quirks("no_stream").streams(True)
    assert Quirks().streams(True)
    assert Quirks("without:seed").without("seed")
    assert "without:seed" in repr(Quirks("without:seed"))


def test_failure_without_quirk_teaches_nothing():
    """Most failures change nothing."""
    assert not Quirks().learn(refuse("Something went wrong"))

"""What a refusal means: ending, retry, wait, and the text for people (models.md 2.7)."""

from __future__ import annotations

import json
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.errors import ModelError
from worker.core.limits import Status
from worker.model.failures import ModelFailure, error_in, from_http, unreadable
from worker.model.retryhints import in_words, seconds_of

NOW = 1_800_000_000.0


def refuse(http_status, message="", headers=None, **error) -> ModelFailure:
    """Judge a refusal with a common error object."""
    body = json.dumps({"error": {"message": message, **error}}).encode()
    return from_http(http_status, headers or {}, body, now=NOW)


def outcome(failure):
    """Return ending and whether to ask again."""
    return str(failure.status), failure.transient


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"message": "Invalid value for 'temperature'"}, ("bad_request", False)),
        (401, {"message": "no"}, ("auth_error", False)),  # H10
        (
            400,
            {"message": "API key not valid", "status": "INVALID_ARGUMENT"},
            ("auth_error", False),
        ),
        (402, {"message": "pay"}, ("quota_exhausted", False)),
        (403, {"message": "no"}, ("auth_error", False)),
        (403, {"message": "Input was flagged by moderation"}, ("content_filtered", False)),
        (404, {"message": "The model `x` does not exist"}, ("bad_request", False)),
        (408, {}, ("model_unavailable", True)),
        (409, {}, ("model_unavailable", True)),
        (413, {}, ("context_overflow", False)),
        (429, {"message": "slow down"}, ("rate_limited", True)),
        (429, {"code": "insufficient_quota"}, ("quota_exhausted", False)),  # H05
        (429, {"message": "You exceeded your current quota"}, ("quota_exhausted", False)),
        (
            429,
            {"message": "You exceeded your current quota. Please retry in 12.5s."},
            ("rate_limited", True),
        ),
        (429, {"message": "Too many tokens, please wait"}, ("rate_limited", True)),  # H14
        (400, {"message": "Your credit balance is too low"}, ("quota_exhausted", False)),
        (400, {"code": "Throttling.RateQuota", "message": "x"}, ("rate_limited", True)),
        (498, {"message": "capacity"}, ("model_unavailable", True)),
        (500, {"message": "oops"}, ("model_unavailable", True)),
        (501, {"message": "no"}, ("model_unavailable", False)),
        (503, {"message": "maximum context length"}, ("model_unavailable", True)),
        (529, {"type": "overloaded_error"}, ("model_unavailable", True)),
        (307, {}, ("protocol_error", False)),
        (
            400,  # H24
            {
                "message": "filtered",
                "code": "content_filter",
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            },
            ("content_filtered", False),
        ),
        (400, {"code": "data_inspection_failed"}, ("content_filtered", False)),
        (400, {"code": "tool_use_failed", "failed_generation": "x"}, ("tool_errors", True)),
        (
            429,
            {"code": "1113", "message": "您的账户已欠费,请充值后重试"},
            ("quota_exhausted", False),
        ),
        (403, {"message": "账户余额不足"}, ("quota_exhausted", False)),
        (429, {"message": "当前 API 请求过多,请稍后重试"}, ("rate_limited", True)),
        (400, {"message": "请求过于频繁"}, ("rate_limited", True)),
        (
            400,
            {"code": "1301", "message": "输入或生成内容可能包含不安全或敏感内容"},
            ("content_filtered", False),
        ),
        (400, {"message": "messages 参数非法。请检查文档"}, ("bad_request", False)),
        (400, {"message": "参数 content 不能为空,请检查输入内容"}, ("bad_request", False)),
    ],
)
def test_ending_of_a_refusal(status, error, expected):
    """The status decides first, then the words."""
    assert outcome(refuse(status, **error)) == expected


@pytest.mark.parametrize(
    "wording",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
        "The input exceeds model's maximum context length",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1100000) exceeds the maximum number of tokens allowed",
        "input length and max_tokens exceed context limit: 190000 + 20000 > 200000",
        "Prompt too long: 9000 exceeds max_seq_len 8192",
        "the request exceeds the available context size, try increasing it",
        "Requested token count exceeds the model's maximum context length of 4096",
        "Range of input length should be [1, 30720]",
        "Prompt 超长",
        "输入的总长度超过模型最大长度",
        "上下文长度超出限制",
    ],
)
@pytest.mark.parametrize("status", [400, 422, 500])
def test_overflow_in_many_wordings(wording, status):
    """H12 and H13: an ending of its own, so that the loop can compact once."""
    assert outcome(refuse(status, wording)) == ("context_overflow", False)


def test_overflow_by_code():
    """H12: the code alone is enough."""
    assert refuse(400, "too much", code="context_length_exceeded").status == "context_overflow"


@pytest.mark.parametrize(
    ("headers", "message", "wait"),
    [
        ({"retry-after": "7"}, "", 7.0),  # H01
        ({"retry-after": "0"}, "", 0.0),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, "", 30.0),  # H02
        ({"retry-after-ms": "300", "retry-after": "2"}, "", 0.3),  # H03
        ({"retry-after": "-3"}, "", None),  # H04
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({"retry-after": formatdate(NOW - 30, usegmt=True)}, "", None),
        ({"retry-after-ms": "x", "retry-after": "2"}, "", 2.0),
        ({"x-ratelimit-reset-tokens": "400ms"}, "", 0.4),  # H06
        ({"x-ratelimit-reset-tokens": "6m0s"}, "", 360.0),
        ({"x-ratelimit-reset-requests": "1.2s", "x-ratelimit-reset-tokens": "9s"}, "", 1.2),
        (
            {
                "x-ratelimit-reset-requests": "1.2s",
                "x-ratelimit-reset-tokens": "9s",
                "x-ratelimit-remaining-requests": "10",
                "x-ratelimit-remaining-tokens": "0",
            },
            "",
            9.0,
        ),
        ({"x-ratelimit-reset": str(int((NOW + 5) * 1000))}, "", 5.0),
        ({"x-ratelimit-reset": str(int(NOW + 5))}, "", 5.0),
        ({"x-ratelimit-reset": "banana"}, "", None),
        ({}, "Rate limit reached. Please try again in 0.4s. Visit the site.", 0.4),
        ({}, "Please try again in 1m2.5s.", 62.5),
        ({}, "Please try again in 20ms.", 0.02),
        ({}, "Please retry after 5 seconds", 5.0),
        ({}, "try again in a while", None),
        ({}, "Limit 30000, used 2900 tokens", None),
    ],
)
def test_wait_of_a_429(headers, message, wait):
    """The most exact hint counts; what makes no sense counts as not said."""
    assert refuse(429, message, headers).retry_after_seconds == pytest.approx(wait)


def test_wait_in_the_details():
    """One vendor says it in a list of details."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}]

    assert refuse(429, "Resource exhausted", details=details).retry_after_seconds == 12


def test_wait_that_is_too_long_fails_at_once():
    """H30: an hour is not waited for, but told."""
    failure = refuse(429, "slow", {"retry-after": "3600"})

    assert outcome(failure) == ("rate_limited", False)
    assert failure.retry_after_seconds == 3600
    assert "3600" in failure.text


@pytest.mark.parametrize(
    ("status", "told", "transient"), [(503, "false", False), (400, "true", True), (503, "x", True)]
)
def test_server_may_say_whether_to_retry(status, told, transient):
    """H29: x-should-retry is honoured in both directions."""
    assert refuse(status, "x", {"x-should-retry": told}).transient is transient


def test_reset_headers_count_only_for_a_429():
    """Elsewhere they describe a limit that was not reached."""
    assert refuse(503, "x", {"x-ratelimit-reset-tokens": "60s"}).retry_after_seconds is None


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"<html><head><title>502 Bad\nGateway</title></head>x</html>", "502 Bad Gateway"),  # H08
        (b"upstream connect error", "upstream connect error"),
        (b'{"message": "plain"}', "plain"),
        (b'{"detail": "of fastapi"}', "of fastapi"),
        (b'{"detail": [{"loc": ["body"], "msg": "field required"}]}', "field required"),
        (b'{"error": "text"}', "text"),
        (b'[{"error": {"code": 400, "message": "listed"}}]', "listed"),
        (b'"just text"', "just text"),
        (b'{"error": {"message": null, "code": "some_code"}}', "some_code"),
        (b"", "HTTP 502"),
        (b"\xff\xfe\x00", "HTTP 502"),
    ],
)
def test_error_text_is_found_in_any_envelope(body, shown):
    """People read what the server said, whatever it was wrapped in; a page is only named."""
    failure = from_http(502, {}, body, now=NOW)

    assert shown in failure.text
    assert failure.text.startswith("HTTP 502")
    assert "<" not in failure.text


def test_error_text_is_short_one_line_and_without_keys():
    """What goes into logs and results is bounded and holds no secret."""
    failure = refuse(401, "Incorrect API key provided: sk-abcdef1234567890.\n" + "x" * 5000)

    assert len(failure.text) <= 300
    assert "abcdef" not in failure.text
    assert "\n" not in failure.text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"error": {"code": 429, "message": "x"}}, ("rate_limited", True)),
        ({"error": {"code": "rate_limit_exceeded", "message": "x"}}, ("rate_limited", True)),
        ({"error": {"type": "overloaded_error", "message": "x"}}, ("model_unavailable", True)),
        ({"error": {"type": "invalid_request_error", "message": "x"}}, ("bad_request", False)),
        ({"error": {"message": "Insufficient credits"}}, ("quota_exhausted", False)),
        ({"error": {"message": "whatever"}}, ("model_unavailable", True)),
        ({"error": {"code": 200, "message": "odd"}}, ("model_unavailable", True)),
        ({"error": True}, None),
        ({"message": 7}, None),
        ({"choices": [{}], "message": "hello"}, None),
        ({}, None),
    ],
)
def test_error_inside_a_200(value, expected):
    """E23 to E25: the code or the words stand for the status."""
    failure = error_in(value)

    assert (outcome(failure) if failure else None) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", ("model_unavailable", True)),
        (b" \n ", ("model_unavailable", True)),
        (b'{"id":"x","cho', ("model_unavailable", True)),
        (b"<!DOCTYPE html><title>Log in</title>", ("protocol_error", True)),  # E31
        (b"Hello", ("protocol_error", True)),
        (b"\x1f\x8b\x08", ("protocol_error", True)),
    ],
)
def test_unreadable_200(body, expected):
    """H18, H20, E30, E31: a 200 that is no JSON is worth a retry, and never an answer."""
    assert outcome(unreadable(body, "text/html")) == expected


def test_failure_becomes_the_documented_error():
    """The exception carries ending, wait and what was said before."""
    error = ModelFailure(Status.RATE_LIMITED, True, "slow", 2.0).error(said="Hel")

    assert isinstance(error, ModelError)
    assert (error.status, error.transient, error.text) == ("rate_limited", True, "Hel")
    assert error.retry_after_seconds == 2.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360),
        ("1h1m1s", 3661),
        ("250ms", 0.25),
        ("3", 3),
        ("", None),
        ("x", None),
        ("5d", None),
    ],
)
def test_durations(text, seconds):
    """Durations as rate limit headers write them."""
    assert seconds_of(text) == seconds
    assert in_words(f"try again in {text}, please") == (seconds if text not in ("3",) else None)


@given(
    st.integers(100, 599),
    st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-should-retry"]),
        st.text(max_size=20),
    ),
    st.binary(max_size=200) | st.text(max_size=200).map(str.encode),
)
def test_any_refusal_is_judged(status, headers, body):
    """Whatever comes, there is one ending of the closed set and a bounded text."""
    failure = from_http(status, headers, body, now=NOW)

    assert failure.status in set(Status)
    assert len(failure.text) <= 420
    assert failure.retry_after_seconds is None or failure.retry_after_seconds >= 0

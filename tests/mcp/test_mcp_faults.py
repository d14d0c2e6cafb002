"""Errors of a server in the words of the guard: whose fault, sent or not, worth another try."""

from __future__ import annotations

import pytest

from worker.core.errors import ToolError
from worker.guard.verdict import Verdict, rule
from worker.mcp.faults import HTTP_FAILED, MESSAGE_TOO_LONG, ServerAway, fault_of


@pytest.mark.parametrize(
    ("code", "data", "verdict", "error_type", "sent"),
    [
        (-32000, None, Verdict.FAILURE, "connection", True),
        (-32001, None, Verdict.FAILURE, "timeout", True),
        (-32603, None, Verdict.FAILURE, "http_5xx", True),
        (-32601, None, Verdict.FAILURE, "other", False),
        (HTTP_FAILED, {"kind": "connection", "sent": False}, Verdict.FAILURE, "connection", False),
        (HTTP_FAILED, {"kind": "http_5xx", "status": 503}, Verdict.FAILURE, "http_5xx", True),
        (HTTP_FAILED, {"kind": "http_4xx", "status": 401}, Verdict.FAILURE, "http_4xx", True),
        (HTTP_FAILED, {"kind": "http_4xx", "status": 404}, Verdict.FAILURE, "connection", True),
        (
            HTTP_FAILED,
            {"kind": "rate_limited", "status": 429, "retry_after": 3.0},
            Verdict.NEUTRAL,
            "rate_limited",
            True,
        ),
    ],
)
def test_what_the_guard_makes_of_an_error(code, data, verdict, error_type, sent):
    """The breaker hears of a server that is gone or broken; a write knows whether it was sent."""
    ruling = rule(fault_of(code, "something", data))
    assert (ruling.verdict, ruling.error_type, ruling.sent) == (verdict, error_type, sent)
    assert not ruling.business


@pytest.mark.parametrize("code", [-32602, -32600, 1, MESSAGE_TOO_LONG])
def test_what_a_server_says_of_the_arguments_is_for_the_model(code: int):
    """It is no sign of illness."""
    assert isinstance(fault_of(code, "unknown order", None), ToolError)


@pytest.mark.parametrize(
    "words",
    [
        "SSE stream failed: Server-sent event exceeded the 200000 byte limit.",
        "SSE stream failed: the answer has more than 64000 bytes",
    ],
)
def test_an_answer_that_is_too_long_is_not_an_illness(words: str):
    """Asking again would bring the same, so the model is told to ask for less."""
    fault = fault_of(-32000, words, None)
    assert isinstance(fault, ToolError)
    assert "ask for less" in str(fault)


def test_a_hint_to_wait_is_passed_on():
    """A server that asks for patience gets it."""
    data = {"kind": "rate_limited", "status": 429, "retry_after": 3.0}
    assert rule(fault_of(HTTP_FAILED, "slow down", data)).retry_after_seconds == 3.0


def test_being_away_proves_that_nothing_was_sent():
    """So a write may be tried again."""
    ruling = rule(ServerAway("away", retry_after_seconds=2.0))
    assert (ruling.sent, ruling.retryable, ruling.retry_after_seconds) == (False, True, 2.0)


def test_texts_of_servers_are_bounded():
    """What a stranger says is not passed on without a limit."""
    assert len(str(fault_of(-32602, "x" * 100_000, None))) == 2000

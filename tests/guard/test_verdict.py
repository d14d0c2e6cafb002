"""Whose fault it was, as a table."""

from __future__ import annotations

import asyncio
import errno
import socket
from types import SimpleNamespace

import httpx
import pytest
from pybreaker import CircuitBreakerError

from worker.core.errors import (
    AttemptFailed,
    AttemptTimeout,
    BulkheadFull,
    ModelError,
    NotConfigured,
    ToolError,
)
from worker.guard.verdict import Ruling, Verdict, parse_retry_after, rule
from worker.telemetry.signals import ERROR_TYPES

NEUTRAL, FAILURE, SUCCESS = Verdict.NEUTRAL, Verdict.FAILURE, Verdict.SUCCESS
REQUEST = httpx.Request("GET", "http://quotes.test/")


def status(code: int, **headers: str) -> httpx.HTTPStatusError:
    """Return what raise_for_status raises."""
    response = httpx.Response(code, headers=headers, request=REQUEST)
    return httpx.HTTPStatusError("status", request=REQUEST, response=response)


ROWS = [
    # error, verdict, error_type, retryable, business, sent
    (TimeoutError(), FAILURE, "timeout", True, False, True),
    (AttemptTimeout(), FAILURE, "timeout", True, False, True),
    (ConnectionRefusedError(), FAILURE, "connection", True, False, False),
    (ConnectionResetError(), FAILURE, "connection", True, False, True),
    (socket.gaierror(), FAILURE, "connection", True, False, False),
    (OSError(errno.EHOSTUNREACH, "x"), FAILURE, "connection", True, False, False),
    (FileNotFoundError(errno.ENOENT, "x"), FAILURE, "internal", True, False, True),
    (ValueError(), FAILURE, "internal", True, False, True),
    (TypeError(), FAILURE, "internal", False, False, True),
    (ToolError("no such order"), SUCCESS, "other", False, True, True),
    (BulkheadFull(), NEUTRAL, "bulkhead_full", False, False, False),
    (NotConfigured("no URL"), NEUTRAL, "internal", False, False, False),
    (CircuitBreakerError(), NEUTRAL, "circuit_open", False, False, False),
    (asyncio.CancelledError(), NEUTRAL, "cancelled", False, False, True),
    (KeyboardInterrupt(), NEUTRAL, "cancelled", False, False, True),
    (httpx.PoolTimeout("x"), NEUTRAL, "timeout", True, False, False),
    (httpx.ConnectTimeout("x"), FAILURE, "timeout", True, False, False),
    (httpx.ReadTimeout("x"), FAILURE, "timeout", True, False, True),
    (httpx.ConnectError("x"), FAILURE, "connection", True, False, False),
    (httpx.ReadError("x"), FAILURE, "connection", True, False, True),
    (httpx.RemoteProtocolError("x"), FAILURE, "connection", True, False, True),
    (httpx.DecodingError("x"), FAILURE, "other", True, False, True),
    (status(302), SUCCESS, "http_4xx", False, True, True),
    (status(400), SUCCESS, "http_4xx", False, True, True),
    (status(401), FAILURE, "http_4xx", False, False, True),
    (status(403), FAILURE, "http_4xx", False, False, True),
    (status(404), SUCCESS, "http_4xx", False, True, True),
    (status(408), FAILURE, "timeout", True, False, True),
    (status(409), SUCCESS, "http_4xx", False, True, True),
    (status(422), SUCCESS, "http_4xx", False, True, True),
    (status(429), NEUTRAL, "rate_limited", True, False, True),
    (status(500), FAILURE, "http_5xx", True, False, True),
    (status(501), FAILURE, "http_5xx", False, False, True),
    (status(503), FAILURE, "http_5xx", True, False, True),
    (status(529), NEUTRAL, "rate_limited", True, False, True),
    (AttemptFailed(kind="connection", sent=False), FAILURE, "connection", True, False, False),
    (AttemptFailed(kind="http_4xx", status_code=404), SUCCESS, "http_4xx", False, True, True),
    (AttemptFailed(kind="http_5xx", status_code=502), FAILURE, "http_5xx", True, False, True),
    (AttemptFailed(kind="rate_limited"), NEUTRAL, "rate_limited", True, False, True),
    (AttemptFailed(kind="bulkhead_full"), NEUTRAL, "bulkhead_full", True, False, True),
    (ModelError("x", status="timeout", transient=True), FAILURE, "other", True, False, True),
    (ModelError("x", status="auth_error"), FAILURE, "other", False, False, True),
    (ModelError("x", status="bad_request"), SUCCESS, "other", False, True, True),
]


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{type(row[0]).__name__}-{row[1]}-{ROWS.index(row)}"
)
def test_the_default_classifier(row: tuple[object, ...]) -> None:
    """Each kind of error has one verdict, one word, and says whether it may be tried again."""
    error, verdict, error_type, retryable, business, sent = row
    assert isinstance(error, BaseException)

    ruling = rule(error)

    assert (
        ruling.verdict,
        ruling.error_type,
        ruling.retryable,
        ruling.business,
        ruling.sent,
    ) == (verdict, error_type, retryable, business, sent)
    assert ruling.error_type in ERROR_TYPES
    assert ruling.reason


def test_only_httpx_may_use_the_names_of_httpx() -> None:
    """A class of the same name from elsewhere is judged by what it is."""
    own = type("PoolTimeout", (Exception,), {"__module__": "mine"})

    assert rule(own()).verdict is FAILURE


def test_a_tools_own_classifier_goes_first_and_none_means_no_opinion() -> None:
    """What it returns is used as it is; None leaves it to the default."""
    mine = Ruling(NEUTRAL, "other", "maintenance")

    assert rule(ValueError(), classify=lambda _: mine) is mine
    assert rule(TimeoutError(), classify=lambda _: None).error_type == "timeout"


def test_a_classifier_that_raises_counts_as_a_failure() -> None:
    """A mistake in it is never taken for health."""

    def broken(_error: BaseException) -> Ruling:
        raise LookupError

    assert rule(ValueError(), classify=broken).verdict is FAILURE


def test_an_error_whose_attributes_raise_counts_as_a_failure() -> None:
    """The default is total as well."""

    class Nasty(Exception):
        @property
        def response(self) -> object:
            raise RuntimeError

    assert rule(Nasty()).verdict is FAILURE


def test_retry_after_comes_from_the_response() -> None:
    """Whatever the case of the header, and never from garbage."""
    assert rule(status(503, **{"Retry-After": "7"})).retry_after_seconds == 7
    assert rule(status(503)).retry_after_seconds is None
    odd = ValueError()
    odd.response = SimpleNamespace(status_code=503, headers={"retry-after": 7})  # type: ignore[attr-defined]
    assert rule(odd).retry_after_seconds is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 2.5 ", 2.5),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("-3", None),
        ("nan", None),
        ("inf", None),
        ("1e9", None),
        ("٣", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_parse_retry_after(text: str | None, seconds: float | None) -> None:
    """Seconds or a date count from now, a date in the past is now, garbage is nothing."""
    assert parse_retry_after(text, now=10.0) == seconds

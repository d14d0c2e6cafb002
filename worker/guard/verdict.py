"""Was that the dependency's fault?

Pure: from an exception to a `Ruling`, which holds the verdict for the breaker and everything that
retry, fallback and telemetry want to know about the error.

    SUCCESS   the dependency answered, even if the answer is "no such order"
    FAILURE   it did not answer, too late, or with nonsense
    NEUTRAL   says nothing about it: cancelled, not sent, throttled for the first time, our own limit

httpx may be imported in one file only, so its exceptions are known here by module and class name
along the MRO, and its status errors by having `response.status_code`.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import StrEnum

from worker.core.errors import AttemptFailed, AttemptTimeout, ModelError, Rejected, ToolError
from worker.core.limits import Status


class Verdict(StrEnum):
    """What one attempt says about the health of the dependency."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What an attempt's end means.

    `error_type` is a word of telemetry's ERROR_TYPES, None on success; `reason` is a finer word
    for people and results. `business` errors are shown to the model: no retry, no fallback.
    `sent` tells whether the request may have had an effect; False only if that is proven.
    """

    verdict: Verdict
    error_type: str | None = None
    reason: str | None = None
    retryable: bool = False
    business: bool = False
    throttled: bool = False
    sent: bool = True
    status_code: int | None = None
    retry_after_seconds: float | None = None


Classify = Callable[[BaseException], Ruling | None]
"""A tool's own opinion. None: the default decides. One that raises counts as FAILURE."""

SUCCEEDED = Ruling(Verdict.SUCCESS)
CANCELLED = Ruling(Verdict.NEUTRAL, "cancelled", "cancelled")
CLASSIFIER_BROKEN = Ruling(Verdict.FAILURE, "internal", "classifier_error")

_ERROR_TYPE_OF_REJECTION = {
    "bulkhead_full": "bulkhead_full",
    "deadline": "timeout",
    "not_configured": "internal",
    "throttled": "rate_limited",
}  # the rest are the breaker's: circuit_open

# httpx class name: error type, verdict, whether it proves that nothing was sent. The MRO is
# walked from the class to its bases, so the most special name decides.
_HTTPX = {
    "PoolTimeout": ("timeout", Verdict.NEUTRAL, False),  # our own pool was full
    "ConnectTimeout": ("timeout", Verdict.FAILURE, False),
    "TimeoutException": ("timeout", Verdict.FAILURE, True),
    "ConnectError": ("connection", Verdict.FAILURE, False),
    "ReadError": ("connection", Verdict.FAILURE, True),
    "WriteError": ("connection", Verdict.FAILURE, True),
    "RemoteProtocolError": ("connection", Verdict.FAILURE, True),
    "DecodingError": ("other", Verdict.FAILURE, True),
    "TransportError": ("connection", Verdict.FAILURE, True),
}
_NOT_REACHED = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH})
_NETWORK = _NOT_REACHED | {errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT, errno.ECONNABORTED}
# Kinds of an AttemptFailed: it asked us to wait, or a limit of our own was reached.
_NOT_ITS_FAULT = frozenset({"rate_limited", "bulkhead_full"})
# Mistakes in the code of a tool: the same call fails the same way again.
_MISTAKES = (AssertionError, AttributeError, ImportError, NameError, NotImplementedError, TypeError)
_DENIED = frozenset({Status.AUTH_ERROR, Status.QUOTA_EXHAUSTED, Status.RATE_LIMITED})


def rule(error: BaseException, *, classify: Classify | None = None, now: float = 0.0) -> Ruling:
    """Judge the error of an attempt. Total: never raises.

    `now` is the wall clock; it is only needed for a Retry-After that is a date.
    """
    if classify is not None:
        try:
            ruling = classify(error)
        except Exception:
            return CLASSIFIER_BROKEN
        if ruling is not None:
            return ruling
    try:
        return _default(error, now)
    except Exception:  # an exotic exception whose attributes raise
        return CLASSIFIER_BROKEN


def _default(error: BaseException, now: float) -> Ruling:
    match error:
        case asyncio.CancelledError() | KeyboardInterrupt() | SystemExit() | GeneratorExit():
            return CANCELLED
        case ToolError():
            return Ruling(Verdict.SUCCESS, "other", "tool_error", business=True)
        case Rejected():
            return rejection(error)
        case AttemptFailed():
            return _attempt_failed(error)
        case ModelError():
            return _model_error(error)
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return by_status(status, retry_after_seconds=_hint(error, now))
    return _by_name(error) or _builtin(error)


def rejection(error: Rejected) -> Ruling:
    """Rule on a call that was not made, be it by this guard or by one nested inside."""
    return Ruling(
        Verdict.NEUTRAL,
        _ERROR_TYPE_OF_REJECTION.get(error.reason, "circuit_open"),
        error.reason,
        sent=False,
        retry_after_seconds=error.retry_after_seconds,
    )


def by_status(status: int, *, retry_after_seconds: float | None = None) -> Ruling:
    """Rule on an HTTP status that is not a success.

    401, 402, 403 and 407 are failures that no retry mends; 408 and 425 ask for one; 429 and 529
    throttle; every other 4xx is an answer that the model should read.
    """
    made = Ruling(
        Verdict.FAILURE,
        "http_5xx" if status >= 500 else "http_4xx",
        retryable=status != 501,
        status_code=status,
        retry_after_seconds=retry_after_seconds,
    )
    if status in (429, 529):
        made = replace(made, verdict=Verdict.NEUTRAL, error_type="rate_limited", throttled=True)
    elif status == 408:
        made = replace(made, error_type="timeout")
    elif status in (401, 402, 403, 407):
        made = replace(made, retryable=False)
    elif status < 500 and status != 425:
        made = replace(made, verdict=Verdict.SUCCESS, retryable=False, business=True)
    return replace(made, reason=made.error_type)


def parse_retry_after(text: str | None, *, now: float) -> float | None:
    """Read a Retry-After header: seconds or an HTTP date. Garbage and negatives are None."""
    if not text:
        return None
    text = text.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _hint(error: BaseException, now: float) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    text = headers.get("retry-after") if headers is not None else None
    return parse_retry_after(text, now=now) if isinstance(text, str) else None


def _attempt_failed(error: AttemptFailed) -> Ruling:
    if error.status_code is not None and not isinstance(error, AttemptTimeout):
        made = by_status(error.status_code, retry_after_seconds=error.retry_after_seconds)
        return replace(made, retryable=made.retryable and error.retryable, sent=error.sent)
    throttled = error.kind == "rate_limited"
    return Ruling(
        Verdict.NEUTRAL if error.kind in _NOT_ITS_FAULT else Verdict.FAILURE,
        error.kind,
        error.kind,
        retryable=error.retryable,
        throttled=throttled,
        sent=error.sent,
        status_code=error.status_code,
        retry_after_seconds=error.retry_after_seconds,
    )


def _model_error(error: ModelError) -> Ruling:
    """Judge without the model client's classifier: transient or denied is the server's fault."""
    failed = error.transient or error.status in _DENIED
    throttled = error.status == Status.RATE_LIMITED
    return Ruling(
        Verdict.NEUTRAL if throttled else Verdict.FAILURE if failed else Verdict.SUCCESS,
        "rate_limited" if throttled else "other",
        error.status,
        retryable=error.transient,
        business=not failed,
        throttled=throttled,
        retry_after_seconds=error.retry_after_seconds,
    )


def _by_name(error: BaseException) -> Ruling | None:
    for cls in type(error).__mro__:
        home = cls.__module__.partition(".")[0]
        if home in ("httpx", "httpcore", "httpx2") and cls.__name__ in _HTTPX:
            kind, verdict, sent = _HTTPX[cls.__name__]
            return Ruling(verdict, kind, kind, retryable=True, sent=sent)
        if home == "pybreaker" and cls.__name__ == "CircuitBreakerError":
            return Ruling(Verdict.NEUTRAL, "circuit_open", "breaker_open", sent=False)
    return None


def _builtin(error: BaseException) -> Ruling:
    match error:
        case TimeoutError():
            return Ruling(Verdict.FAILURE, "timeout", "timeout", retryable=True)
        case socket.gaierror() | ConnectionRefusedError():
            kind, retryable, sent = "connection", True, False
        case ConnectionError():
            kind, retryable, sent = "connection", True, True
        case OSError() if error.errno in _NETWORK:
            kind, retryable, sent = "connection", True, error.errno not in _NOT_REACHED
        case _:
            kind, retryable, sent = "internal", not isinstance(error, _MISTAKES), True
    return Ruling(Verdict.FAILURE, kind, kind, retryable=retryable, sent=sent)

"""From httpx's exceptions and HTTP statuses to ours: what went wrong, and was it sent at all."""

from __future__ import annotations

import httpx

from worker.core.errors import AttemptFailed, AttemptTimeout

# Nothing of the request can have reached the server.
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def failure_of(error: Exception) -> AttemptFailed:
    """Translate an exception of a transport; the caller raises it `from` the original.

    Every `httpx.RequestError`, `httpx.InvalidURL` and `TimeoutError` is covered; `kind` is
    `bulkhead_full` for a full pool, which is our own limit and says nothing about the server.
    """
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match error:
        case httpx.PoolTimeout():
            return AttemptFailed(text, kind="bulkhead_full", sent=False)
        case httpx.TimeoutException() | TimeoutError():
            return AttemptTimeout(text, sent=not isinstance(error, UNSENT))
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError() | httpx.InvalidURL():
            return AttemptFailed(text, kind="internal", retryable=False, sent=False)
        case httpx.RequestError() | httpx.StreamError():
            return AttemptFailed(text, kind="connection", sent=not isinstance(error, UNSENT))
    return AttemptFailed(text, kind="internal")


def failure_of_status(status: int, text: str = "") -> AttemptFailed:
    """Name the failure that a status of 400 or more stands for.

    408, 409, 429 and 5xx may be tried again; the other 4xx would come back the same.
    """
    if status == 429:
        kind = "rate_limited"
    else:
        kind = "http_5xx" if status >= 500 else "http_4xx"
    retryable = status >= 500 or status in (408, 409, 429)
    return AttemptFailed(
        text or f"HTTP status {status}", kind=kind, status_code=status, retryable=retryable
    )

"""From httpx's exceptions and HTTP statuses to ours: what went wrong, and was it sent at all."""

from __future__ import annotations

import httpx

from worker.core.errors import AttemptFailed, AttemptTimeout

# Nothing of the request can have reached the server.
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class Silence(AttemptTimeout):
    """The server was silent, or could not be reached, for too long; the rest may have time left.

    An AttemptTimeout that is no Silence means that the whole time of the exchange is used up.
    """


def failure_of(error: Exception) -> AttemptFailed:
    """Translate an exception of a transport; the caller raises it `from` the original.

    Every `httpx.RequestError` and `httpx.InvalidURL` is covered. A full pool is `bulkhead_full`:
    our own limit, which says nothing about the server.
    """
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    match error:
        case httpx.PoolTimeout():
            return AttemptFailed(text, kind="bulkhead_full", sent=False)
        case httpx.TimeoutException():
            return Silence(text, sent=not isinstance(error, UNSENT))
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

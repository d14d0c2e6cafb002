"""What may go wrong with a server, in the words of the guard."""

from __future__ import annotations

import re
from typing import Any

from worker.core.errors import AttemptFailed, ToolError, WorkerError

# Codes of our own, outside of those that JSON-RPC and the protocol have taken.
HTTP_FAILED = -31_900  # data: kind, status, retry_after, sent
MESSAGE_TOO_LONG = -31_901

CONNECTION_CLOSED = -32_000
REQUEST_TIMEOUT = -32_001
HEADER_MISMATCH = -32_020
PARSE_ERROR = -32_700
METHOD_NOT_FOUND = -32_601
INTERNAL_ERROR = -32_603

TEXT_CHARS_MAX = 2_000
# What the SDK says, and what we say through it, of an answer over HTTP that is longer than is read.
_TOO_LONG = re.compile(r"exceeded the \d+ byte limit|the answer has more than \d+ bytes")


class LaunchFailed(WorkerError):
    """The server cannot be started."""


class ServerAway(AttemptFailed):
    """The server is not connected to; nothing was sent."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(
            message, kind="connection", retry_after_seconds=retry_after_seconds, sent=False
        )


def fault_of(code: int, message: str, data: Any) -> AttemptFailed | ToolError:
    """Turn an error that came in place of a result into one that the guard can rule on.

    What the server itself says about the arguments is for the model to read. That it is gone,
    busy or broken is for the breaker.
    """
    text = message[:TEXT_CHARS_MAX]
    match code:
        case _ if code == HTTP_FAILED and isinstance(data, dict):
            return _http_fault(text, data)
        case _ if code == MESSAGE_TOO_LONG or _TOO_LONG.search(text):
            return ToolError("the answer is longer than is read; ask for less")
        case _ if code in (CONNECTION_CLOSED, PARSE_ERROR):
            return AttemptFailed(text, kind="connection")
        case _ if code == REQUEST_TIMEOUT:
            return AttemptFailed(text, kind="timeout")
        case _ if code == INTERNAL_ERROR:
            # As with a 5xx: it began, and nobody knows how far it came.
            return AttemptFailed(text, kind="http_5xx")
        case _ if code in (METHOD_NOT_FOUND, HEADER_MISMATCH):
            return AttemptFailed(text, kind="other", retryable=False, sent=False)
    return ToolError(text or "the server refused the call without a reason")


# What a status says of the message, or of how often we come; the rest says that nobody is there who
# speaks the protocol with us: a session that is over, a path that is wrong, a method not allowed.
_TELLING = frozenset({401, 402, 403, 407, 408, 413, 425, 429})


def _http_fault(text: str, data: dict[str, Any]) -> AttemptFailed:
    status, wait = data.get("status"), data.get("retry_after")
    is_telling = isinstance(status, int) and (status in _TELLING or status >= 500)
    return AttemptFailed(
        text,
        kind=str(data.get("kind", "connection")) if is_telling or status is None else "connection",
        status_code=status if is_telling else None,
        retry_after_seconds=wait if isinstance(wait, (int, float)) else None,
        sent=data.get("sent") is not False,
    )

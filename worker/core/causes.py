"""Why a call moves on to another model: a closed set of words, and the endings behind each."""

from __future__ import annotations

from worker.core.limits import Status

ERROR = "error"
CONTEXT_OVERFLOW = "context_overflow"
RATE_LIMIT = "rate_limit"

_CAUSE_OF: dict[str, str] = {
    Status.MODEL_UNAVAILABLE: ERROR,
    Status.TIMEOUT: ERROR,
    Status.PROTOCOL_ERROR: ERROR,
    Status.TOOL_ERRORS: ERROR,  # calls that the server itself could not read
    Status.ERROR: ERROR,
    Status.RATE_LIMITED: RATE_LIMIT,
    Status.QUOTA_EXHAUSTED: "quota",
    Status.CONTEXT_OVERFLOW: CONTEXT_OVERFLOW,
    Status.AUTH_ERROR: "auth",
    Status.BAD_REQUEST: "bad_request",
    Status.CONTENT_FILTERED: "content_filter",
    Status.REFUSED: "refusal",
}
CAUSES = tuple(dict.fromkeys(_CAUSE_OF.values()))
# The others are about this request or about the set-up: another model that answers would hide a
# wrong key, answer what the first one declined, or be asked what cannot fit into it either.
USUAL = frozenset({ERROR, RATE_LIMIT, "quota"})


def cause_of(status: str) -> str | None:
    """Name the cause that an ending is; None when no other model would help (a deadline)."""
    return _CAUSE_OF.get(status)

"""What whoever runs the worker can do about a run that the model server ended."""

from __future__ import annotations

from worker.core.task import Result

_BY_STATUS = {
    "auth_error": "the server does not take the key; see LOOPWORKER_API_KEY",
    "context_overflow": (
        "ask for less, or name a model that stands in:"
        " LOOPWORKER_MODEL_FALLBACKS=MODEL[context_overflow]"
    ),
    "protocol_error": (
        "is LOOPWORKER_MODEL_URL the base URL of an OpenAI-compatible server?"
        " loopworker doctor takes a closer look"
    ),
    "quota_exhausted": "the account of LOOPWORKER_API_KEY has nothing left",
    "rate_limited": "later, or with a model that stands in: LOOPWORKER_MODEL_FALLBACKS",
    "timeout": (
        "a slow server may be given longer:"
        " LOOPWORKER_MODEL_TIMEOUT, LOOPWORKER_MODEL_READ_TIMEOUT, LOOPWORKER_DEADLINE"
    ),
}
_NOT_FOUND = (
    "LOOPWORKER_MODEL_URL is the base URL, mostly with /v1 at its end; is LOOPWORKER_MODEL right?"
)


def advice(result: Result) -> str | None:
    """One sentence for the operator, or None where the result says all there is."""
    status = str(result.status)
    if status == "bad_request" and (result.error or "").startswith("HTTP 404"):
        return _NOT_FOUND
    return _BY_STATUS.get(status)

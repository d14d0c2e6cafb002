"""A task as NATS keeps it: one message of a subject of its own, the row in a header."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

from worker.queues.memory_shelf import Row

_KEPT = (
    *("id", "priority", "number", "enqueued_at", "ready_at", "state", "deliveries", "handings"),
    *("lapses", "woken", "owner", "lease_until", "leased_at", "finished_at", "reason", "history"),
)
HEADER = "Loopworker-Row"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 180  # bytes of an id that go into its subject as they are
_LINE = 500  # characters kept of a line of history: headers are small


def token_of(text: str) -> str:
    """The text as one word of a subject, different for different texts."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > _LONGEST:
        return "h-" + hashlib.sha256(raw).hexdigest()
    return "i-" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def stream_of(name: str) -> str:
    """The stream of a queue; plain names stay readable."""
    return "loopworker_" + _word_of(name)


def intake_of(name: str) -> tuple[str, str]:
    """The stream and the subject that other programs publish to, for tasks of a queue."""
    return f"loopworker_in_{_word_of(name)}", f"loopworker.{_word_of(name)}"


def bare(row: Row) -> Row:
    """A row without its bytes."""
    return replace(row, body=b"") if row.body else row


def header_of(row: Row, proof: str) -> str:
    """All of a row but its bytes, in one line; `proof` is the token of its lease."""
    kept = {key: getattr(row, key) for key in _KEPT}
    kept["reason"] = row.reason[:_LINE]
    kept["history"] = [line[:_LINE] for line in row.history]
    kept["proof"] = proof
    return json.dumps(kept, separators=(",", ":"))


def row_of(header: str, body: bytes) -> tuple[Row, str] | None:
    """The row of a message and the token of its lease; None when it is none of ours."""
    try:
        kept = json.loads(header)
        proof = kept.pop("proof")
        return Row(body=body, **kept), proof
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _word_of(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "=" + token_of(name)

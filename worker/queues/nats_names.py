"""What streams and subjects of a queue on NATS are called."""

from __future__ import annotations

import base64
import hashlib
import re

HEADER = "Loopworker-Row"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 180  # bytes of an id that go into its subject as they are


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


def _word_of(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "=" + token_of(name)

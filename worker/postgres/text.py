"""Text as a column of PostgreSQL takes it."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text with visible escapes for what no column holds: lone surrogates and zero bytes."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\0", "\\x00")

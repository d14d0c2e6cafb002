"""Lines from the bytes of a process that may write anything. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEAD_BYTES, _TAIL_BYTES = 256, 256
# Only where the id stands beside the envelope, so that nothing within a result passes for it.
_ID_AHEAD = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*[,}]')
_ID_BEHIND = re.compile(
    rb',\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})'
    rb'(?:\s*,\s*"jsonrpc"\s*:\s*"2\.0")?\s*\}\s*$'
)


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was dropped; `request_id` is the request that it answered, if that was clear."""

    request_id: int | None


class LineBuffer:
    """Collects bytes into lines of at most `bytes_max`; of a longer one only its ends are kept."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()
        self._head: bytes | None = None  # of a line that is too long

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """Yield the lines that the chunk completes."""
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            self._take(part)
            yield self._line()
        self._take(rest)

    def rest(self) -> bytes | None:
        """Return what the process left unfinished at its end."""
        return bytes(self._buffer) if self._buffer and self._head is None else None

    def _take(self, part: bytes) -> None:
        self._buffer += part
        if self._head is None and len(self._buffer) > self._bytes_max:
            self._head = bytes(self._buffer[:_HEAD_BYTES])
        if self._head is not None:
            del self._buffer[:-_TAIL_BYTES]

    def _line(self) -> bytes | TooLong:
        line, head = bytes(self._buffer), self._head
        self._buffer.clear()
        self._head = None
        if head is None:
            return line
        found = _ID_AHEAD.match(head) or _ID_BEHIND.search(line)
        return TooLong(int(found[1]) if found else None)

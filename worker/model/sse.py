"""Server-sent events from bytes.

Lines end at \\n, \\r or \\r\\n and at nothing else: JSON may hold U+2028, U+0085 or a form feed as
they are. Bytes become text per event, so a network chunk may end inside a character.
"""

from __future__ import annotations

from worker.core.errors import ModelError
from worker.core.limits import Status

MAX_EVENT_BYTES = 8 * 1024 * 1024
DONE = "[DONE]"
_ONE_EVENT = 65_536  # bytes; below it, an event is taken on a short way


class SseParser:
    """Turns the bytes of a stream into the data of its events.

    Feed it whole or byte by byte: the events are the same. Comments, other fields, events without
    data and keep-alives that were sent as data (`data: : keepalive`) are skipped.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._short = min(max_event_bytes, _ONE_EVENT)
        self._rest: list[bytes] = []  # a line that has not ended yet
        self._rest_size = 0
        self._data: list[bytes] = []  # the data lines of an event that has not ended yet
        self._size = 0
        self._after_return = False  # the last byte was \r: a \n that follows belongs to it
        self._begun = False

    def feed(self, chunk: bytes) -> list[str]:
        """Take the next bytes; return the data of every event that they complete.

        Raises ModelError when one event is larger than allowed.
        """
        if chunk[:7] == b"data: {" and self._is_one_event(chunk):
            self._begun = True
            return [chunk[6:-2].decode("utf-8", "replace")]
        if self._after_return and chunk:
            self._after_return = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        if self._rest:
            chunk = b"".join(self._rest) + chunk
            self._rest.clear()
            self._rest_size = 0
        lines = chunk.split(b"\n")
        self._keep(lines.pop())
        return self._events(lines)

    def close(self) -> list[str]:
        """The stream has ended: return the data of a last event without its blank line."""
        lines = [b"".join(self._rest), b""]
        self._rest.clear()
        self._rest_size = 0
        return self._events(lines)

    def _is_one_event(self, chunk: bytes) -> bool:
        # Most servers write, and most networks deliver, one event at a time.
        return (
            len(chunk) < self._short
            and chunk.endswith(b"\n\n")
            and not self._rest
            and not self._data
            and chunk.count(b"\n") == 2
            and b"\r" not in chunk
        )

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._rest.append(piece)
            self._rest_size += len(piece)
            self._check(self._rest_size)

    def _check(self, size: int) -> None:
        if size > self._max:
            raise ModelError(
                f"one event of the stream is larger than {self._max} bytes",
                status=Status.PROTOCOL_ERROR,
            )

    def _events(self, lines: list[bytes]) -> list[str]:
        if not self._begun:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            self._begun = True
        found: list[str] = []
        data = self._data
        for line in lines:
            if line[:6] == b"data: ":
                data.append(line[6:])
            elif not line:
                if data:
                    self._finish(found)
                continue
            elif line[:5] == b"data:":
                data.append(line[5:])
            elif line == b"data":
                data.append(b"")
            else:
                continue
            self._size += len(line)
            if self._size > self._max:
                self._check(self._size)
        return found

    def _finish(self, found: list[str]) -> None:
        data = self._data
        text = (data[0] if len(data) == 1 else b"\n".join(data)).decode("utf-8", "replace")
        data.clear()
        self._size = 0
        if text and not text.startswith(":") and not text.isspace():
            found.append(text)

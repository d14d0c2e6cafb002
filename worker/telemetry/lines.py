"""One event as one line of JSON, whatever is in it.

The fast path is one call of orjson and one search for secrets. Anything unusual (a lone surrogate,
a number of 100 bits, a cycle, an object whose repr raises, a secret, a line that is too long) goes
the slow way: the values are made plain, masked and bounded, and rendered again. If even that fails,
a minimal line says so. Logging never raises.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

import orjson

from worker.telemetry.redact import Redactor, clean

LINE_BYTES_MAX = 65_536  # most collectors cut or drop what is longer
CUT_FIELD_CHARACTERS_MAX = 1_024
FRAMES_MAX = 20
CHAIN_MAX = 5
_KEPT = ("timestamp", "level", "event", "logger", "service", "version", "worker_id")


class LineRenderer:
    """Turns an event into the bytes of a line; counts the lines that needed the last resort."""

    def __init__(self, redactor: Redactor, *, console: bool = False) -> None:
        self.redactor = redactor
        self.console = console
        self.lost = 0

    def render_after(self, head: str, fields: dict[str, Any]) -> bytes | None:
        """Return a line that begins with `head`, which is known to be clean; the fast path.

        None when the fields hold anything unusual: then the whole has to be rendered.
        """
        try:
            body = orjson.dumps(fields)
        except (TypeError, ValueError, RecursionError, UnicodeError):
            return None
        if self.redactor.line_is_suspect(body) or len(head) + len(body) > LINE_BYTES_MAX:
            return None
        line = head.encode() + body[1:] if fields else head[:-1].encode() + b"}"
        return (_for_people(line) if self.console else line) + b"\n"

    def render_object(self, fields: dict[str, Any]) -> bytes:
        """Return an object as JSON without its secrets. Never raises."""
        try:
            line = orjson.dumps(fields)
        except (TypeError, ValueError, RecursionError, UnicodeError):
            return self._render_plain(fields)
        return self._render_plain(fields) if self.redactor.line_is_suspect(line) else line

    def render(self, event: dict[str, Any]) -> bytes:
        """Return the line with its end. Never raises."""
        try:
            line = orjson.dumps(event)
        except (TypeError, ValueError, RecursionError, UnicodeError):
            line = self._render_plain(event)
        if self.redactor.line_is_suspect(line):
            line = self._render_plain(event)
        if len(line) > LINE_BYTES_MAX:
            line = self._render_short(event)
        return (_for_people(line) if self.console else line) + b"\n"

    def _render_plain(self, event: dict[str, Any]) -> bytes:
        try:
            return orjson.dumps(self.redactor.value(event, limit=LINE_BYTES_MAX // 4))
        except Exception as error:  # the last resort: a foreign value did something unheard of
            return self._render_minimal(event, error)

    def _render_short(self, event: dict[str, Any]) -> bytes:
        short = self.redactor.value(event, limit=CUT_FIELD_CHARACTERS_MAX)
        short["line_cut"] = True
        line = orjson.dumps(short)
        if len(line) <= LINE_BYTES_MAX:
            return line
        flat = {
            key: value if isinstance(value, str | int | float | None) else "…"
            for key, value in list(short.items())[:50]
        }
        return orjson.dumps(flat)

    def _render_minimal(self, event: dict[str, Any], error: Exception) -> bytes:
        self.lost += 1
        line = {key: clean(value) for key in _KEPT if isinstance(value := event.get(key), str)}
        line["unrendered"] = type(error).__name__
        return orjson.dumps(line)


class Clock:
    """RFC 3339 with milliseconds in UTC; the part up to the second is made once a second."""

    def __init__(self) -> None:
        self._cached = (0, "")

    def text(self, seconds: float) -> str:
        """Return e.g. 2026-12-02T10:00:00.123Z."""
        millis = int(seconds * 1000)
        whole, fraction = divmod(millis, 1000)
        second, prefix = self._cached
        if second != whole:
            prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
            self._cached = (whole, prefix)
        return f"{prefix}.{fraction:03d}Z"


class RateLimits:
    """At most so many lines of one event in each window; what was left out is told later."""

    def __init__(self, per_window: dict[str, int], *, window_seconds: float = 10.0) -> None:
        self._per_window = per_window
        self._window_seconds = window_seconds
        self._windows: dict[str, list[float]] = {}  # start, written, suppressed
        self._lock = threading.Lock()

    def admit(self, event: str, *, limit: int | None = None) -> int | None:
        """Return how many were suppressed before this line, or None when this one is, too."""
        allowed = self._per_window.get(event) if limit is None else limit
        if allowed is None:
            return 0
        now = time.monotonic()
        with self._lock:
            window = self._windows.setdefault(event, [now, 0, 0])
            if now - window[0] >= self._window_seconds:
                window[0], window[1] = now, 0
            if window[1] >= allowed:
                window[2] += 1
                return None
            window[1] += 1
            suppressed, window[2] = int(window[2]), 0
        return suppressed

    def left_out(self) -> dict[str, int]:
        """Return what was suppressed and not yet told, and forget it."""
        with self._lock:
            left = {event: int(window[2]) for event, window in self._windows.items() if window[2]}
            self._windows.clear()
        return left


def exception_fields(error: BaseException) -> dict[str, Any]:
    """Describe an exception and its causes without local variables (they hold secrets).

    At most 20 frames each and 5 links of the chain; a chain that bites its tail ends there.
    """
    seen: set[int] = set()
    described: dict[str, Any] = {}
    place = described
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < CHAIN_MAX:
        seen.add(id(current))
        place.update(
            type=type(current).__name__,
            message=_message(current),
            frames=_frames(current.__traceback__),
        )
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)
        if current is not None and id(current) not in seen and len(seen) < CHAIN_MAX:
            place["cause"] = {}
            place = place["cause"]
    return described


def _message(error: BaseException) -> str:
    try:
        return clean(str(error))[:2000]
    except Exception as failure:  # a foreign __str__ may do anything
        return f"<str raised {type(failure).__name__}>"


def _frames(traceback: TracebackType | None) -> list[str]:
    frames: list[str] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"{code.co_filename}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return frames[-FRAMES_MAX:]


def _for_people(line: bytes) -> bytes:
    fields = orjson.loads(line)
    clock = str(fields.pop("timestamp", ""))[11:23]
    level, event = str(fields.pop("level", "")), str(fields.pop("event", ""))
    for name in ("logger", "service", "version", "worker_id", "trace_id", "span_id", "loop_id"):
        fields.pop(name, None)
    rest = b" ".join(key.encode() + b"=" + orjson.dumps(value) for key, value in fields.items())
    return f"{clock} {level:<8} {event:<24} ".encode() + rest

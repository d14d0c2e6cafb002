"""Signals as structured log lines.

The path of a line: signal -> fields (`logevents.py`, `logpoints.py`) -> structlog (level, ids, time)
-> bytes (`lines.py`, where secrets leave) -> outbox (`outbox.py`) -> one thread that writes. The
caller never waits for the outlet. Lines of tools and of libraries that use structlog or logging
take the same path, their fields under `fields` so that they cannot pose as ours.
"""

from __future__ import annotations

import errno
import functools
import io
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TextIO

import structlog

from worker.telemetry.lines import Clock, LineRenderer, RateLimits, exception_fields
from worker.telemetry.logevents import RATE_LIMITS, SETTLED, STARTED, Handler
from worker.telemetry.logpoints import TOLD
from worker.telemetry.outbox import DeliveryFailed, Outbox, OutboxLimits
from worker.telemetry.redact import Redactor
from worker.telemetry.signals import Operation, Signal
from worker.telemetry.tell import SCOPE, Scope

Fields = MutableMapping[str, Any]

OWN_LOGGER = "loopworker"
# Eight megabytes are some 15,000 lines, a few seconds of a busy worker. 20 ms of delay cost nothing
# to whoever reads and spare the loop thousands of thread switches a second.
OUTBOX_LIMITS = OutboxLimits(capacity=8 * 2**20, batch=500, delay_seconds=0.02)
FOREIGN_LINES_MAX = 100  # per logger and ten seconds
FOREIGN_CHARACTERS_MAX = 4_000
# They tell each request, or each start, at info; our own lines say it better.
CHATTY = (
    *("httpx", "httpx2", "httpcore", "httpcore2"),
    *("uvicorn.access", "uvicorn.error", "asyncio", "urllib3"),
)
# Its exporters complain with a stack trace per batch, which the outbox of spans counts and tells.
# The SDK of MCP writes messages and stack traces of a server's mistakes; we tell what they mean.
# Drivers of queues print a stack trace for each connection that is cut; every call says it itself.
MUTED = ("opentelemetry", "mcp", "client", "aio_pika", "aiormq", "nats")
_METHODS = {level: logging.getLevelName(level).lower() for level in (10, 20, 30, 40, 50)}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How lines look and what they say of their worker."""

    level: str = "info"
    form: str = "json"  # or console
    version: str = ""
    worker_id: str = ""
    service: str = "loopworker"


class Logs:
    """The listener that writes log lines, and the place other loggers are led to.

    `stream` is where lines go: standard output for `run`; the command line chooses. `ids` returns
    the trace and span id of the moment (see spans.py). `on_drop(reason, count)` hears of lost lines.
    """

    def __init__(
        self,
        redactor: Redactor,
        *,
        options: LogOptions | None = None,
        stream: TextIO | None = None,
        ids: Callable[[], tuple[str, str] | None] | None = None,
        on_drop: Callable[[str, int], None] | None = None,
    ) -> None:
        self.options = options or LogOptions()
        self.threshold = logging.getLevelNamesMapping()[self.options.level.upper()]
        self.renderer = LineRenderer(redactor, console=self.options.form == "console")
        self.outlet = Outlet(stream if stream is not None else sys.stdout)
        self.outbox = Outbox(
            "logs", self._deliver, limits=OUTBOX_LIMITS, weigh=len, on_drop=on_drop
        )
        self._redactor = redactor
        self._ids = ids
        self._clock = Clock()
        self._limits = RateLimits(RATE_LIMITS)
        self._reported = 0
        self._installed: _Installed | None = None
        self._scope_text = functools.lru_cache(maxsize=4_096)(self._render_scope)
        self._own = self._make_logger([self._line], _OwnLines)

    def __repr__(self) -> str:
        return f"Logs({self.options.level}, {self.options.form}; {self.outbox!r})"

    # --- listener ---------------------------------------------------------------------------------

    def hears(self, kind: type) -> bool:
        """Only what has a line that this level writes."""
        entries = (table.get(kind) for table in (TOLD, STARTED, SETTLED))
        return any(entry is not None and entry[1] >= self.threshold for entry in entries)

    def told(self, signal: Signal) -> None:
        """Write the line of a signal, if it has one."""
        self._pass(TOLD.get(type(signal)), signal)

    def started(self, operation: Operation) -> None:
        """Write the first line of an operation, if it has one."""
        self._pass(STARTED.get(type(operation)), operation)

    def settled(self, operation: Operation, token: Any) -> None:
        """Write the last line of an operation, if it has one."""
        self._pass(SETTLED.get(type(operation)), operation)

    def _pass(self, entry: tuple[Handler, int] | None, subject: Any) -> None:
        if entry is not None and entry[1] >= self.threshold:
            entry[0](self, subject)

    # --- what the functions of logevents.py write with --------------------------------------------

    def write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        """Write one line, if the level is on and its event is not told too often."""
        if level < self.threshold:
            return
        suppressed = self._limits.admit(event)
        if suppressed is None:
            return
        if suppressed:
            fields["suppressed"] = suppressed
        fields["event"] = event
        self._own.write(_METHODS[level], fields)

    def content(self, text: str) -> str:
        """Return what LOG_CONTENT allows of the text."""
        return self._redactor.content(text)

    def moment(self, seconds: float) -> str:
        """Return a time as RFC 3339."""
        return self._clock.text(seconds)

    # --- loggers for others -----------------------------------------------------------------------

    def logger(self, name: str) -> Any:
        """Return a structlog logger whose lines join ours; for tools (`ctx.log`)."""
        return self._make_logger([self._prepare_foreign, self._render]).bind(logger=name)

    def install(self) -> None:
        """Lead structlog, logging and warnings of the whole process here, until `close`."""
        if self._installed is None:
            self._installed = _Installed(self)

    def close(self, timeout_seconds: float = 2.0) -> None:
        """Write what waits, within the budget; then take no more lines. Idempotent."""
        if self._installed is not None:
            self._installed.undo()
            self._installed = None
        left_out = self._limits.left_out()
        if left_out:
            self.write(logging.INFO, "telemetry.suppressed", {"events": left_out})
        self.outbox.close(timeout_seconds)

    def _make_logger(self, processors: list[Any], kind: type[Any] | None = None) -> Any:
        return structlog.wrap_logger(
            _Put(self.outbox),
            processors=processors,
            wrapper_class=kind or structlog.make_filtering_bound_logger(self.threshold),
            context_class=dict,
            cache_logger_on_first_use=True,
        ).bind()

    # --- processors: what structlog hands a line to -----------------------------------------------

    def _line(self, _: Any, method: str, fields: Any) -> bytes:
        """Render a line of ours: the part that changes with each line only, the rest is kept."""
        event, scope = fields.pop("event"), SCOPE.get()
        for name in ("task_id", "session_id"):
            if name in fields:
                if fields[name] != getattr(scope, name):
                    return self.renderer.render({**self._base(method, event, OWN_LOGGER), **fields})
                del fields[name]
        trace, span = (self._ids() if self._ids is not None else None) or ("", "")
        ids = f'"trace_id":"{trace}","span_id":"{span}",' if trace else ""
        head = (
            f'{{"timestamp":"{self._clock.text(time.time())}","level":"{method}",'
            f'"event":"{event}","logger":"{OWN_LOGGER}",{self._scope_text(scope)}{ids}'
        )
        line = self.renderer.render_after(head, fields)
        return line or self.renderer.render({**self._base(method, event, OWN_LOGGER), **fields})

    def _prepare_foreign(self, _: Any, method: str, fields: Fields) -> dict[str, Any]:
        message = fields.pop("event", "")
        name = str(fields.pop("logger", "structlog"))
        suppressed = self._limits.admit(f"log.message {name}", limit=FOREIGN_LINES_MAX)
        if suppressed is None:
            raise structlog.DropEvent
        line = self._base(method, "log.message", name)
        text = message if isinstance(message, str) else self._redactor.value(message)
        line["message"] = str(text)[:FOREIGN_CHARACTERS_MAX]
        if suppressed:
            line["suppressed"] = suppressed
        error = _exception_in(fields.pop("exc_info", None))
        if error is not None:
            line["exception"] = exception_fields(error)
        if fields:
            line["fields"] = fields
        return line

    def _base(self, method: str, event: str, logger: str) -> dict[str, Any]:
        line = {
            "timestamp": self._clock.text(time.time()),
            "level": method,
            "event": event,
            "logger": logger,
            **self._about(SCOPE.get()),
        }
        ids = self._ids() if self._ids is not None else None
        if ids is not None:
            line["trace_id"], line["span_id"] = ids
        return line

    def _about(self, scope: Scope) -> dict[str, str]:
        options = self.options
        about = {
            "service": options.service,
            "version": options.version,
            "worker_id": options.worker_id,
        }
        if scope.task_id is not None:
            about["task_id"] = scope.task_id
            about["loop_id"] = scope.loop_id or scope.task_id
        if scope.session_id is not None:
            about["session_id"] = scope.session_id
        return about

    def _render_scope(self, scope: Scope) -> str:
        rendered = self.renderer.render_object(self._about(scope)).decode()
        return rendered[1:-1] + ","

    def _render(self, _: Any, __: str, line: Fields) -> bytes:
        return self.renderer.render(dict(line))

    def _deliver(self, batch: list[bytes]) -> None:
        self.outlet.write(b"".join(batch), len(batch))
        lost = self.outbox.dropped - self._reported
        if lost:  # the outlet is free again: say once what it cost
            self._reported += lost
            line = self._base("warning", "telemetry.dropped", OWN_LOGGER)
            line |= {"signal": "logs", "reason": "queue_full", "count": lost}
            self.outlet.write(self.renderer.render(line), 0)


class Outlet:
    """Writes bytes to a stream, past its buffer where it has a descriptor.

    A thread that hangs inside Python's buffered writer would make the interpreter abort at exit;
    one that hangs in the system call is simply left behind.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor: int | None = None
        try:
            stream.flush()
            self._descriptor = stream.fileno()
        except (OSError, ValueError, AttributeError, io.UnsupportedOperation):
            pass  # a stream of text in memory

    def write(self, data: bytes, count: int) -> None:
        """Write everything; blocks as long as the reader does. Raises DeliveryFailed."""
        try:
            if self._descriptor is None:
                self._stream.write(data.decode())
                self._stream.flush()
            else:
                self._write_all(self._descriptor, memoryview(data))
        except (OSError, ValueError) as error:  # a closed pipe, a full disk
            raise DeliveryFailed("export_failed", count) from error

    @staticmethod
    def _write_all(descriptor: int, data: memoryview) -> None:
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
                # Somebody made the pipe non-blocking; it is our own thread that waits.
                select.select([], [descriptor], [], 1.0)


class _Put:
    """The innermost logger of structlog: takes bytes, never waits."""

    def __init__(self, outbox: Outbox) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = outbox.put
        self.msg = self.log = self.exception = self.warn = self.fatal = outbox.put


class _OwnLines(structlog.BoundLoggerBase):
    """structlog's logger for our own lines: nothing is bound, and the level has been looked at.

    Binding and filtering, as its general loggers do them for each line, cost as much as rendering.
    """

    def write(self, method: str, fields: Any) -> None:
        """Hand a line to the processors and on; `fields` are taken over, the event among them."""
        for process in self._processors:
            fields = process(self._logger, method, fields)
        getattr(self._logger, method)(fields)


class _StdlibHandler(logging.Handler):
    """Leads records of the standard library's logging into the same lines."""

    def __init__(self, logs: Logs) -> None:
        super().__init__()
        self._logs = logs
        self._loggers: dict[str, Any] = {}
        self._inside = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; one that cannot be formatted is told by its template."""
        if getattr(self._inside, "writing", False):
            return  # a line about writing a line
        self._inside.writing = True
        try:
            self._write(record)
        finally:
            self._inside.writing = False

    def _write(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            message = str(record.msg)
        logger = self._loggers.get(record.name)
        if logger is None and len(self._loggers) < 500:
            logger = self._loggers[record.name] = self._logs.logger(record.name)
        logger = logger or self._logs.logger("logging")
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        for name in ("event", "logger", "level", "exc_info"):
            extra.pop(name, None)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            extra["exc_info"] = error
        logger.bind(**extra).log(record.levelno - record.levelno % 10, message)


class _Installed:
    """What `install` changed in the process, so that `close` can change it back."""

    def __init__(self, logs: Logs) -> None:
        root = logging.getLogger()
        self._handler = _StdlibHandler(logs)
        self._before = (root.level, root.handlers[:])
        self._levels = {name: logging.getLogger(name).level for name in CHATTY + MUTED}
        root.handlers[:] = [self._handler]
        root.setLevel(logs.threshold)
        for name in CHATTY:
            logging.getLogger(name).setLevel(max(logging.WARNING, logs.threshold))
        for name in MUTED:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        logging.captureWarnings(True)
        structlog.configure(
            processors=[logs._prepare_foreign, logs._render],
            wrapper_class=structlog.make_filtering_bound_logger(logs.threshold),
            context_class=dict,
            logger_factory=lambda *_: _Put(logs.outbox),
            cache_logger_on_first_use=False,
        )

    def undo(self) -> None:
        """Put everything back as it was."""
        root = logging.getLogger()
        level, handlers = self._before
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, old in self._levels.items():
            logging.getLogger(name).setLevel(old)
        logging.captureWarnings(False)
        structlog.reset_defaults()


def _exception_in(exc_info: Any) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple) and len(exc_info) == 3:
        return exc_info[1] if isinstance(exc_info[1], BaseException) else None
    return sys.exc_info()[1] if exc_info else None

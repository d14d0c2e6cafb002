"""Operations as OpenTelemetry spans: who is whose child, and what context stands meanwhile.

The tree is `process {queue}` > `invoke_agent` > `agent.step` > `chat {model}` and
`execute_tool {tool}`, with the settling call beside the run. A span costs the loop a few
microseconds: ids, and a context that is set and set back. What it looks like (`spanshapes.py`) is
worked out in the exporting thread (`tracing.py`), for sampled spans only. Without an exporter the
ids exist all the same, for log lines, results and outgoing requests.

Spans of tools, made with OpenTelemetry's own API, become children of ours: our spans stand in its
context.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    get_current_span,
    set_span_in_context,
)

from worker.telemetry import signals as s
from worker.telemetry.spanshapes import SHAPES, is_traced
from worker.telemetry.tell import Telemetry

EVENTS_MAX = 128  # per span, as OpenTelemetry's own default
TRACESTATE_CHARACTERS_MAX = 512
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED, _NOT_SAMPLED = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)
_NO_STATE = TraceState()
_POINTS = frozenset({s.BreakerChanged, s.AttemptEnded, s.RetryScheduled, s.FallbackUsed})

# (trace id, was the remote parent sampled? None without one) -> is this trace sampled?
Sampler = Callable[[int, bool | None], bool]


class LoopSpan(NonRecordingSpan):
    """The span of one operation, as OpenTelemetry's API sees it.

    It keeps what a tool's author may add (attributes, events) for the exporting thread, and nothing
    when it is not recorded.
    """

    def __init__(
        self,
        context: SpanContext,
        operation: s.Operation,
        *,
        parent: SpanContext | None,
        before: Context,
        recording: bool,
    ) -> None:
        super().__init__(context)
        self.operation = operation
        self.parent = parent
        self.before = before
        self.recording = recording
        self.link: SpanContext | None = None
        self.start_ns = time.time_ns() if recording else 0
        self.end_ns = 0
        self.extra: dict[str, Any] = {}
        self.events: list[tuple[int, Any, Any]] = []  # (ns, signal or name, attributes)
        self.hex: tuple[str, str] | None = None

    def ids(self) -> tuple[str, str]:
        """Return trace and span id as text."""
        if self.hex is None:
            context = self._context
            self.hex = (f"{context.trace_id:032x}", f"{context.span_id:016x}")
        return self.hex

    def is_recording(self) -> bool:
        """Say whether additions are kept."""
        return self.recording

    def set_attribute(self, key: str, value: Any) -> None:
        """Keep an attribute that a tool's author adds; at most 128."""
        if self.recording and len(self.extra) < EVENTS_MAX:
            self.extra[key] = value

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Keep several attributes."""
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Keep an event; at most 128."""
        if self.recording and len(self.events) < EVENTS_MAX:
            self.events.append((timestamp or time.time_ns(), name, attributes))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Keep the kind of an exception; its text may hold anything and is left to the log."""
        named = {"exception.type": type(exception).__name__, **(attributes or {})}
        self.add_event("exception", named, timestamp)


class Spans:
    """The listener that opens and closes spans.

    `record` takes each sampled span that has ended (None: nothing is exported). `continue_first`
    says whether a first delivery continues the trace of whoever submitted the task; a redelivery
    never does. `enabled` False hands on the caller's context and makes no ids.
    """

    def __init__(
        self,
        record: Callable[[LoopSpan], object] | None = None,
        *,
        sampler: Sampler | None = None,
        continue_first: bool = True,
        enabled: bool = True,
    ) -> None:
        self._record = record
        self._sampler = sampler or _always
        self._continue_first = continue_first
        self._enabled = enabled

    def __repr__(self) -> str:
        state = "exporting" if self._record is not None else "ids only"
        return f"Spans({state if self._enabled else 'disabled'})"

    def install(self, telemetry: Telemetry) -> None:
        """Let runner and clients ask for the trace of the moment."""
        telemetry.trace_headers = trace_headers
        telemetry.trace_id = trace_id

    def hears(self, kind: type) -> bool:
        """Operations that have a span, and the points that are shown on one."""
        if not self._enabled:
            return kind is s.TaskProcessing
        return kind in SHAPES or kind in _POINTS

    def told(self, signal: s.Signal) -> None:
        """Note a change of a breaker, an attempt, … on the span of the moment."""
        if self._record is not None and type(signal) in _POINTS:
            span = get_current_span()
            if isinstance(span, LoopSpan) and span.recording and len(span.events) < EVENTS_MAX:
                span.events.append((time.time_ns(), signal, None))

    def started(self, operation: s.Operation) -> LoopSpan | Context | None:
        """Open the span of an operation and make it the current one."""
        if not is_traced(operation):
            return None
        before = otel_context.get_current()
        if type(operation) is s.TaskProcessing:
            return self._started_task(operation, before)
        if not self._enabled:
            return None
        current = get_current_span(before)
        parent = current.get_span_context() if current is not INVALID_SPAN else None
        if parent is None or not parent.is_valid:
            return self._open(operation, before, None)
        return self._open(operation, before, parent)

    def settled(self, operation: s.Operation, token: Any) -> None:
        """Close the span and set back the context that stood before it."""
        if token is None:
            return
        if not isinstance(token, LoopSpan):
            otel_context.attach(token)
            return
        # Attach what was, instead of detaching a token: that would log an error when the operation
        # is settled elsewhere (an async generator closed by another task). There, leave it alone.
        if get_current_span() is token:
            otel_context.attach(token.before)
        if token.recording and self._record is not None:
            token.end_ns = token.start_ns + int(operation.duration_seconds * 1e9)
            self._record(token)

    def _started_task(self, task: s.TaskProcessing, before: Context) -> LoopSpan | Context | None:
        remote = read_traceparent(task.traceparent, task.tracestate)
        if not self._enabled:
            if remote is not None:
                otel_context.attach(set_span_in_context(NonRecordingSpan(remote), before))
                return before
            return None
        goes_on = remote is not None and self._continue_first and not task.redelivered
        span = self._open(task, before, remote if goes_on else None)
        span.link = remote
        return span

    def _open(
        self, operation: s.Operation, before: Context, parent: SpanContext | None
    ) -> LoopSpan:
        if parent is None:
            trace, state = random.getrandbits(128) or 1, _NO_STATE
            sampled = self._sampler(trace, None)
        else:
            trace, state = parent.trace_id, parent.trace_state
            sampled = bool(parent.trace_flags & TraceFlags.SAMPLED)
            if parent.is_remote:
                sampled = self._sampler(trace, sampled)
        flags = _SAMPLED if sampled else _NOT_SAMPLED
        context = SpanContext(trace, random.getrandbits(64) or 1, False, flags, state)
        span = LoopSpan(
            context,
            operation,
            parent=parent,
            before=before,
            recording=sampled and self._record is not None,
        )
        otel_context.attach(set_span_in_context(span, before))
        return span


def current_ids() -> tuple[str, str] | None:
    """Return trace and span id of the moment as text, for log lines."""
    span = get_current_span()
    if isinstance(span, LoopSpan):
        return span.ids()
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def exemplar() -> dict[str, str] | None:
    """Return the ids of the moment if that span will be found in the trace store."""
    span = get_current_span()
    if not span.is_recording():
        return None
    ids = current_ids()
    return None if ids is None else {"trace_id": ids[0], "span_id": ids[1]}


def trace_id() -> str | None:
    """Return the trace id of the moment."""
    ids = current_ids()
    return None if ids is None else ids[0]


def trace_headers() -> dict[str, str]:
    """Return the headers that hand the trace of the moment on; baggage never leaves."""
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    flags = context.trace_flags & 0xFF
    headers = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"}
    if context.trace_state:
        headers["tracestate"] = context.trace_state.to_header()
    return headers


def read_traceparent(traceparent: object, tracestate: object = None) -> SpanContext | None:
    """Read a task's trace context; whatever is not one is ignored, as the standard wants."""
    if not isinstance(traceparent, str):
        return None
    found = _TRACEPARENT.fullmatch(traceparent.strip().lower())
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace, span = int(found[2], 16), int(found[3], 16)
    if not trace or not span:
        return None
    state = _NO_STATE
    if isinstance(tracestate, str) and 0 < len(tracestate) <= TRACESTATE_CHARACTERS_MAX:
        state = TraceState.from_header([tracestate])
    return SpanContext(trace, span, True, TraceFlags(int(found[4], 16)), state)


def _always(trace: int, parent_sampled: bool | None) -> bool:
    return True if parent_sampled is None else parent_sampled

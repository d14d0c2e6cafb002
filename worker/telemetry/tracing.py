"""Where spans go: the exporter of the standard OTEL_* variables, behind an outbox.

OpenTelemetry's own batch processor ignores its time-outs at flush and shutdown (measured: 30 s with
a dead collector) and does not say what it dropped, so spans wait in the same bounded `Outbox` as
log lines, whose shutdown has a budget and whose losses are counted. The SDK and the exporter are
imported only when something is exported.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from worker.core.errors import ConfigError
from worker.telemetry.outbox import DeliveryFailed, Outbox, OutboxLimits
from worker.telemetry.redact import Redactor, clean
from worker.telemetry.spans import LoopSpan, Sampler, Spans
from worker.telemetry.spanshapes import Shape, point, shape

EXPORT_TIMEOUT_SECONDS = 3.0  # OpenTelemetry's 10 s would outlive most termination graces
# Runs are many and each has a dozen spans, hence more room than OpenTelemetry's 2,048.
QUEUE_SIZE, BATCH_SIZE, DELAY_SECONDS = 8192, 512, 5.0
ATTRIBUTE_CHARACTERS_MAX = 4_096
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_SAMPLERS = ("always_on", "always_off", "traceidratio")


@dataclass(frozen=True, slots=True)
class TracingOptions:
    """What spans say of their worker, and what starts a trace (`parent` or `link`)."""

    version: str = ""
    worker_id: str = ""
    service: str = "loopworker"
    queue_mode: str = "parent"


class Tracing:
    """The listener for spans and the way out for them; see `build_tracing`."""

    def __init__(self, spans: Spans, outbox: Outbox | None = None, exporter: Any = None) -> None:
        self.spans = spans
        self.outbox = outbox
        self.exporter = exporter
        self.provider: Any = None

    def __repr__(self) -> str:
        return f"Tracing({self.spans!r}, {self.outbox!r})"

    def install_globally(self) -> None:
        """Let spans that tools make with OpenTelemetry's API go the same way as ours."""
        if self.provider is not None:
            from opentelemetry import trace

            trace.set_tracer_provider(self.provider)

    def close(self, timeout_seconds: float = 3.0) -> None:
        """Export what waits, within the budget; a collector that hangs is left alone. Blocks."""
        if self.outbox is None:
            return
        self.outbox.close(timeout_seconds)
        # Its shutdown only raises a flag, but a foreign one might wait.
        last = threading.Thread(target=self._shut_exporter, daemon=True)
        last.start()
        last.join(0.2)

    def _shut_exporter(self) -> None:
        try:
            self.exporter.shutdown()
        except Exception:  # foreign code, and the worker is about to end
            return


def build_tracing(
    redactor: Redactor,
    *,
    options: TracingOptions | None = None,
    on_drop: Callable[[str, int], None] | None = None,
    exporter: Any = None,
) -> Tracing:
    """Build spans from the OTEL_* variables of the environment.

    Without an endpoint nothing is exported, but ids exist. `exporter` takes the place of the one
    that the variables name (tests). Raises ConfigError for a value that is not understood, and when
    an endpoint is set but the extra `otlp` is not installed.
    """
    options = options or TracingOptions()
    continues = options.queue_mode == "parent"
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Tracing(Spans(continue_first=continues, enabled=False))
    sampler = read_sampler(os.environ)
    exporter = exporter or _exporter(os.environ)
    if exporter is None:
        return Tracing(Spans(sampler=sampler, continue_first=continues))
    encoder = SpanMaker(redactor, options)

    def deliver(batch: list[Any]) -> None:
        outcome = exporter.export([encoder.make(span) for span in batch])
        if getattr(outcome, "name", "SUCCESS") != "SUCCESS":
            raise DeliveryFailed("export_failed", len(batch))

    outbox = Outbox("spans", deliver, limits=_limits(os.environ), on_drop=on_drop)
    spans = Spans(outbox.put, sampler=sampler, continue_first=continues)
    tracing = Tracing(spans, outbox, exporter)
    tracing.provider = encoder.provider(outbox)
    return tracing


def read_sampler(environ: Mapping[str, str]) -> Sampler:
    """Read OTEL_TRACES_SAMPLER and its argument; raises ConfigError."""
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
    base = name.removeprefix("parentbased_")
    if base not in _SAMPLERS:
        allowed = ", ".join((*_SAMPLERS, *(f"parentbased_{each}" for each in _SAMPLERS)))
        raise ConfigError(f"OTEL_TRACES_SAMPLER is {name!r}; allowed: {allowed}")
    ratio = {"always_on": 1.0, "always_off": 0.0}.get(base)
    if ratio is None:
        ratio = _number(environ, "OTEL_TRACES_SAMPLER_ARG", 1.0)
        if not 0 <= ratio <= 1:
            raise ConfigError(f"OTEL_TRACES_SAMPLER_ARG is {ratio}; allowed: 0 to 1")
    bound, follows = round(ratio * 2**64), base != name

    def sample(trace: int, parent_sampled: bool | None) -> bool:
        if follows and parent_sampled is not None:
            return parent_sampled
        return trace & (2**64 - 1) < bound

    return sample


class SpanMaker:
    """Turns ended spans into OpenTelemetry's, without secrets; runs in the exporting thread.

    One lone surrogate in a name or a description would cost a whole batch, so all text is cleaned.
    """

    def __init__(self, redactor: Redactor, options: TracingOptions) -> None:
        from opentelemetry.sdk import trace as sdk
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        self._redactor = redactor
        self._sdk, self._link, self._status, self._code = sdk, Link, Status, StatusCode
        self._kinds = {kind.name.lower(): kind for kind in SpanKind}
        self._unset = Status(StatusCode.UNSET)
        self._scope = InstrumentationScope("loopworker", options.version)
        named = {
            "service.name": options.service,
            "service.version": options.version,
            "service.instance.id": options.worker_id,
        }
        chosen = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        if os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in chosen:
            del named["service.name"]
        self.resource = Resource.create({key: value for key, value in named.items() if value})

    def provider(self, outbox: Outbox) -> Any:
        """Return a provider for the spans of tools: same resource, same way out."""

        class ToOutbox(self._sdk.SpanProcessor):  # type: ignore[name-defined,misc]
            """Puts each sampled span that ends into the outbox."""

            def on_end(self, span: Any) -> None:
                if span.context is not None and span.context.trace_flags.sampled:
                    outbox.put(span)

        limits = self._sdk.SpanLimits(max_attribute_length=ATTRIBUTE_CHARACTERS_MAX)
        provider = self._sdk.TracerProvider(
            resource=self.resource, span_limits=limits, shutdown_on_exit=False
        )
        provider.add_span_processor(ToOutbox())
        return provider

    def make(self, span: Any) -> Any:
        """Return the span as OpenTelemetry's ReadableSpan."""
        if isinstance(span, LoopSpan):
            return self._make_own(span, shape(span.operation))
        return self._make_foreign(span)

    def _make_own(self, span: LoopSpan, looks: Shape) -> Any:
        attributes = self._attributes(looks.attributes)
        if span.extra:
            attributes |= self._cleaned(span.extra)
        status = self._unset
        if looks.failure is not None:
            text = self._redactor.text(looks.description or looks.failure, limit=256)
            status = self._status(self._code.ERROR, text)
        return self._sdk.ReadableSpan(
            name=self._redactor.text(looks.name, limit=256),
            context=span.get_span_context(),
            parent=span.parent,
            resource=self.resource,
            attributes=attributes,
            events=self._events(span, looks, attributes),
            links=() if span.link is None else (self._link(span.link),),
            kind=self._kinds[looks.kind],
            status=status,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )

    def _events(self, span: LoopSpan, looks: Shape, clean_ones: Mapping[str, Any]) -> list[Any]:
        def picked(attributes: Mapping[str, Any]) -> dict[str, Any]:
            # These are on the span as well, and were made clean there.
            return {key: clean_ones.get(key, value) for key, value in attributes.items()}

        events = []
        if looks.began is not None:
            name, attributes = looks.began
            events.append(self._sdk.Event(name, picked(attributes), span.start_ns))
        for at, what, added in span.events:
            told = point(what)
            if told is not None:
                events.append(self._sdk.Event(told[0], self._attributes(told[1]), at))
            else:
                name = self._redactor.text(str(what), limit=256)
                events.append(self._sdk.Event(name, self._cleaned(added or {}), at))
        if looks.ended is not None:
            name, attributes = looks.ended
            events.append(self._sdk.Event(name, picked(attributes), span.end_ns))
        return events

    def _make_foreign(self, span: Any) -> Any:
        description = span.status.description
        status = span.status
        if description:
            text = self._redactor.text(description, limit=256)
            status = self._status(status.status_code, text)
        return self._sdk.ReadableSpan(
            name=self._redactor.text(span.name, limit=256),
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=self._cleaned(span.attributes or {}),
            events=[
                self._sdk.Event(
                    self._redactor.text(event.name, limit=256),
                    self._cleaned(event.attributes or {}),
                    event.timestamp,
                )
                for event in span.events
            ],
            links=span.links,
            kind=span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Clean attributes of ours, whose names hold no secrets: one search for all texts."""
        texts: list[str] = []
        for value in attributes.values():
            if isinstance(value, str):
                texts.append(value)
            elif isinstance(value, tuple):
                texts.extend(map(str, value))
        joined = "\n".join(texts)
        is_long = len(joined) > ATTRIBUTE_CHARACTERS_MAX
        if is_long or not joined.isascii() or self._redactor.is_suspect(joined):
            return self._cleaned(attributes)
        return {key: value for key, value in attributes.items() if _is_plain(value)}

    def _cleaned(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        for key, value in self._redactor.value(dict(attributes)).items():
            if isinstance(value, list):
                value = tuple(str(item) for item in value)
            elif isinstance(value, dict):
                value = str(value)
            if _is_plain(value):
                cleaned[clean(key)] = value
        return cleaned


def _is_plain(value: Any) -> bool:
    if value.__class__ is float:
        return bool(value - value == 0)  # neither infinite nor NaN
    return value is not None and value != "" and value != ()


def _exporter(environ: Mapping[str, str]) -> Any:
    endpoint = next((environ[name] for name in _ENDPOINTS if environ.get(name)), "")
    chosen = environ.get("OTEL_TRACES_EXPORTER", "").strip() or ("otlp" if endpoint else "none")
    if chosen == "none":
        return None
    if chosen == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # standard output belongs to the log lines
    if chosen != "otlp":
        raise ConfigError(f"OTEL_TRACES_EXPORTER is {chosen!r}; allowed: otlp, console, none")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        shown = endpoint.rpartition("@")[2]  # without an account
        raise ConfigError(f"{_ENDPOINTS[1]} is {shown!r}; it must begin with http:// or https://")
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise ConfigError(f"{_PROTOCOLS[1]} is {protocol!r}; allowed: http/protobuf")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ConfigError(
            "traces are to be exported over OTLP, but the exporter is missing: "
            "pip install 'loopworker[otlp]', or set OTEL_TRACES_EXPORTER=none"
        ) from error
    _check_headers(environ)
    name = next((name for name in _TIMEOUTS if environ.get(name)), _TIMEOUTS[0])
    return OTLPSpanExporter(timeout=_number(environ, name, EXPORT_TIMEOUT_SECONDS))


def _check_headers(environ: Mapping[str, str]) -> None:
    """Refuse headers that the exporter would leave out. Raises ConfigError, without their values.

    The library itself would print them as they are, key and all.
    """
    from opentelemetry.util.re import parse_env_headers

    logger = logging.getLogger("opentelemetry.util.re")
    was, logger.disabled = logger.disabled, True
    try:
        for name in _HEADERS:
            entries = [entry for entry in environ.get(name, "").split(",") if entry.strip()]
            for number, entry in enumerate(entries, 1):
                if not parse_env_headers(entry, liberal=True):
                    raise ConfigError(
                        f"{name}: entry {number} is no header; write name=value, more of them parted"
                        " by commas, and other than plain characters as %XX"
                    )
    finally:
        logger.disabled = was


def _limits(environ: Mapping[str, str]) -> OutboxLimits:
    size = int(_number(environ, "OTEL_BSP_MAX_QUEUE_SIZE", QUEUE_SIZE))
    batch = int(_number(environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH_SIZE))
    delay = _number(environ, "OTEL_BSP_SCHEDULE_DELAY", DELAY_SECONDS * 1000) / 1000
    return OutboxLimits(max(1, size), max(1, min(batch, size)), delay)


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r}; allowed: a number") from error
    if not 0 <= number < 1e9:
        raise ConfigError(f"{name} is {text!r}; allowed: a number from 0 on")
    return number

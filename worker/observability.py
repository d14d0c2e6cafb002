"""Put telemetry together: who listens, in which order, and how it is let go at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TextIO
from urllib.parse import unquote, urlsplit

from worker.guard.guards import Guards
from worker.settings import Settings
from worker.telemetry.lag import LagTicker
from worker.telemetry.logs import LogOptions, Logs
from worker.telemetry.metrics import Metrics
from worker.telemetry.progress import Progress
from worker.telemetry.redact import Redactor
from worker.telemetry.signals import BreakerMeasured, Signal, SlotsChanged
from worker.telemetry.spans import current_ids, exemplar
from worker.telemetry.tell import Listener, Telemetry
from worker.telemetry.tracing import Tracing, TracingOptions, build_tracing


def own_version() -> str:
    """The version of this distribution; 0 when it runs without having been installed."""
    try:
        return version("loopworker")
    except PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True)
class Observability:
    """Everything that listens, and the object that is told."""

    telemetry: Telemetry
    logs: Logs
    tracing: Tracing
    metrics: Metrics
    progress: Progress
    redactor: Redactor
    lag: LagTicker

    async def close(self, *, seconds: float) -> None:
        """Let spans and lines go out, within the budget; what hangs is left behind."""
        await asyncio.to_thread(self.tracing.close, seconds)
        await asyncio.to_thread(self.logs.close, seconds)


def build_observability(
    settings: Settings,
    *,
    worker_id: str,
    stream: TextIO | None = None,
    listeners: Iterable[Listener] = (),
) -> Observability:
    """Build the listeners. Raises ConfigError for tracing that cannot be had as asked for."""
    redactor = redactor_of(settings)
    number = own_version()
    metrics = Metrics(redactor, version=number, exemplar=exemplar)
    tracing = build_tracing(
        redactor,
        options=TracingOptions(
            version=number, worker_id=worker_id, queue_mode=settings.trace_queue
        ),
        on_drop=lambda reason, count: metrics.dropped("traces", reason, count),
    )
    logs = Logs(
        redactor,
        options=LogOptions(
            level=settings.log_level,
            form=settings.log_format,
            version=number,
            worker_id=worker_id,
        ),
        stream=stream,
        ids=current_ids,
        on_drop=lambda reason, count: metrics.dropped("logs", reason, count),
    )
    progress = Progress(redactor)
    # Spans first: the line of an operation carries the ids of its span.
    telemetry = Telemetry([tracing.spans, logs, metrics, progress, *listeners])
    tracing.spans.install(telemetry)
    return Observability(
        telemetry, logs, tracing, metrics, progress, redactor, LagTicker(telemetry)
    )


def redactor_of(settings: Settings) -> Redactor:
    """The redactor that knows every secret of these settings, by its value and by its shape."""
    return Redactor(_secrets(settings), content=settings.log_content)


def _secrets(settings: Settings) -> list[str]:
    """Every secret that the settings hold, by its value."""
    keys = (
        settings.api_key,
        settings.http_token,
        *(f.api_key for f in settings.fallbacks.values()),
    )
    urls = (
        *(settings.model_url, settings.queue_url, settings.store_url),
        *(f.url for f in settings.fallbacks.values()),
    )
    passwords = (_password(url) for url in urls if url)
    mcp = (text for server in settings.mcp.values() for text in server.secrets())
    return [key.get_secret_value() for key in keys if key] + [*filter(None, passwords), *mcp]


def _password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:  # it is refused where it is opened
        return ""


def breakers_measured(guards: Guards) -> Callable[[], Iterator[Signal]]:
    """Read every breaker as it stands, at each scrape."""

    def read() -> Iterator[Signal]:
        for guard in guards.all():
            seen = guard.snapshot()
            yield BreakerMeasured(
                guard.name,
                seen["state"],
                seen["window"]["failure_ratio"] or 0.0,
                seen["window"]["slow_ratio"] or 0.0,
                seen["opened_at"],
                (seen["override"] or {}).get("kind"),
            )

    return read


def slots_measured(slots: int, in_use: Callable[[], int]) -> Callable[[], Iterator[Signal]]:
    """Read how many runs go on, at each scrape."""

    def read() -> Iterator[Signal]:
        yield SlotsChanged(slots, in_use())

    return read

"""Signals as metrics, and the page that Prometheus reads.

The names are in `catalogue.py`, their guards in `families.py`, what each signal moves in
`measures.py`. Here is the registry around them. One process, one registry: prometheus_client's
multi-process mode leaves files behind for ever and knows no exemplars, so it is refused.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterable
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from worker.core.errors import ConfigError
from worker.telemetry.catalogue import CATALOGUE, TELEMETRY_DROPPED, WORKER_INFO, Metric
from worker.telemetry.families import Family, Labels
from worker.telemetry.measures import RUNGS, SETTLED, STARTED, TOLD, Measures
from worker.telemetry.redact import Redactor
from worker.telemetry.signals import Operation, Signal

Reader = Callable[[], Iterable[Signal]]

_KINDS: dict[str, Callable[..., Any]] = {
    "counter": prometheus_client.Counter,
    "gauge": prometheus_client.Gauge,
    "histogram": prometheus_client.Histogram,
    "info": prometheus_client.Info,
}


class Metrics:
    """The listener that counts, and the source of /metrics.

    `exemplar` returns the trace and span id of the moment when they are exported, else None.
    """

    def __init__(
        self,
        redactor: Redactor | None = None,
        *,
        version: str = "",
        revision: str = "",
        exemplar: Callable[[], dict[str, str] | None] | None = None,
    ) -> None:
        _refuse_multiprocess_mode()
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=False)
        for collector in (
            prometheus_client.ProcessCollector,
            prometheus_client.PlatformCollector,
            prometheus_client.GCCollector,
        ):
            collector(registry=self.registry)
        self._labels = Labels(
            redactor or Redactor(), lambda: self._dropped("metrics", "label_overflow", 1)
        )
        self.families = {metric.name: self._make(metric) for metric in CATALOGUE}
        self._measures = Measures(self.families, exemplar or _no_exemplar)
        self._readers: list[Reader] = []
        self._rendering = threading.Lock()
        python = platform.python_version()
        self.families[WORKER_INFO.name].describe(
            {"version": version, "python": python, "revision": revision}
        )
        self._measures.prepare_closed()

    def __repr__(self) -> str:
        return f"Metrics({len(self.families)} families, {len(self._readers)} readers)"

    # --- listener ---------------------------------------------------------------------------------

    def hears(self, kind: type) -> bool:
        """Only what moves a metric."""
        return kind in TOLD or kind in STARTED or kind in SETTLED

    def told(self, signal: Signal) -> None:
        """Count a signal."""
        handler = TOLD.get(type(signal))
        if handler is not None:
            handler(self._measures, signal)

    def started(self, operation: Operation) -> Any:
        """Count an operation as going on."""
        handler = STARTED.get(type(operation))
        return None if handler is None else handler(self._measures, operation)

    def settled(self, operation: Operation, token: Any) -> None:
        """Count an operation as ended."""
        handler = SETTLED.get(type(operation))
        if handler is not None:
            handler(self._measures, operation)

    # --- start and scrape -------------------------------------------------------------------------

    def prepare(
        self,
        *,
        tools: Iterable[str] = (),
        breakers: Iterable[str] = (),
        queues: Iterable[str] = (),
        models: Iterable[tuple[str, str]] = (),
        targets: Iterable[tuple[str, str]] = (),
        fallbacks: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Make known what this worker deals with: the only names that become label values.

        `models` are pairs of provider and model, `targets` pairs of kind (tool, model, queue,
        session_store) and the name under which retries and fallbacks are told, `fallbacks` of a
        model and the one that stands in for it. Tools that come later count as `_other`. May be
        called again, with more.
        """
        self._measures.prepare_queues(self._labels.know("queue", queues))
        self._measures.prepare_tools(self._labels.know("tool", tools))
        self._measures.prepare_breakers(self._labels.know("breaker", breakers))
        for provider, model in models:
            shown = self._labels.know("provider", [provider]) + self._labels.know("model", [model])
            self._measures.prepare_model(*shown)
        for kind, target in targets:
            self._measures.prepare_target(kind, *self._labels.know("target", [target]))
        self._labels.know("fallback", RUNGS)
        for target, fallback in fallbacks:
            shown = self._labels.know("target", [target]) + self._labels.know(
                "fallback", [fallback]
            )
            self._measures.prepare_fallback(*shown)
        self._labels.seal("tool")

    def add_reader(self, reader: Reader) -> None:
        """Ask this at every scrape for signals that measure something (QueueMeasured, …).

        It is called in the thread that renders. One that raises costs its own values only.
        """
        self._readers.append(reader)

    def dropped(self, signal: str, reason: str, count: int = 1) -> None:
        """Count lost telemetry; for outlets that must not tell."""
        self._dropped(signal, reason, count)

    def render(self, accept: str | None = None) -> tuple[bytes, str]:
        """Return the exposition and its content type: OpenMetrics (with exemplars) if accepted."""
        with self._rendering:
            for reader in self._readers:
                self._read(reader)
            self._measures.refresh()
            encode, content_type = choose_encoder(accept or "")
            return encode(self.registry), content_type

    def _read(self, reader: Reader) -> None:
        try:
            for signal in reader():
                self.told(signal)
        except Exception:  # foreign code; the other values are worth a scrape
            self._dropped("metrics", "invalid_value", 1)

    def _make(self, metric: Metric) -> Family:
        more = {"buckets": metric.buckets} if metric.kind == "histogram" else {}
        is_info = metric.kind == "info"
        family = _KINDS[metric.kind](
            metric.name.removesuffix("_info") if is_info else metric.name,
            metric.help,
            () if is_info else metric.labels,
            registry=self.registry,
            **more,
        )
        invalid = lambda: self._dropped("metrics", "invalid_value", 1)  # noqa: E731
        return Family(metric, family, labels=self._labels, on_invalid=invalid)

    def _dropped(self, signal: str, reason: str, count: int) -> None:
        self.families[TELEMETRY_DROPPED.name].inc(signal, reason, amount=count)


def _refuse_multiprocess_mode() -> None:
    for name in ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"):
        if os.environ.get(name):
            raise ConfigError(
                f"{name} is set, but loopworker keeps its metrics in each process; "
                "unset it and scrape every process by itself"
            )


def _no_exemplar() -> None:
    return None

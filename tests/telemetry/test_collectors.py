"""A real receiver gets the spans; a dead, slow or refusing one changes nothing."""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from contextlib import contextmanager

import oteltap
import pytest

from tests.servers.server import free_port
from tests.telemetry.scripted import captured, tell_run
from worker.core.errors import ConfigError
from worker.telemetry import signals as s
from worker.telemetry.metrics import Metrics
from worker.telemetry.redact import Redactor
from worker.telemetry.tell import Telemetry
from worker.telemetry.tracing import build_tracing

SPANS_PER_RUN = 11  # delivery, run, three steps, three chats, two tools, ack


@contextmanager
def refusing():
    """Refuse connections: the port is ours and nobody listens on it.

    A port that is only free may be somebody else's server a moment later, one that answers 200.
    """
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        yield silent.getsockname()[1]


@contextmanager
def black_hole():
    """Accept connections and never answer."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield listener.getsockname()[1]


def export_to(monkeypatch, port: int) -> None:
    """Point the standard variable at a port of this machine."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")


async def test_a_real_receiver_gets_the_tree(monkeypatch):
    """Over OTLP, with resource, links and events, and an odd name that would cost the batch."""
    port = free_port()
    export_to(monkeypatch, port)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    settings = oteltap.OtelTapHttpProtobufReceiverSettings(http_port=port)
    async with oteltap.OtelTapHttpProtobufReceiver(settings) as receiver:
        tracing = build_tracing(Redactor())
        telemetry = Telemetry([tracing.spans])
        odd = s.ToolCalling(
            tool_name="odd\udce2",
            arguments_hash="",
            step_count=1,
            call_id="\ud800",
            dependency="d",
            known=False,
        )
        with telemetry.watch(odd):
            pass
        tell_run(telemetry)
        waiting = asyncio.gather(
            receiver.await_trace(lambda span: span.name == "process tasks", timeout=10),
            receiver.await_trace(lambda span: span.name == "execute_tool", timeout=10),
        )
        await asyncio.sleep(0)  # both have to listen before anything comes
        await asyncio.to_thread(tracing.close, 5)
        process, invented = await waiting
    attributes = {each.key: each.value.string_value for each in invented.attributes}

    assert process.trace_id
    assert attributes["tool_name"] == "odd\N{REPLACEMENT CHARACTER}"
    assert tracing.outbox.delivered == 1 + SPANS_PER_RUN
    assert tracing.outbox.dropped == 0


@pytest.mark.parametrize("collector", ["refusing", "black hole"])
async def test_a_dead_collector_changes_nothing(monkeypatch, collector):
    """Runs take no longer, losses are counted and told, and closing keeps to its budget."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    dead = {"black hole": black_hole, "refusing": refusing}[collector]
    with dead() as port, captured(level="info") as (logs, lines):
        export_to(monkeypatch, port)
        metrics = Metrics()
        telemetry = Telemetry([logs, metrics])
        tracing = build_tracing(
            Redactor(),
            on_drop=lambda reason, count: telemetry.tell(
                s.TelemetryDropped("traces", reason, count)
            ),
        )
        telemetry.listeners = (tracing.spans, *telemetry.listeners)
        took = []
        for number in range(30):
            began = time.perf_counter()
            tell_run(telemetry, task=f"t-{number}")
            took.append(time.perf_counter() - began)
            await asyncio.sleep(0)
        began = time.perf_counter()
        await asyncio.to_thread(tracing.close, 1.5)
        closing = time.perf_counter() - began
        page = metrics.render()[0].decode()
    told = [line for line in lines if line["event"].startswith("telemetry.")]
    dropped = sum(
        float(line.rsplit(" ", 1)[1])
        for line in page.splitlines()
        if line.startswith("loopworker_telemetry_dropped_total{") and 'signal="traces"' in line
    )

    # Seven runs fill the queue: if the others waited for the collector, each took a second. Single
    # ones may be slow on a busy machine.
    assert statistics.median(took) < 0.5
    assert closing < 3
    assert telemetry.listener_errors == 0
    assert 'loopworker_runs_total{reason="completed",status="success"} 30.0' in page
    assert told
    # What hangs in the exporter when the budget is over is neither delivered nor counted yet.
    assert 30 * SPANS_PER_RUN - 64 <= dropped <= 30 * SPANS_PER_RUN


def test_a_raising_exporter_is_survived():
    """Its thread goes on, and the batch is counted."""

    class Raising:
        def export(self, batch):
            raise MemoryError

        def shutdown(self):
            raise RuntimeError

    dropped = []
    tracing = build_tracing(
        Redactor(), exporter=Raising(), on_drop=lambda *what: dropped.append(what)
    )
    telemetry = Telemetry([tracing.spans])
    for _ in range(2):
        with telemetry.watch(s.Step(index=1)):
            pass
        assert tracing.outbox.flush(5)
    tracing.close(5)

    assert dropped == [("export_failed", 1)] * 2


@pytest.mark.parametrize(
    "headers", ["hunter2", "a=b,hunter2", "authorization: hunter2", "k=ü hunter2"]
)
def test_headers_that_would_be_left_out_are_refused_without_their_values(
    monkeypatch, headers, capfd, caplog
):
    """A token whose name is missing is named by its place: neither shown, nor sent by nobody."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)

    with pytest.raises(
        ConfigError, match=r"OTEL_EXPORTER_OTLP_HEADERS: entry \d is no header"
    ) as error:
        build_tracing(Redactor())
    shown = capfd.readouterr()
    assert "hunter2" not in f"{error.value} {shown.out} {shown.err} {caplog.text}"

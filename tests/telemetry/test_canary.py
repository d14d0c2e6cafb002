"""A canary secret in every field of everything that can be told comes out nowhere."""

from __future__ import annotations

import contextlib
import io

import pytest

from tests.telemetry.scripted import tell_everything
from worker.telemetry import signals as s
from worker.telemetry.logs import LogOptions, Logs
from worker.telemetry.metrics import Metrics
from worker.telemetry.progress import Progress
from worker.telemetry.redact import Redactor
from worker.telemetry.spans import current_ids, exemplar
from worker.telemetry.tell import Telemetry
from worker.telemetry.tracing import build_tracing

CANARIES = [
    "sk-" + "canary0123456789",
    'a canary with spaces & signs" \\ 密',
    "Bearer canarycanary1",
]


class Kept:
    """An exporter that keeps what it is given, as text."""

    def __init__(self):
        """Start empty."""
        self.texts = []

    def export(self, batch):
        """Keep the spans."""
        self.texts += [span.to_json() for span in batch]

    def shutdown(self):
        """Do nothing."""


@pytest.mark.parametrize("canary", CANARIES)
async def test_no_listener_lets_a_secret_out(canary):
    """Log lines, spans, /metrics in both forms and progress are free of it, in every field."""
    redactor, kept, stream = Redactor([CANARIES[1]], content="full"), Kept(), io.StringIO()
    tracing = build_tracing(redactor, exporter=kept)
    logs = Logs(redactor, options=LogOptions(level="debug"), stream=stream, ids=current_ids)
    metrics, progress = Metrics(redactor, exemplar=exemplar), Progress(redactor)
    telemetry = Telemetry([tracing.spans, logs, metrics, progress])
    updates = progress.subscribe(canary)

    tell_everything(telemetry, canary)
    with contextlib.suppress(ValueError), telemetry.watch(s.Step(index=1)) as step:
        step.error = canary
        raise ValueError(canary)
    update = await anext(updates)
    await updates.aclose()
    tracing.close(5)
    logs.close(5)
    pages = b"".join(metrics.render(accept)[0] for accept in (None, "application/openmetrics-text"))

    outputs = {
        "logs": stream.getvalue(),
        "spans": "".join(kept.texts),
        "metrics": pages.decode(),
        "progress": update.content,
    }
    assert telemetry.listener_errors == 0
    assert all(outputs.values())
    found = [name for name, text in outputs.items() if "canary" in text]
    assert found == []

"""The metric catalogue is pinned, bounded, correct, and cannot be broken from outside."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.telemetry.scripted import tell_run
from worker.core.errors import ConfigError
from worker.telemetry import signals as s
from worker.telemetry.catalogue import CATALOGUE, NAMES_MAX
from worker.telemetry.metrics import Metrics
from worker.telemetry.redact import Redactor
from worker.telemetry.spans import exemplar
from worker.telemetry.tell import Telemetry
from worker.telemetry.tracing import build_tracing

PINNED = Path(__file__).parents[1] / "surface" / "metric_catalogue.txt"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def series(metrics: Metrics) -> dict[str, float]:
    """Return every sample of the page under its name and labels."""
    page = metrics.render()[0].decode()
    return {
        sample.name + "".join(f"|{key}={value}" for key, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def prepared(**more) -> Metrics:
    """Return metrics that know one of everything."""
    metrics = Metrics(Redactor(), version="0.1.0", revision="abc", **more)
    metrics.prepare(
        tools=["get_stock_price"],
        breakers=["quote"],
        queues=["tasks"],
        models=[("openai", "m-1")],
        targets=[("tool", "quote"), ("model", "m-1")],
    )
    return metrics


def describe() -> str:
    """Write the catalogue down, one family per line."""
    lines = []
    for metric in sorted(CATALOGUE, key=lambda each: each.name):
        labels = [
            f"{label}={'|'.join(metric.allowed(label) or (f'<{NAMES_MAX[label]} names',))}"
            for label in metric.labels
        ]
        parts = [metric.name, metric.kind, "{" + ", ".join(labels) + "}"]
        if metric.buckets:
            parts.append("buckets " + " ".join(f"{edge:g}" for edge in metric.buckets))
        lines.append(" ".join(parts))
    return "\n".join(lines) + "\n"


def test_the_catalogue_is_pinned():
    """Names, labels, values and buckets change only together with the committed list."""
    assert describe() == PINNED.read_text("utf-8")


def test_every_family_of_the_catalogue_is_on_the_page_and_no_other_of_ours():
    """What is documented exists from the start, and nothing is exposed beside it."""
    page = prepared().render()[0].decode()
    ours = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE loopworker_")}

    assert ours == {metric.name for metric in CATALOGUE}


def test_a_scripted_run_is_counted_exactly():
    """The values are those of the script."""
    metrics = prepared()
    tell_run(Telemetry([metrics]))
    seen = series(metrics)
    tool, model = "tool=get_stock_price", "model=m-1|{}provider=openai"
    expected = {
        "loopworker_queue_messages_received_total|queue=tasks": 1,
        "loopworker_queue_messages_settled_total|outcome=ack|queue=tasks": 1,
        "loopworker_queue_wait_seconds_sum|queue=tasks": 0.5,
        "loopworker_queue_unsettled_messages|queue=tasks": 0,
        "loopworker_runs_total|reason=completed|status=success": 1,
        "loopworker_runs_total|reason=max_steps|status=error": 0,
        "loopworker_run_steps_sum|status=success": 3,
        "loopworker_runs_in_progress": 0,
        "loopworker_degraded_runs_total": 1,
        "loopworker_steps_total|outcome=tool_calls": 2,
        "loopworker_steps_total|outcome=final_answer": 1,
        f"loopworker_model_tokens_total|direction=input|{model.format('')}": 300,
        f"loopworker_model_tokens_total|direction=output|{model.format('')}": 30,
        f"loopworker_model_finish_reasons_total|{model.format('')}|reason=stop": 1,
        f"loopworker_model_calls_total|error_type=none|{model.format('outcome=success|')}": 3,
        f"loopworker_tool_calls_total|error_type=none|outcome=success|{tool}": 1,
        f"loopworker_tool_calls_total|error_type=timeout|outcome=error|{tool}": 1,
        f"loopworker_tool_call_duration_seconds_sum|outcome=error|{tool}": 0.25,
        f"loopworker_tool_result_size_bytes_sum|{tool}": 24,
        f"loopworker_tool_results_total|source=stub|{tool}": 1,
        f"loopworker_tool_calls_in_progress|{tool}": 0,
        "loopworker_circuit_breaker_state|breaker=quote|state=open": 1,
        "loopworker_circuit_breaker_state|breaker=quote|state=closed": 0,
        "loopworker_circuit_breaker_transitions_total"
        "|breaker=quote|from_state=closed|to_state=open": 1,
    }

    assert {name: seen.get(name) for name in expected} == expected
    assert seen["loopworker_worker_last_progress_timestamp_seconds"] > 1e9


POINTS = (
    s.TaskRefused("tasks", "t", "schema", "no input"),
    s.TaskDeadLettered("tasks", "t", "deliveries", "too many"),
    s.LeaseWasLost("tasks", "t"),
    s.WriteFenced("r", "append"),
    s.RunTakenOver("r", 2, 5),
    s.QueueFailed("tasks", "connection", "refused"),
    s.LeaseRenewed("tasks", "error"),
    s.BreakerCounted("quote", "rejected"),
    s.RetryScheduled("tool", "quote", "timeout", 2, 0.1),
    s.RetrySuppressed("tool", "quote", "budget"),
    s.FallbackUsed("tool", "quote", "stub", "success", "breaker_open"),
    s.TelemetryDropped("traces", "export_failed", 7),
    s.ErrorUnhandled("store", ValueError()),
    s.TasksDrained(3, 2, 1, 4.5),
    s.SlotsChanged(16, 5),
    s.WorkerChanged("running"),
    s.LoopLagged(0.3),
    s.OverrideChanged("quote", "open", "me", "why"),
    s.RetryBudgetMeasured("tool", 0.5),
)


def test_signals_are_counted_exactly():
    """Each point signal moves its own metric."""
    metrics = prepared()
    telemetry = Telemetry([metrics])
    for signal in POINTS:
        telemetry.tell(signal)
    with telemetry.watch(s.StoreCall(name="append", system="sqlite", events=2)):
        pass
    with telemetry.watch(s.StoreCall(name="save_session", system="sqlite")) as call:
        call.error_type, call.size_bytes = "conflict", 100
    seen = series(metrics)
    expected = {
        "queue_poison_messages_total|queue=tasks|reason=schema": 1,
        "dead_letters_total|queue=tasks|reason=deliveries": 1,
        "leases_lost_total|queue=tasks": 1,
        "fenced_writes_total": 1,
        "takeovers_total": 1,
        "queue_receive_errors_total|error_type=connection|queue=tasks": 1,
        "queue_lease_renewals_total|outcome=error|queue=tasks": 1,
        "circuit_breaker_calls_total|breaker=quote|result=rejected": 1,
        "retries_total|kind=tool|reason=timeout|target=quote": 1,
        "retries_exhausted_total|kind=tool|target=quote": 1,
        "fallbacks_total|fallback=stub|kind=tool|outcome=success|target=quote": 1,
        "telemetry_dropped_total|reason=export_failed|signal=traces": 7,
        "worker_unhandled_errors_total|component=store": 1,
        "worker_drained_tasks_total|outcome=finished": 3,
        "worker_drain_duration_seconds": 4.5,
        "worker_slots": 16,
        "worker_slots_in_use": 5,
        "worker_state|state=running": 1,
        "worker_state|state=starting": 0,
        "worker_ready": 1,
        "worker_event_loop_lag_seconds_count": 1,
        "worker_event_loop_lag_max_seconds": 0.3,
        "breaker_override|breaker=quote|kind=open": 1,
        "retry_budget_ratio|kind=tool": 0.5,
        "journal_append_seconds_count": 1,
        "session_store_operations_total|operation=save|outcome=conflict": 1,
        "session_size_bytes_sum": 100,
    }

    assert {name: seen.get(f"loopworker_{name}") for name in expected} == expected
    assert series(metrics)["loopworker_worker_event_loop_lag_max_seconds"] == 0


def test_a_run_that_is_handed_back_counts_nowhere():
    """It goes on, and ends, in another worker."""
    metrics = prepared()
    run = s.RunLoop(task_id="t", session_id="s", user_input="", start_time=1.0, model="m")
    with Telemetry([metrics]).watch(run):
        run.total_steps = 2
    seen = series(metrics)

    assert sum(value for name, value in seen.items() if "loopworker_runs_total" in name) == 0
    assert seen["loopworker_runs_in_progress"] == 0


def test_readers_are_asked_at_each_scrape_and_may_fail():
    """A snapshot that raises costs its own values; the page comes all the same."""
    metrics = prepared()

    def queue():
        return [s.QueueMeasured("tasks", 5, 4, 3, 2, 1, 9.5)]

    def breakers():
        yield s.BreakerMeasured("quote", "forced_open", 0.25, 0.5, 1000.0, "open")
        raise RuntimeError

    metrics.add_reader(breakers)
    metrics.add_reader(queue)
    seen = series(metrics)
    expected = {
        "queue_tasks|queue=tasks|state=ready": 5,
        "queue_tasks|queue=tasks|state=dead": 1,
        "queue_oldest_message_age_seconds|queue=tasks": 9.5,
        "circuit_breaker_state|breaker=quote|state=forced_open": 1,
        "circuit_breaker_state|breaker=quote|state=closed": 0,
        "circuit_breaker_failure_ratio|breaker=quote": 0.25,
        "circuit_breaker_slow_call_ratio|breaker=quote": 0.5,
        "circuit_breaker_opened_timestamp_seconds|breaker=quote": 1000,
        "breaker_override|breaker=quote|kind=open": 1,
    }

    assert {name: seen.get(f"loopworker_{name}") for name in expected} == expected
    assert seen["loopworker_telemetry_dropped_total|reason=invalid_value|signal=metrics"] == 1


def test_invented_names_add_no_series():
    """Ten thousand tools that the model made up, odd names among them, cost nothing."""
    metrics = prepared()
    telemetry = Telemetry([metrics])
    before = set(series(metrics))
    for number in range(10_000):
        name = f"tool_{number}\udce2"
        call = s.ToolCalling(
            tool_name=name,
            arguments_hash="",
            step_count=1,
            call_id="",
            dependency=name,
            known=number % 2 == 0,  # half of them slip past whoever should know
        )
        with telemetry.watch(call):
            call.error_type = "unknown_tool"
    after = series(metrics)
    calls = "loopworker_tool_calls_total|error_type=unknown_tool|outcome=error|tool="

    assert {name for name in set(after) - before if "tool=_other" not in name} == set()
    assert (after[f"{calls}_unknown"], after[f"{calls}_other"]) == (5_000, 5_000)
    overflow = "loopworker_telemetry_dropped_total|reason=label_overflow|signal=metrics"
    assert after[overflow] >= 5_000


def test_any_label_value_from_outside_is_bounded():
    """Queues, models, breakers, targets and unknown words of closed sets: all have an end."""
    metrics = prepared()
    telemetry = Telemetry([metrics])
    for number in range(300):
        odd = f'name {number} \ud800\n"\\'
        telemetry.tell(s.TaskReceived(odd, "t", 1, True))
        telemetry.tell(s.BreakerChanged(odd, odd, odd, odd, 1))
        telemetry.tell(s.BreakerCounted(odd, odd))
        telemetry.tell(s.RetryScheduled(odd, odd, odd, 1, 1.0))
        telemetry.tell(s.FallbackUsed(odd, odd, odd, odd, odd))
        telemetry.tell(s.ErrorUnhandled(odd, ValueError()))
        with telemetry.watch(s.ModelCall(provider=odd, model=odd, server_address=odd)) as call:
            call.error_type = call.finish_reason = odd
    seen = series(metrics)

    assert telemetry.listener_errors == 0
    for label, bound in NAMES_MAX.items():
        values = {
            part.removeprefix(f"{label}=")
            for name in seen
            if name.startswith("loopworker_")
            for part in name.split("|")
            if part.startswith(f"{label}=")
        }
        assert len(values) <= bound + 2, label


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1])
def test_a_bad_value_is_dropped_and_counted(bad):
    """One NaN would make a sum NaN for ever, and a negative one raises in the library."""
    metrics = prepared()
    telemetry = Telemetry([metrics])
    chat = s.ModelCall(provider="openai", model="m-1", server_address="h")
    with telemetry.watch(chat):
        chat.prompt_tokens = chat.cost = chat.first_chunk_seconds = bad
    seen = series(metrics)

    assert telemetry.listener_errors == 0
    assert all(value == value for value in seen.values())
    assert seen["loopworker_telemetry_dropped_total|reason=invalid_value|signal=metrics"] == 3


def test_exemplars_link_to_traces_that_exist():
    """They come in OpenMetrics only, and only where the span is exported."""

    class Exporter:
        def export(self, batch):
            return None

        def shutdown(self):
            return None

    pages = []
    for exporter in (Exporter(), None):
        tracing = build_tracing(Redactor(), exporter=exporter)
        metrics = prepared(exemplar=exemplar)
        tell_run(Telemetry([tracing.spans, metrics]))
        tracing.close(5)
        pages += [metrics.render(OPENMETRICS), metrics.render("text/plain")]
    with_spans, plain, without_spans, _ = pages

    marked = re.findall(rb"run_duration_seconds_bucket{[^}]*} 1.0 # {([^}]*)}", with_spans[0])
    assert len(marked) == 1
    assert re.search(rb'trace_id="[0-9a-f]{32}"', marked[0])
    assert with_spans[1].startswith("application/openmetrics-text")
    assert plain[1].startswith("text/plain")
    assert b"trace_id" not in plain[0]
    assert b"trace_id" not in without_spans[0]
    assert b"_created" not in with_spans[0]


def test_multiprocess_mode_is_refused(monkeypatch):
    """It leaves files behind for ever and has no exemplars."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "somewhere")
    with pytest.raises(ConfigError, match="PROMETHEUS_MULTIPROC_DIR"):
        Metrics()


def test_the_number_of_series_has_a_bound():
    """With 32 tools, 8 models, 4 queues and 40 breakers, a worker stays under 6,000 series."""
    metrics = Metrics()
    metrics.prepare(
        tools=[f"tool_{n}" for n in range(32)],
        breakers=[f"breaker_{n}" for n in range(40)],
        queues=[f"queue_{n}" for n in range(4)],
        models=[("openai", f"model_{n}") for n in range(8)],
        targets=[("tool", f"breaker_{n}") for n in range(38)]
        + [("model", f"model_{n}") for n in range(8)],
    )

    assert 4_000 < len(series(metrics)) < 6_000


def test_promtool_accepts_the_page(need):
    """Names, units and help texts pass the linter of those who read them."""
    promtool = shutil.which("promtool")
    need(promtool, "promtool (package prometheus) is not installed")
    metrics = prepared()
    tell_run(Telemetry([metrics]))
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=metrics.render()[0], capture_output=True, check=False
    )

    assert checked.stdout.decode() + checked.stderr.decode() == ""
    assert checked.returncode == 0

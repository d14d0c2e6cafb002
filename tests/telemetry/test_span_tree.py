"""The span tree of a run, its names and attributes, and the context that stands meanwhile."""

from __future__ import annotations

import asyncio
import logging

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from tests.telemetry.scripted import tell_run
from worker.core.errors import ConfigError
from worker.telemetry import semconv, spans
from worker.telemetry import signals as s
from worker.telemetry.redact import Redactor
from worker.telemetry.tell import Telemetry
from worker.telemetry.tracing import TracingOptions, build_tracing, read_sampler

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-03"


class Collector:
    """An exporter that keeps what it is given."""

    def __init__(self):
        """Start empty."""
        self.spans = []

    def export(self, batch):
        """Keep the spans."""
        self.spans += batch

    def shutdown(self):
        """Do nothing."""


def collect(act, **options):
    """Let `act(telemetry, tracing)` run under spans; return those that were exported."""
    collector = Collector()
    tracing = build_tracing(
        Redactor(["my-own-secret"]), exporter=collector, options=TracingOptions(**options)
    )
    telemetry = Telemetry([tracing.spans])
    tracing.spans.install(telemetry)
    act(telemetry, tracing)
    tracing.close(5)
    assert telemetry.listener_errors == 0
    return collector.spans


def tool(**more):
    """Build a tool call."""
    values = {"tool_name": "tool", "arguments_hash": "sha256:0", "step_count": 1}
    return s.ToolCalling(**{**values, "call_id": "c", "dependency": "d", **more})


def test_the_tree_of_a_run():
    """Each span hangs where the design says."""
    made = collect(lambda telemetry, _: tell_run(telemetry))
    names = {span.context.span_id: span.name for span in made}
    tree = sorted((names.get(span.parent and span.parent.span_id, ""), span.name) for span in made)

    assert tree == sorted(
        [
            ("", "process tasks"),
            ("process tasks", "invoke_agent loopworker"),
            ("process tasks", "ack tasks"),
            *[("invoke_agent loopworker", "agent.step")] * 3,
            *[("agent.step", "chat m-1")] * 3,
            *[("agent.step", "execute_tool get_stock_price")] * 2,
        ]
    )
    assert len({span.context.trace_id for span in made}) == 1
    assert all(span.start_time <= span.end_time for span in made)
    kinds = {span.name: span.kind for span in made}
    assert (kinds["process tasks"], kinds["chat m-1"]) == (SpanKind.CONSUMER, SpanKind.CLIENT)
    assert (kinds["ack tasks"], kinds["agent.step"]) == (SpanKind.CLIENT, SpanKind.INTERNAL)


def test_the_names_that_operators_asked_for_are_on_the_spans():
    """As plain attributes and as events, beside the conventions' names."""
    made = collect(lambda telemetry, _: tell_run(telemetry))
    run = next(span for span in made if span.name.startswith("invoke_agent"))
    call = next(span for span in made if span.attributes.get("status_code") == 504)

    assert {"session_id", "start_time", "end_time", "total_steps", "final_status"} <= set(
        run.attributes
    )
    assert [event.name for event in run.events] == ["loop_start", "loop_end"]
    assert {"tool_name", "arguments_hash", "step_count", "execution_time", "result_size"} <= set(
        call.attributes
    )
    assert [event.name for event in call.events] == [
        "tool_before",
        "breaker.transition",
        "tool_after",
    ]
    assert call.attributes["error.type"] == "timeout"
    assert (call.status.status_code, run.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert run.attributes["gen_ai.conversation.id"] == "session-1"
    assert "几点" not in run.to_json()


def test_every_attribute_has_its_name_in_one_file():
    """No span carries an attribute that semconv.py does not spell."""
    known = {value for name, value in vars(semconv).items() if name.isupper()}
    made = collect(lambda telemetry, _: tell_run(telemetry))
    used = {key for span in made for key in span.attributes}

    assert used - known == set()


def test_a_first_delivery_continues_the_trace_and_links_to_it():
    """On-call sees one trace from submit to answer."""
    made = collect(lambda telemetry, _: tell_run(telemetry, traceparent=TRACEPARENT))
    process = next(span for span in made if span.name == "process tasks")

    assert {f"{span.context.trace_id:032x}" for span in made} == {TRACE}
    assert f"{process.parent.span_id:016x}" == PARENT
    assert [f"{link.context.span_id:016x}" for link in process.links] == [PARENT]


@pytest.mark.parametrize("way", ["redelivery", "setting"])
def test_a_link_is_all_that_a_redelivery_keeps(way):
    """A new root with a link; and so for every delivery where the setting says so."""

    def act(telemetry, _):
        task = s.TaskProcessing(
            queue="q", task_id="t", delivery=2, waited_seconds=0, traceparent=TRACEPARENT
        )
        task.redelivered = way == "redelivery"
        with telemetry.watch(s.Step(index=1)), telemetry.watch(task):
            pass

    made = collect(act, queue_mode="link" if way == "setting" else "parent")
    process = next(span for span in made if span.name == "process q")

    assert process.parent is None
    assert f"{process.context.trace_id:032x}" != TRACE
    assert [f"{link.context.trace_id:032x}" for link in process.links] == [TRACE]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        123,
        "00",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        "x" * 20000,
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-0",
    ],
)
def test_a_broken_traceparent_is_ignored(header):
    """It starts a trace of its own and disturbs nobody."""
    assert spans.read_traceparent(header, "a=b") is None


def test_the_context_is_handed_on_and_then_gone():
    """Requests made inside carry the span of the moment, and what came with it; later ones none."""
    seen = []

    def act(telemetry, _):
        task = s.TaskProcessing(
            queue="q", task_id="t", delivery=1, waited_seconds=0, traceparent=TRACEPARENT
        )
        task.tracestate = "vendor=1"
        with telemetry.watch(task), telemetry.watch(s.Step(index=1)):
            seen.append((telemetry.trace_headers(), telemetry.trace_id()))
        seen.append((telemetry.trace_headers(), telemetry.trace_id()))

    step = next(span for span in collect(act) if span.name == "agent.step")
    inside, outside = seen

    assert inside[0]["traceparent"] == f"00-{TRACE}-{step.context.span_id:016x}-01"
    assert inside[0]["tracestate"] == "vendor=1"
    assert inside[1] == TRACE
    assert outside == ({}, None)


def test_ids_exist_without_an_exporter():
    """Log lines and results have a trace id although nothing is exported."""
    tracing = build_tracing(Redactor())
    telemetry = Telemetry([tracing.spans])
    with telemetry.watch(s.Step(index=1)):
        outer = spans.current_ids()
        with telemetry.watch(s.Step(index=2)):
            inner = spans.current_ids()

    assert tracing.outbox is None
    assert outer[0] == inner[0]
    assert outer[1] != inner[1]
    assert spans.current_ids() is None


def test_a_disabled_sdk_only_passes_the_callers_context_on(monkeypatch):
    """OTEL_SDK_DISABLED makes no ids of its own."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    tracing = build_tracing(Redactor(), exporter=Collector())
    telemetry = Telemetry([tracing.spans])
    task = s.TaskProcessing(queue="q", task_id="t", delivery=1, waited_seconds=0)
    with telemetry.watch(task):
        alone = spans.trace_headers()
    task.traceparent = TRACEPARENT
    with telemetry.watch(task), telemetry.watch(s.Step(index=1)):
        passed = spans.trace_headers()

    assert alone == {}
    assert passed == {"traceparent": TRACEPARENT}
    assert spans.trace_headers() == {}


def test_spans_of_tools_become_children_and_are_exported(monkeypatch):
    """A tool's author uses OpenTelemetry's API and finds the spans in the same trace, masked."""

    def act(telemetry, tracing):
        tracer = tracing.provider.get_tracer("tool")
        with telemetry.watch(tool()):
            trace.get_current_span().set_attribute("rows", 3)
            trace.get_current_span().set_attribute("db.password", "hunter2")
            with tracer.start_as_current_span("SELECT my-own-secret") as own:
                own.set_attribute("note", "sk-abcdefgh1234\udce2")
                own.add_event("seen my-own-secret", {"a": "my-own-secret"})
                own.set_status(StatusCode.ERROR, "my-own-secret \ud800")

    made = {span.name: span for span in collect(act)}
    ours, theirs = made["execute_tool tool"], made["SELECT [redacted]"]

    assert theirs.parent.span_id == ours.context.span_id
    assert (ours.attributes["rows"], ours.attributes["db.password"]) == (3, "[redacted]")
    assert theirs.attributes["note"] == "[redacted]\N{REPLACEMENT CHARACTER}"
    assert "my-own-secret" not in theirs.to_json()


async def test_a_cancelled_operation_ends_as_cancelled():
    """One span, with an error, although cancellation is no Exception."""
    collector = Collector()
    tracing = build_tracing(Redactor(), exporter=collector)
    telemetry = Telemetry([tracing.spans])
    begun = asyncio.Event()

    async def wait():
        with telemetry.watch(tool()):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    tracing.close(5)

    assert [span.attributes["error.type"] for span in collector.spans] == ["cancelled"]
    assert collector.spans[0].status.status_code is StatusCode.ERROR


async def test_an_operation_settled_by_another_task_does_no_harm(caplog):
    """Nothing is logged by OpenTelemetry, and the other task keeps its own context."""
    collector = Collector()
    tracing = build_tracing(Redactor(), exporter=collector)
    telemetry = Telemetry([tracing.spans])

    async def stream():
        with telemetry.watch(s.Step(index=1)):
            yield 1
            yield 2

    generator = stream()
    await asyncio.create_task(anext(generator))

    async def close():
        with telemetry.watch(s.Step(index=2)):
            before = spans.current_ids()
            await generator.aclose()
            return before == spans.current_ids()

    with caplog.at_level(logging.DEBUG):
        kept = await asyncio.create_task(close())
    tracing.close(5)

    assert kept
    assert len(collector.spans) == 2
    assert [record for record in caplog.records if record.name.startswith("opentelemetry")] == []


def test_a_name_that_the_model_invented_is_no_span_name():
    """It is an attribute, without what no encoder takes."""

    def act(telemetry, _):
        with telemetry.watch(tool(tool_name="a\udce2", known=False)) as call:
            call.error_type, call.error = "unknown_tool", "no tool a\udce2"

    (made,) = collect(act)
    assert made.name == "execute_tool"
    assert made.attributes["tool_name"] == "a\N{REPLACEMENT CHARACTER}"
    assert made.status.description == "no tool a\N{REPLACEMENT CHARACTER}"


def test_waiting_for_work_makes_no_spans():
    """Claims, heartbeats and journal writes would drown the rest."""

    def act(telemetry, _):
        for name in ("claim", "extend"):
            with telemetry.watch(s.QueueCall(queue="q", name=name, system="sqlite")):
                pass
        with telemetry.watch(s.StoreCall(name="append", system="sqlite")):
            pass

    assert collect(act) == []


@pytest.mark.parametrize(
    ("name", "ratio", "parent", "sampled"),
    [
        ("", "", None, True),
        ("always_off", "", True, False),
        ("parentbased_always_off", "", None, False),
        ("parentbased_always_off", "", True, True),
        ("parentbased_always_on", "", False, False),
        ("traceidratio", "0", True, False),
        ("traceidratio", "1", None, True),
        ("parentbased_traceidratio", "0.5", None, True),
    ],
)
def test_samplers_follow_the_standard(name, ratio, parent, sampled):
    """The decision depends on the parent and on the trace id as OpenTelemetry's does."""
    sampler = read_sampler({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": ratio})

    assert sampler(2**62, parent) is sampled


def test_an_unsampled_trace_costs_no_spans(monkeypatch):
    """It has ids, hands them on as not sampled, and nothing is kept for export."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    headers = []

    def act(telemetry, _):
        with telemetry.watch(tool()):
            headers.append(telemetry.trace_headers()["traceparent"])
            trace.get_current_span().set_attribute("rows", 3)

    assert collect(act) == []
    assert headers[0].endswith("-00")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch, variable, value):
    """The error says which, what it holds, and what is allowed."""
    monkeypatch.setenv(variable, value)
    if variable == "OTEL_BSP_MAX_QUEUE_SIZE":
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    with pytest.raises(ConfigError, match=rf"{variable} is '{value}'.*(allowed|must)"):
        build_tracing(Redactor())


def test_a_protocol_that_is_not_built_is_refused(monkeypatch):
    """Rather than sending protobuf over HTTP to a gRPC port for ever."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ConfigError, match="http/protobuf"):
        build_tracing(Redactor())


def test_a_missing_exporter_names_the_extra(monkeypatch):
    """The message is the command that mends it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setitem(
        __import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None
    )
    with pytest.raises(ConfigError, match=r"loopworker\[otlp\]"):
        build_tracing(Redactor())

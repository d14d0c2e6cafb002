"""The lean floor: the least that runs an agent loop with the telemetry that we promise.

A bare loop over httpx with the worker's transport: six spans to a batch processor whose exporter
does nothing, seven structlog lines of JSON with trace ids, Prometheus counters and histograms; no
journal, queue, guard, retry, redaction or validation.
"""

import time
from functools import cache
from typing import Any

import orjson
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, Counter, Histogram

KEPT = {"registry": CollectorRegistry()}
JSON, LABELS = {"content-type": "application/json"}, ("kind", "name")
CALLS = Counter("lean_calls", "Calls made.", LABELS, **KEPT)
SECONDS = Histogram("lean_call_seconds", "How long they took.", LABELS, **KEPT)
INPUT, OUTPUT = (Counter(f"lean_{way}_tokens", "Tokens.", **KEPT) for way in ("in", "out"))
children = cache(lambda *key: (CALLS.labels(*key), SECONDS.labels(*key)))
RUNS = Counter("lean_runs", "Loops that ended.", ("status",), **KEPT).labels("success")
RUN_SECONDS = Histogram("lean_run_seconds", "How long they took.", **KEPT)


class NoExporter(SpanExporter):
    """Takes every span and does nothing with it."""

    def export(self, spans):
        return SpanExportResult.SUCCESS


def add_trace(_, __, event):
    """Put the ids of the current span on a log line."""
    context = trace.get_current_span().get_span_context()
    event["trace_id"], event["span_id"] = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return event


class Lean:
    """One agent: `run` takes a question through the loop to its answer."""

    def __init__(self, client, url: str, tools: dict[str, Any], schemas: list[Any], log) -> None:
        self.client, self.url, self.tools, self.schemas = client, url, tools, schemas
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(NoExporter()))
        self.tracer = provider.get_tracer("lean")
        stamps = [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso")]
        render = structlog.processors.JSONRenderer(serializer=orjson.dumps)
        how = {"wrapper_class": structlog.make_filtering_bound_logger("info")}
        out, steps = structlog.BytesLogger(log), [*stamps, add_trace, render]
        self.log = structlog.wrap_logger(out, processors=steps, **how).bind(service="lean")

    async def run(self, question: str) -> str:
        """Answer a question; tools are called as the model asks for them."""
        began, messages = time.perf_counter(), [{"role": "user", "content": question}]
        with self.tracer.start_as_current_span("invoke_agent"):
            self.log.info("loop.start", user_input=question)
            while (message := await self.think(messages)).get("tool_calls"):
                messages.append(message)
                messages.extend([await self.act(call) for call in message["tool_calls"]])
            RUNS.inc()
            RUN_SECONDS.observe(time.perf_counter() - began)
            self.log.info("loop.end", status="success", steps=len(messages) // 2 + 1)
        return message["content"]

    async def think(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Ask the model."""
        with self.tracer.start_as_current_span("chat mock-1") as span:
            began = time.perf_counter()
            body = orjson.dumps({"model": "mock-1", "messages": messages, "tools": self.schemas})
            response = await self.client.post(self.url, content=body, headers=JSON)
            response.raise_for_status()
            reply = orjson.loads(response.content)
            span.set_attribute("gen_ai.usage.input_tokens", reply["usage"]["prompt_tokens"])
            INPUT.inc(reply["usage"]["prompt_tokens"])
            OUTPUT.inc(reply["usage"]["completion_tokens"])
            self.told("model", "mock-1", time.perf_counter() - began)
        return reply["choices"][0]["message"]

    async def act(self, call: dict[str, Any]) -> dict[str, Any]:
        """Call a tool."""
        name, text = call["function"]["name"], call["function"]["arguments"]
        with self.tracer.start_as_current_span(f"execute_tool {name}") as span:
            span.set_attribute("gen_ai.tool.name", name)
            began = time.perf_counter()
            result = await self.tools[name](**orjson.loads(text))
            self.told("tool", name, time.perf_counter() - began)
        return {"role": "tool", "tool_call_id": call["id"], "content": result}

    def told(self, kind: str, name: str, seconds: float) -> None:
        """Count a call and log it."""
        calls, durations = children(kind, name)
        calls.inc()
        durations.observe(seconds)
        self.log.info(f"{kind}.after", name=name, execution_time=seconds)

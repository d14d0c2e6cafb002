"""The lean floor: the least that runs an agent loop with the telemetry that we promise.

A bare loop over httpx with the worker's transport: six spans to a batch processor whose exporter
does nothing, seven structlog lines of JSON with trace ids, Prometheus counters and histograms. No
journal, queue, guard, retry, redaction or validation. The worker is told as a multiple of this.
"""

import time
from typing import Any

import orjson
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, Counter, Histogram

REGISTRY = CollectorRegistry()
LABELS = ("kind", "name")
CALLS = Counter("lean_calls", "Calls made.", LABELS, registry=REGISTRY)
SECONDS = Histogram("lean_call_seconds", "How long they took.", LABELS, registry=REGISTRY)
TOKENS = Counter("lean_tokens", "Tokens used.", ("direction",), registry=REGISTRY)
RUNS = Counter("lean_runs", "Loops that ended.", ("status",), registry=REGISTRY)
RUN_SECONDS = Histogram("lean_run_seconds", "How long they took.", registry=REGISTRY)


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
        level = structlog.make_filtering_bound_logger("info")
        self.log = structlog.wrap_logger(
            structlog.BytesLogger(log), processors=[*stamps, add_trace, render], wrapper_class=level
        ).bind(service="lean")

    async def run(self, question: str) -> str:
        """Answer a question; tools are called as the model asks for them."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        began = time.perf_counter()
        with self.tracer.start_as_current_span("invoke_agent"):
            self.log.info("loop.start", user_input=question)
            while (message := await self.think(messages)).get("tool_calls"):
                messages.append(message)
                messages.extend([await self.act(call) for call in message["tool_calls"]])
            RUNS.labels("success").inc()
            RUN_SECONDS.observe(time.perf_counter() - began)
            self.log.info("loop.end", status="success", steps=len(messages) // 2 + 1)
        return message["content"]

    async def think(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Ask the model."""
        with self.tracer.start_as_current_span("chat mock-1") as span:
            began = time.perf_counter()
            body = orjson.dumps({"model": "mock-1", "messages": messages, "tools": self.schemas})
            headers = {"content-type": "application/json"}
            response = await self.client.post(self.url, content=body, headers=headers)
            response.raise_for_status()
            reply = orjson.loads(response.content)
            span.set_attribute("gen_ai.usage.input_tokens", reply["usage"]["prompt_tokens"])
            TOKENS.labels("input").inc(reply["usage"]["prompt_tokens"])
            TOKENS.labels("output").inc(reply["usage"]["completion_tokens"])
            self.told("model", "mock-1", time.perf_counter() - began)
        return reply["choices"][0]["message"]

    async def act(self, call: dict[str, Any]) -> dict[str, Any]:
        """Call a tool."""
        name, arguments = call["function"]["name"], orjson.loads(call["function"]["arguments"])
        with self.tracer.start_as_current_span(f"execute_tool {name}") as span:
            span.set_attribute("gen_ai.tool.name", name)
            began = time.perf_counter()
            result = await self.tools[name](**arguments)
            self.told("tool", name, time.perf_counter() - began)
        return {"role": "tool", "tool_call_id": call["id"], "content": result}

    def told(self, kind: str, name: str, seconds: float) -> None:
        """Count a call and log it."""
        CALLS.labels(kind, name).inc()
        SECONDS.labels(kind, name).observe(seconds)
        self.log.info(f"{kind}.after", name=name, execution_time=seconds)

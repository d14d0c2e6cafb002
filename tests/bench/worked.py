"""The worker with everything on, as a user would run it, in this process.

Queue and journal in one SQLite file, log lines to a file through the real outlet, spans to an
exporter that does nothing, metrics, guard and redaction. The tasks lie in the queue before the
worker starts: handing them in is the caller's work and not the worker's.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

import worker.observability as observability
from tests.bench.gauge import QUESTION, Gauge, MemoryWatch, plain_tools
from tests.bench.lean import NoExporter
from worker import Settings, Worker, tool
from worker.app import relieved_collector
from worker.core.messages import Message
from worker.model.port import ModelRequest
from worker.model.quirks import Quirks
from worker.model.wire import request_body
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.telemetry.signals import TaskProcessing

PUTS_AT_ONCE = 200


class Counting(NoExporter):
    """Takes every span, counts it and does nothing with it."""

    spans = 0

    def export(self, spans):  # type: ignore[no-untyped-def]
        Counting.spans += len(spans)
        return super().export(spans)


def export_to_nobody() -> None:
    """Let the workers of this process trace with an exporter that only counts.

    Spans leave soon, so that the work of the exporting thread falls into the measured time.
    """
    os.environ.setdefault("OTEL_BSP_SCHEDULE_DELAY", "200")
    build = functools.partial(observability.build_tracing, exporter=Counting())
    observability.build_tracing = build  # type: ignore[assignment]


def worker_tools(plain: dict[str, Any]) -> list[Any]:
    """Make tools of the two functions."""
    return [
        tool(effect="read", description="Look up an item by its key.")(plain["look_up"]),
        tool(effect="read", description="Measure an item by its key.")(plain["measure"]),
    ]


def schemas_of(tools: Iterable[Any]) -> list[Any]:
    """Return the tool list that the worker sends, for the loops that are to send the same."""
    from worker.registry import Registry

    offered = Registry(tools).offered(None)
    request = ModelRequest(messages=[Message({"role": "user", "content": ""})], tools=offered)
    sent = request_body(request, model="mock-1", stream=False, quirks=Quirks())
    return list(orjson.loads(sent)["tools"])


class Stopwatch:
    """A listener that notes how long each delivery took, from claim to settlement."""

    def __init__(self, gauge: Gauge) -> None:
        self.gauge = gauge

    def told(self, signal: Any) -> None:
        pass

    def started(self, operation: Any) -> None:
        pass

    def settled(self, operation: Any, token: Any) -> None:
        if isinstance(operation, TaskProcessing):
            self.gauge.latencies.append(operation.duration_seconds)


async def fill(url: str, count: int, *, first: int = 0) -> None:
    """Put tasks into a queue."""
    queue = open_queue(url, name="tasks", max_deliveries=5)
    for start in range(first, first + count, PUTS_AT_ONCE):
        await asyncio.gather(
            *(
                queue.put(Ticket(id=f"task-{n}", body=orjson.dumps({"input": QUESTION})))
                for n in range(start, min(start + PUTS_AT_ONCE, first + count))
            )
        )
    await queue.close()


class WorkerCase:
    """One worker over a full queue."""

    def __init__(self, options: Any, gauge: Gauge, folder: Path) -> None:
        self.options = options
        self.gauge = gauge
        self.folder = folder
        self.url = f"sqlite:///{folder}/bench.db?synchronous={options.synchronous}"

    def settings(self, **more: Any) -> Settings:
        """Return the settings of the worker under test."""
        values = {
            "admin": "off",
            "http": "off",
            "concurrency": self.options.concurrency,
            "model": "mock-1",
            "model_url": self.options.url,
            "queue_url": self.url,
            "guard": {"limit": self.options.concurrency},
        }
        return Settings(**(values | more))

    async def run(self, total: int) -> dict[str, float]:
        """Work until the gauge has seen enough."""
        export_to_nobody()
        options, gauge = self.options, self.gauge
        await fill(self.url, 32 if options.memory else total)
        listeners = [Stopwatch(gauge)] if options.latency else []
        tools = worker_tools(plain_tools(gauge))
        figures: dict[str, float] = {}
        with (self.folder / "lines.jsonl").open("w") as log:
            async with Worker(
                self.settings(), tools=tools, listeners=listeners, log_stream=log
            ) as running:
                if options.memory:
                    await until_seen(gauge, 32)
                    gauge.seen = 0
                    watch = MemoryWatch()
                    await fill_elsewhere(self.url, total, first=32)
                with relieved_collector():  # as `serve` does, which `loopworker run` calls
                    await gauge.is_warm.wait()
                    with profiled(options.profile):
                        await gauge.done.wait()
                if options.memory:
                    figures["kib_each"] = watch.stop() / options.concurrency
                    figures["in_flight"] = len(running.consumer.held)
                running.consumer.stop_claiming()
        return figures | told_each(self.folder, gauge)


async def until_seen(gauge: Gauge, count: int) -> None:
    """Wait until so many loops are over, and the worker has settled them."""
    while gauge.seen < count:  # noqa: ASYNC110  (the gauge counts, it does not call)
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)


async def fill_elsewhere(url: str, count: int, *, first: int) -> None:
    """Put tasks into a queue from another process, whose memory is not ours."""
    import sys

    code = (
        "import asyncio; from tests.bench.worked import fill;"
        f"asyncio.run(fill({url!r}, {count}, first={first}))"
    )
    filling = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    await filling.wait()


class profiled:
    """A block under cProfile, this thread only, if a file for the statistics is given."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        if self.path:
            import cProfile

            self.profile = cProfile.Profile(time.thread_time)
            self.profile.enable()

    def __exit__(self, *_: object) -> None:
        if self.path:
            self.profile.disable()
            self.profile.dump_stats(self.path)


def told_each(folder: Path, gauge: Gauge) -> dict[str, float]:
    """How many lines and spans were left for each loop, once all of them have gone out."""
    loops = max(1, gauge.seen)
    return {
        "log_lines": lines_in(folder / "lines.jsonl") / loops,
        "spans": Counting.spans / loops,
    }


def lines_in(path: Path) -> int:
    """Count the lines of a file."""
    with path.open("rb") as file:
        return sum(1 for _ in file)

"""One measurement of agent loops in this process: `python -m tests.bench.loops KIND …`.

Prints one JSON object. KIND is `aiohttp` or `httpx` (bare loops), `transport` (a bare loop over the
worker's transport), `lean` (that with telemetry), `lean-own` (lean over the worker's own client,
which skips what httpx's client would see to) or `worker` (everything on).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
import httpx

import worker.observability as observability
from tests.bench.bare import Bare, over_aiohttp, over_httpx
from tests.bench.gauge import QUESTION, Gauge, MemoryWatch, allow_many_files, plain_tools
from tests.bench.lean import Lean
from tests.bench.told import Told
from tests.bench.worked import WorkerCase, export_to_nobody, schemas_of, told_each, worker_tools
from worker import Settings
from worker.http import HttpClient, HttpOptions
from worker.telemetry.tell import Telemetry

KINDS = ("aiohttp", "httpx", "transport", "lean", "lean-own", "lean-told", "worker")
Run = Callable[[str], Awaitable[str]]


class OwnClient:
    """The worker's HTTP client with the little of httpx's interface that the lean loop uses."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def post(self, url: str, *, content: bytes, headers: dict[str, str]) -> Any:
        reply = await self._client.post(url, content=content, headers=headers)
        return OwnReply(reply.raise_for_status().body)


class OwnReply:
    """As much of an httpx response as the lean loop looks at."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content

    def raise_for_status(self) -> None:
        """Nothing to do: it was checked."""


class Unflushed:
    """A file that is written in blocks, as the worker's is, and not line by line."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write

    def flush(self) -> None:
        """Wait for a full block."""


async def build(options: Any, gauge: Gauge, folder: Path, stack: AsyncExitStack) -> Run:
    """Return the loop of a kind, ready to run."""
    limit, url = options.concurrency + 8, f"{options.url}/chat/completions"
    tools, schemas = plain_tools(gauge), schemas_of(worker_tools(plain_tools(gauge)))
    if options.kind == "aiohttp":
        connector = aiohttp.TCPConnector(limit=limit)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        return Bare(over_aiohttp(session, url), tools, schemas).run
    own = HttpClient(HttpOptions(connections_max=limit))
    stack.push_async_callback(own.aclose)
    client: Any = own.client
    if options.kind == "httpx":
        limits = httpx.Limits(max_connections=limit, max_keepalive_connections=limit)
        client = await stack.enter_async_context(
            httpx.AsyncClient(limits=limits, timeout=60, trust_env=False)
        )
    if options.kind in ("httpx", "transport"):
        return Bare(over_httpx(client, url), tools, schemas).run
    if options.kind == "lean-told":
        told = told_to(folder, stack)
        return Told(client, url, tools, schemas, told).run
    log = Unflushed(stack.enter_context((folder / "lines.jsonl").open("wb")))
    client = OwnClient(own) if options.kind == "lean-own" else client
    return Lean(client, url, tools, schemas, log).run


def told_to(folder: Path, stack: AsyncExitStack) -> Telemetry:
    """The worker's telemetry, as the worker itself builds it."""
    export_to_nobody()
    log = stack.enter_context((folder / "lines.jsonl").open("w"))
    seen = observability.build_observability(
        Settings(admin="off", http="off", model="mock-1"), worker_id="bench", stream=log
    )
    stack.push_async_callback(seen.close, seconds=5)
    return seen.telemetry


async def drive(run: Run, gauge: Gauge, *, concurrency: int, total: int) -> None:
    """Keep `concurrency` loops going until the gauge has seen enough."""
    numbers = itertools.count()

    async def keep_going() -> None:
        while next(numbers) < total:
            began = time.perf_counter()
            await run(QUESTION)
            if concurrency == 1:
                gauge.latencies.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(keep_going())


async def measure(options: Any) -> dict[str, Any]:
    """Run the loops and return the figures."""
    warm, concurrency = options.warm, options.concurrency
    gauge = Gauge(warm=warm, count=options.count)
    total = warm + options.count + 2 * concurrency
    memory: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if options.kind == "worker":
            case = WorkerCase(options, gauge, folder)
            figures = await case.run(total)
            return gauge.figures() | figures
        async with AsyncExitStack() as stack:
            run = await build(options, gauge, folder, stack)
            if options.memory:
                await drive(run, Gauge(warm=0, count=0), concurrency=4, total=32)
                gauge.seen = 0
                watch = MemoryWatch()
            await drive(run, gauge, concurrency=concurrency, total=total)
            if options.memory:
                memory["kib_each"] = watch.stop() / concurrency
        if options.kind == "lean-told":
            memory |= told_each(folder, gauge)
    return gauge.figures() | memory


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--url", required=True, help="base URL of the model server")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--count", type=int, default=200, help="loops that are measured")
    parser.add_argument("--warm", type=int, default=50, help="loops before")
    parser.add_argument("--memory", action="store_true", help="memory per loop in flight")
    parser.add_argument("--latency", action="store_true", help="time each task of the worker")
    parser.add_argument("--synchronous", default="full", help="durability of the worker's file")
    parser.add_argument("--profile", default="", help="write cProfile's statistics to this file")
    parser.add_argument("--uvloop", action="store_true")
    options = parser.parse_args()
    allow_many_files()
    factory = None
    if options.uvloop:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(measure(options))))


if __name__ == "__main__":
    main()

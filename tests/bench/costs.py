"""What one task costs, by engine: `python -m tests.bench.costs` writes costs.json (ten minutes).

CPU seconds of the worker and of each server, commands, bytes. A task is answered at once (no tool
call) or after two calls of tools, one after the other; the model server is a process of its own
over HTTP, and costs nothing here. Queue and store have a server each, so that their parts can be
told apart; each change is on the disk before it is answered. Counts hold on any machine; CPU seconds are
those of the one named in the file. A busy machine can only add to them: of several rounds the least counts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.gauge import Gauge
from tests.bench.servercost import (
    Counts,
    Meter,
    nats_counts,
    postgres_counts,
    redis_counts,
    spent,
)
from tests.bench.worked import export_to_nobody, fill, worker_tools
from tests.matrix.engines import DURABLE_REDIS
from tests.servers import natsserver, postgresserver, rabbitserver, redisserver
from tests.servers.server import free_ports
from worker import Settings, Worker
from worker.app import relieved_collector
from worker.telemetry.signals import TaskSettled

# A log that is written anew would look as if it had shrunk.
LASTING_REDIS = (*DURABLE_REDIS, "--auto-aof-rewrite-percentage", "0")
HERE = Path(__file__).parent
IN_FLIGHT = (16, 128)
SHAPES = {"answer": 0, "two_calls": 2}


@dataclass
class Site:
    """Where queue and store are, and how to name a part of each that nobody used before."""

    queue_url: Any
    store_url: Any = None
    meters: dict[str, Meter] = field(default_factory=dict)


@contextmanager
def sqlite(folder: Path) -> Iterator[Site]:
    """Both in one file."""
    numbers = iter(range(10_000))
    yield Site(lambda: f"sqlite:///{folder}/costs-{next(numbers)}.db?synchronous=full")


@contextmanager
def postgresql(folder: Path) -> Iterator[Site]:
    """Two servers."""
    with postgresserver.postgres_server() as queue, postgresserver.postgres_server() as store:
        meters = {"queue": Meter(queue, postgres_counts), "store": Meter(store, postgres_counts)}
        own = postgresserver.own_url
        yield Site(lambda: own(queue.port), lambda: own(store.port), meters)


@contextmanager
def with_redis(folder: Path, queue: Any, counts: Any, own_url: Any) -> Iterator[Site]:
    """Some queue, and its store on Redis."""
    place = folder / "store"
    place.mkdir()
    with redisserver.redis_server(place, *LASTING_REDIS) as store:
        meters = {"queue": Meter(queue, counts), "store": Meter(store, redis_counts)}
        yield Site(lambda: own_url(queue.port), lambda: redisserver.own_url(store.port), meters)


@contextmanager
def redis(folder: Path) -> Iterator[Site]:
    """Two servers."""
    with (
        redisserver.redis_server(folder, *LASTING_REDIS) as queue,
        with_redis(folder, queue, redis_counts, redisserver.own_url) as site,
    ):
        yield site


@contextmanager
def rabbitmq(folder: Path) -> Iterator[Site]:
    """RabbitMQ, and Redis for the store."""
    with (
        rabbitserver.rabbit_server(folder) as queue,
        with_redis(folder, queue, None, rabbitserver.own_url) as site,
    ):
        yield site


@contextmanager
def nats(folder: Path) -> Iterator[Site]:
    """NATS, and Redis for the store."""
    port = free_ports(2)
    with (
        natsserver.nats_server(
            folder, f'http: "127.0.0.1:{port + 1}"', jetstream="sync_interval: always", port=port
        ) as queue,
        with_redis(folder, queue, nats_counts, natsserver.own_url) as site,
    ):
        yield site


ENGINES = {
    "sqlite": sqlite,
    "postgresql": postgresql,
    "redis": redis,
    "rabbitmq": rabbitmq,
    "nats": nats,
}


class Ticks:
    """A listener that counts settled tasks."""

    def __init__(self, gauge: Gauge) -> None:
        self.gauge = gauge

    def hears(self, kind: type) -> bool:
        """Nothing else."""
        return kind is TaskSettled

    def told(self, signal: Any) -> None:
        """One more, if it is over; one that comes back costs what it costs."""
        if signal.outcome == "ack":
            self.gauge.tick()

    def started(self, operation: Any) -> None:
        """Nothing."""

    def settled(self, operation: Any, token: Any) -> None:
        """Nothing."""


async def one_case(site: Site, model: str, in_flight: int, count: int, folder: Path) -> Counts:
    """Let a worker answer `count` tasks, and say what each of them cost whom."""
    queue_url, store_url = site.queue_url(), site.store_url() if site.store_url else None
    gauge = Gauge(warm=max(100, 2 * in_flight), count=count)
    total = gauge.warm + count + 2 * in_flight
    reading = {name: meter.read() for name, meter in site.meters.items()}
    await fill(queue_url, total)
    costs: Counts = {}
    if "queue" in site.meters:
        put = spent(reading["queue"], site.meters["queue"].read(), tasks=total)
        costs |= {f"put.{name}": value for name, value in put.items()}
    settings = Settings(
        admin="off",
        http="off",
        concurrency=in_flight,
        guard={"limit": in_flight},
        model="mock-1",
        model_url=model,
        queue_url=queue_url,
        store_url=store_url,
    )
    tools = worker_tools({"look_up": look_up, "measure": measure})
    with (folder / "lines.jsonl").open("w") as log:
        async with Worker(settings, tools=tools, listeners=[Ticks(gauge)], log_stream=log):
            with relieved_collector():
                await gauge.is_warm.wait()
                before = {name: meter.read() for name, meter in site.meters.items()}
                size = file_bytes(queue_url)
                await gauge.done.wait()
                after = {name: meter.read() for name, meter in site.meters.items()}
                costs["file.stored_bytes"] = (file_bytes(queue_url) - size) / count
    costs["worker.cpu_s"] = gauge.figures()["cpu_ms"] / 1e3
    for name in site.meters:
        each = spent(before[name], after[name], tasks=count)
        costs |= {f"{name}.{what}": value for what, value in each.items()}
    return costs


async def look_up(key: str, region: str) -> str:
    """A tool that does nothing."""
    return f"{key} is on shelf 7 in {region}."


async def measure(key: str, region: str) -> str:
    """Another."""
    return f"{key} measures 42 in {region}."


def file_bytes(url: str) -> int:
    """Bytes of a SQLite file, without its log; 0 for servers."""
    if not url.startswith("sqlite:"):
        return 0
    return Path(url.removeprefix("sqlite:///").partition("?")[0]).stat().st_size


@contextmanager
def model_server(tool_calls: int) -> Iterator[str]:
    """A model that answers at once, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.mockmodel", "--calls", str(tool_calls)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.stdin.close()


def measured(engines: list[str], *, count: int, rounds: int) -> dict[str, Any]:
    """The least costs of several rounds, by engine, shape and tasks in flight."""
    found: dict[str, Any] = {}
    for engine in engines:
        with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as stack:
            site = stack.enter_context(ENGINES[engine](Path(made)))
            models = {
                name: stack.enter_context(model_server(calls)) for name, calls in SHAPES.items()
            }
            for _ in range(rounds):
                for shape, model in models.items():
                    for in_flight in IN_FLIGHT:
                        gc.collect()
                        case = one_case(site, model, in_flight, count, Path(made))
                        costs = asyncio.run(case)
                        key = f"{engine} {shape} {in_flight}"
                        known = found.setdefault(key, costs)
                        found[key] = {name: min(known[name], costs[name]) for name in costs}
                        print(key, json.dumps(costs), file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Measure and write the file; engines that are not named keep what the file says of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=list(ENGINES))
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    export_to_nobody()
    file = HERE / "costs.json"
    told = json.loads(file.read_text()) if file.exists() else {"costs": {}}
    told["costs"] |= measured(options.engines, count=options.count, rounds=options.rounds)
    told["measured"] = time.strftime("%Y-%m-%d")
    told["machine"] = processor()
    file.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


def processor() -> str:
    """What the machine calls its processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "?")


if __name__ == "__main__":
    main()

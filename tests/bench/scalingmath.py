"""From the cost of one task to machines: how many workers, servers, shards and cells for so many a day."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COSTS = Path(__file__).with_name("costs.json")
DAY = 86_400
PER_DAY = (1_000_000, 100_000_000, 1_000_000_000)


@dataclass(frozen=True)
class Assumed:
    """What is not measured here, and yours to replace.

    `task_seconds`: three answers of a model at 4 s, two tools at 0.5 s. `peak`: the busiest minute over
    the mean. `busy`: how much of a core is planned with. `database_cores`: of a PostgreSQL server.
    """

    task_seconds: float = 13.0
    peak: float = 3.0
    busy: float = 0.6
    database_cores: int = 16
    store_memory_bytes: float = 64e9
    retention_days: float = 7.0


@dataclass(frozen=True)
class Engine:
    """A queue's engine with its store. `cores`: how many one queue of it can keep busy."""

    name: str
    title: str
    cores: int
    store: str  # whose figures its store has
    then: str


ENGINES = (
    Engine(
        *("sqlite", "SQLite", 1, "sqlite"),
        "another engine: the file is one machine's, and has one writer",
    ),
    Engine(
        *("postgresql", "PostgreSQL", Assumed.database_cores, "postgresql"),
        "a server for each shard: `postgresql://…@pg-{shard}/…`",
    ),
    Engine(
        *("redis", "Redis", 1, "redis"),
        "a server for each shard: `redis://redis-{shard}…`; one thread runs all commands",
    ),
    Engine(
        *("rabbitmq", "RabbitMQ + Redis", 1, "redis"),
        "`QUEUE_SHARDS` on the same cluster: each queue has one process on one node, the leaders spread",
    ),
    Engine(
        *("nats", "NATS + Redis", 1, "redis"),
        "`QUEUE_SHARDS` on the same cluster: each stream has one leader, the leaders spread",
    ),
)


@dataclass(frozen=True)
class Costs:
    """What was measured, by engine, shape of the task and tasks in flight."""

    told: dict[str, Any]

    @classmethod
    def read(cls) -> Costs:
        """The file that `tests/bench/costs.py` writes."""
        return cls(json.loads(COSTS.read_text()))

    def of(
        self, engine: str, what: str, *, shape: str = "two_calls", in_flight: int = 128
    ) -> float:
        """One figure of a task; 0 where it was not counted."""
        return float(self.told["costs"][f"{engine} {shape} {in_flight}"].get(what, 0.0))

    def queue(self, engine: str, what: str) -> float:
        """What a task costs its queue, from the hand that puts it to its settlement."""
        return self.of(engine, f"put.{what}") + self.of(engine, f"queue.{what}")

    def store(self, engine: Engine, what: str) -> float:
        """What a task costs its store, on the engine that has one."""
        return self.of(engine.store, f"store.{what}")


def peak_rate(per_day: float, assumed: Assumed) -> float:
    """Tasks a second in the busiest minute."""
    return per_day / DAY * assumed.peak


def workers(rate: float, cpu_seconds: float, in_flight: int, assumed: Assumed) -> int:
    """Processes: as many as their CPU asks for, or as their slots do, whichever is more."""
    by_cpu = rate * cpu_seconds / assumed.busy
    by_slots = rate * assumed.task_seconds / in_flight
    return max(1, math.ceil(max(by_cpu, by_slots)))


def most(cpu_seconds: float, cores: int, assumed: Assumed) -> float:
    """Tasks a second that so many cores carry."""
    return cores * assumed.busy / cpu_seconds


def queue_most(costs: Costs, engine: Engine, assumed: Assumed) -> float:
    """Tasks a second through one queue, or one shard."""
    if engine.name == "sqlite":
        return most(costs.of("sqlite", "worker.cpu_s"), 1, assumed)
    return most(costs.queue(engine.name, "cpu_s"), engine.cores, assumed)


def store_most(costs: Costs, engine: Engine, assumed: Assumed) -> float:
    """Tasks a second through one store; without bound where the queue's file is the store."""
    cpu = costs.store(engine, "cpu_s")
    cores = assumed.database_cores if engine.store == "postgresql" else 1
    return most(cpu, cores, assumed) if cpu else math.inf


def needed(rate: float, each: float) -> int:
    """How many of something that carries `each`."""
    return max(1, math.ceil(rate / each))

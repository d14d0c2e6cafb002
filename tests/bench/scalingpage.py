"""Writes docs/scaling.md from what was measured: `python -m tests.bench.scalingpage`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from tests.bench.scalingmath import (
    DAY,
    ENGINES,
    PER_DAY,
    Assumed,
    Costs,
    Engine,
    needed,
    peak_rate,
    queue_most,
    store_most,
    workers,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"

TEXT = """# How far it goes

How many workers and servers a million, a hundred million and a thousand million tasks a day need, which engine stops where, and what to
do then. Written by `python -m tests.bench.scalingpage` from [what one task costs](../tests/bench/costs.json), which
`python -m tests.bench.costs` measures; put your own figures into `Assumed` in
[scalingmath.py](../tests/bench/scalingmath.py). Counts (commands, bytes) hold on any machine. CPU seconds are those of one core of a
{machine}, which had other work to do at the same time ({measured}): take them for too high rather than too low. **Nothing here was run at these rates**: it is
arithmetic over measured costs, for planning, and a load test with your tasks comes before you rely on it.

## What one task costs

Two calls of tools, one after the other, so three answers of the model, over HTTP; queue and store have a server each, and each change is on
its disk before it is answered. *Queue* is everything from the hand that puts the task in to its settlement. Figures of servers are those of a worker
with 128 in flight, which claims many tasks at once; with 16, a queue costs up to twice as much.

{costs}

Each further call of a tool, with the answer of the model that asked for it:

{steps}

## What is assumed

A task takes {seconds:g} s (three answers at 4 s, two tools at 0.5 s). The busiest minute has {peak:g} times the mean. A core is planned with {busy:.0%}.
One worker process uses one core. A PostgreSQL server has {cores} cores. Redis runs commands in one thread; a quorum queue of RabbitMQ and a stream of
NATS have one leader each, and all that the server did is counted as if that leader had done it.

    rate     = tasks a day / 86400 × {peak:g}
    workers  = max(rate × CPU seconds / {busy:g}, rate × {seconds:g} s / tasks in flight)
    shards   = rate / (cores of one queue × {busy:g} / CPU seconds in the queue)
    cells    = rate / (cores of one store × {busy:g} / CPU seconds in the store)

## Workers

{workers}

Slots, not CPU, ask for workers: at these costs one core carries {per_core} tasks in flight. Raise `LOOPWORKER_CONCURRENCY` before the number of
replicas; what a thousand in flight cost in memory stands in [RESULTS.md](../tests/bench/RESULTS.md). KEDA follows by itself
([deploy/kubernetes](../deploy/kubernetes/README.md)); change its threshold with the concurrency. And the model has to answer:
at a thousand million a day that is {model_calls} requests a second in the busiest minute.

## Load of queue and store, in the busiest minute

{load}

## Which engine stops where

By CPU alone: disks, networks and locks may stop it sooner.

{stops}

**More than one queue carries**: `LOOPWORKER_QUEUE_SHARDS` ([README](../README.md#shards)). With tasks that belong to sessions, one session is
never faster than one shard; a tenant is, unless `QUEUE_SHARD_BY=tenant`.

An idle worker waits at each shard that it reads: {waits} waiting consumers for the {shards} shards of the last line below, if every
worker reads all. From some thousand on, give each worker a part with `LOOPWORKER_QUEUE_SHARD_SET`; `doctor` and the metrics name
shards that nobody reads.

**More than one store carries**: there is one store for all shards, because it says whose a session is. Beyond it, run *cells*: whole
deployments, each with its queue, store and workers, and a router before them that sends a tenant always to the same one
(by the same hash, of the tenant). Nothing crosses from one cell to another, so limits of a tenant, sessions and ids hold as ever. Shards within a cell are then
the shards above, divided by the cells.

{plan}

## What is kept

Journals and results stay for `LOOPWORKER_RETENTION` (7 days). On Redis that is memory: long before its commands, its size asks for a shorter retention or
for PostgreSQL.

{kept}
"""


def page(costs: Costs, assumed: Assumed | None = None) -> str:
    """The whole page."""
    assumed = assumed or Assumed()
    cpu = costs.of("redis", "worker.cpu_s")
    return TEXT.format(
        machine=costs.told["machine"],
        measured=costs.told["measured"],
        costs=cost_table(costs),
        steps=step_table(costs),
        seconds=assumed.task_seconds,
        peak=assumed.peak,
        busy=assumed.busy,
        cores=assumed.database_cores,
        workers=worker_table(costs, assumed),
        per_core=two(assumed.busy * assumed.task_seconds / cpu),
        model_calls=two(3 * peak_rate(PER_DAY[-1], assumed)),
        load=load_table(costs, assumed),
        stops=stop_table(costs, assumed),
        waits=two(waits(costs, assumed)),
        shards=shards(costs, ENGINES[-1], PER_DAY[-1], assumed),
        plan=plan_table(costs, assumed),
        kept=kept_table(costs, assumed),
    )


def two(value: float) -> str:
    """A number with two digits that mean something; a dash where nothing was counted."""
    if value == 0:
        return "–"
    if math.isinf(value):
        return "no bound"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown, figures to the right."""
    names = list(head)
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *[list(row) for row in rows]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def cost_table(costs: Costs) -> str:
    """What one task costs whom."""
    head = (
        *("queue and store", "worker, 16 in flight, ms CPU", "128 in flight"),
        *("queue, ms CPU", "commands", "KB of log", "store, ms CPU", "commands ", "KB of log "),
    )

    def row(engine: Engine) -> list[str]:
        of = engine.name
        return [
            engine.title,
            *(two(costs.of(of, "worker.cpu_s", in_flight=n) * 1e3) for n in (16, 128)),
            *(two(costs.queue(of, "cpu_s") * 1e3), two(costs.queue(of, "commands"))),
            two(costs.queue(of, "log_bytes") / 1e3),
            *(two(costs.store(engine, "cpu_s") * 1e3), two(costs.store(engine, "commands"))),
            two(costs.store(engine, "log_bytes") / 1e3),
        ]

    note = (
        "\n\nCommands: of Redis, those within its scripts counted as well; of PostgreSQL, transactions; of"
        " NATS, messages in and out; RabbitMQ was not asked. SQLite's part is in the worker."
    )
    return table(head, map(row, ENGINES)) + note


def step_table(costs: Costs) -> str:
    """What the second shape of task costs beyond the first, for each of its two calls."""

    def each(engine: Engine, what: str, of: str) -> float:
        much, little = (costs.of(of, what, shape=shape) for shape in ("two_calls", "answer"))
        return max(0.0, much - little) / 2

    def row(engine: Engine) -> list[str]:
        stored = (
            each(engine, "file.stored_bytes", "sqlite")
            if engine.name == "sqlite"
            else each(engine, "store.stored_bytes", engine.store)
        )
        return [
            engine.title,
            two(each(engine, "worker.cpu_s", engine.name) * 1e3),
            two(each(engine, "store.cpu_s", engine.store) * 1e3),
            two(stored / 1e3),
        ]

    head = ("queue and store", "worker, ms CPU", "store, ms CPU", "KB kept")
    return table(head, map(row, ENGINES))


def worker_table(costs: Costs, assumed: Assumed) -> str:
    """Worker processes by tasks a day, at 16 and 128 in flight."""

    def row(per_day: int) -> list[str]:
        rate = peak_rate(per_day, assumed)
        counts = [
            workers(rate, costs.of("redis", "worker.cpu_s", in_flight=n), n, assumed)
            for n in (16, 128)
        ]
        cores = rate * costs.of("redis", "worker.cpu_s") / assumed.busy
        return [
            *(f"{per_day:,}", two(per_day / DAY), two(rate)),
            *(f"{count:,}" for count in counts),
            two(cores),
        ]

    head = (
        *("tasks a day", "a second, mean", "a second, busiest minute"),
        *("workers, 16 in flight", "workers, 128 in flight", "cores that they use"),
    )
    return table(head, map(row, PER_DAY))


def load_table(costs: Costs, assumed: Assumed) -> str:
    """Cores, commands and log of the servers at each rate."""

    def row(engine: Engine, per_day: int) -> list[str]:
        rate, of = peak_rate(per_day, assumed), engine.name
        return [
            f"{engine.title}, {per_day:,}",
            two(rate * costs.queue(of, "cpu_s")),
            two(rate * costs.queue(of, "commands")),
            two(rate * costs.queue(of, "log_bytes") / 1e6),
            two(rate * costs.store(engine, "cpu_s")),
            two(rate * costs.store(engine, "log_bytes") / 1e6),
        ]

    head = (
        *("engine, tasks a day", "queue, cores", "commands/s", "log MB/s"),
        *("store, cores", "log MB/s "),
    )
    served = [engine for engine in ENGINES if engine.name != "sqlite"]
    return table(head, (row(engine, per_day) for engine in served for per_day in PER_DAY))


def stop_table(costs: Costs, assumed: Assumed) -> str:
    """What one queue and one store carry, and what comes after."""

    def row(engine: Engine) -> list[str]:
        queue, store = queue_most(costs, engine, assumed), store_most(costs, engine, assumed)
        return [
            engine.title,
            *(two(queue), two(queue * DAY / assumed.peak / 1e6)),
            *(two(store), two(store * DAY / assumed.peak / 1e6)),
            engine.then,
        ]

    head = (
        *("queue and store", "one queue, tasks/s", "million a day", "one store, tasks/s"),
        *("million a day ", "then"),
    )
    return table(head, map(row, ENGINES))


def shards(costs: Costs, engine: Engine, per_day: int, assumed: Assumed) -> int:
    """How many shards carry so many tasks a day."""
    return needed(peak_rate(per_day, assumed), queue_most(costs, engine, assumed))


def waits(costs: Costs, assumed: Assumed) -> int:
    """Waiting consumers at the highest rate, where every worker reads every shard."""
    rate = peak_rate(PER_DAY[-1], assumed)
    count = workers(rate, costs.of(ENGINES[-1].name, "worker.cpu_s"), 128, assumed)
    return count * shards(costs, ENGINES[-1], PER_DAY[-1], assumed)


def plan_table(costs: Costs, assumed: Assumed) -> str:
    """Shards and cells by tasks a day."""

    def row(engine: Engine) -> list[str]:
        cells = [engine.title]
        for per_day in PER_DAY:
            stores = needed(peak_rate(per_day, assumed), store_most(costs, engine, assumed))
            cells.append(f"{shards(costs, engine, per_day, assumed):,} / {stores:,}")
        return cells

    head = ("shards / cells for", *(f"{per_day:,} a day" for per_day in PER_DAY))
    served = [engine for engine in ENGINES if engine.name != "sqlite"]
    return table(head, map(row, served))


def kept_table(costs: Costs, assumed: Assumed) -> str:
    """Bytes of a finished task, and what they come to."""

    def row(title: str, each: float, *, is_memory: bool = False) -> list[str]:
        fits = assumed.store_memory_bytes / each if is_memory else 0
        return [
            title,
            two(each / 1e3),
            *(two(each * n * assumed.retention_days / 1e9) for n in PER_DAY),
            *(two(fits / n * 24) for n in PER_DAY[1:]),
        ]

    memory = f"{assumed.store_memory_bytes / 1e9:.0f} GB of memory"
    head = (
        *("queue and store", "KB of a task", *(f"GB in 7 days, {n:,} a day" for n in PER_DAY)),
        *(f"hours in {memory}, {n:,} a day" for n in PER_DAY[1:]),
    )
    rows = [
        row("SQLite", costs.of("sqlite", "file.stored_bytes")),
        row("PostgreSQL", kept(costs, "postgresql")),
        row("Redis", kept(costs, "redis"), is_memory=True),
    ]
    return table(head, rows)


def kept(costs: Costs, name: str) -> float:
    """Bytes of a task that is over: its journal, its result, and its id in the queue."""
    return costs.queue(name, "stored_bytes") + costs.of(name, "store.stored_bytes")


if __name__ == "__main__":
    PAGE.write_text(page(Costs.read()), "utf-8")

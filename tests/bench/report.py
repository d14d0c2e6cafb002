"""Figures as a page: first the targets as ratios, then what they are made of."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from tests.bench.plan import IN_FLIGHT, MANY, PEERS, QUEUED, SERVERS_OF_QUEUES, Case

SHOWN_VERSIONS = ("aiohttp", "httpx", "httpx-aiohttp", "opentelemetry-sdk", "orjson",
                  "prometheus-client", "pybreaker", "structlog", "tenacity")  # fmt: skip
# speed.md's lean loop over bare aiohttp, at 16 in flight.
LEAN_OVER_AIOHTTP = 4.3
BAND = 20  # steps
ENGINE_NAMES = {
    "postgresql": "PostgreSQL",
    "redis": "Redis, appendfsync always",
    "nats": "NATS, journal on Redis",
    "rabbitmq": "RabbitMQ, journal on Redis",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of the rounds, and their spread."""

    median: float
    least: float
    most: float

    def shown(self, unit: str = "", digits: int = 2) -> str:
        """Return e.g. 1.20 ms (1.10–1.31)."""
        unit = f" {unit}" if unit else ""
        spread = f"{self.least:.{digits}f}–{self.most:.{digits}f}"
        return f"{self.median:.{digits}f}{unit} ({spread})"


class Results:
    """All figures of all rounds, by case."""

    def __init__(self, figures: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        self._figures = figures

    def has(self, *names: str) -> bool:
        """Say whether all these cases were run."""
        return all(self._figures.get(name) for name in names)

    def rounds(self, case: str) -> Sequence[dict[str, Any]]:
        """Return what each round found."""
        return self._figures[case]

    def of(self, case: str, name: str) -> Figure:
        """Return one figure."""
        return figure(each[name] for each in self._figures[case])

    def ratio(self, case: str, other: str, name: str) -> Figure:
        """Return the ratio of two cases, round by round."""
        pairs = zip(self._figures[case], self._figures[other], strict=True)
        return figure(one[name] / two[name] for one, two in pairs)


def figure(values: Iterable[float]) -> Figure:
    """Return the median and the spread."""
    found = list(values)
    return Figure(statistics.median(found), min(found), max(found))


def page(results: Results, chosen: Sequence[Case], *, rounds: int) -> str:
    """Return the whole page."""
    parts = [
        "# How fast it is\n",
        f"Written by `make bench`: {rounds} rounds, each case once a round in a fresh process, all"
        " of them against the same local model server. Median (smallest–largest). Read ratios: the"
        " absolute figures belong to the machine. *Lean* is `tests/bench/lean.py`, which tells by hand"
        " the least that is promised: 7 lines, 6 spans. `tests/bench/told.py` is the same loop with"
        " the telemetry of the worker: its 11 lines, 10 spans and metrics, by its own listeners.\n",
        "## Targets\n",
        table(("what", "measured", "now", "later"), target_rows(results)),
        "A ratio is taken round by round. NORMAL and FULL are SQLite's `synchronous`: FULL survives a"
        " loss of power, NORMAL a crash. CPU is that of the whole process, all threads, start-up"
        " excluded; memory is the growth of the resident size, connections included.\n",
        "## Agent loops: CPU milliseconds of one loop\n",
        table(("loop", *(f"{c} in flight" for c in IN_FLIGHT)), loop_rows(results)),
        "## Where the worker's CPU goes, by thread, ms per loop\n",
        table(("thread", *(f"{c} in flight" for c in IN_FLIGHT)), thread_rows(results)),
        "## Queue and journal: tasks per second\n",
        table(("what", "tasks/s", "CPU µs per task"), queue_rows(results)),
        "## Beside other task queues, on one Redis server that writes nothing to the disk\n",
        table(
            ("what", "tasks/s", "CPU µs per task", "submit to start p50 ms", "p99 ms"),
            beside_rows(results),
        ),
        "An empty task; the worker's is a run whose model answers at once. It renews leases, fences,"
        " journals and keeps a result; the others do nothing of that. *Quiet*: no spans, and lines"
        " of errors only.\n",
        "## 1,000 in flight before a short queue and a long one\n",
        table(
            ("engine", "queued", "CPU µs per task", "resident MiB at most"), filled_rows(results)
        ),
        "## A run of 200 steps with results of 2 KB\n",
        table(("steps", "CPU ms per step", "stored bytes per step"), step_rows(results)),
        "## Versions and commands\n",
        versions(),
        "\n".join(["```sh", "make bench", *(case.shown() for case in chosen), "```", ""]),
    ]
    return "\n".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, or a word when nothing was measured."""
    if not rows:
        return "Not measured in this run.\n"
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def target_rows(results: Results) -> list[list[str]]:
    """Return a row for each target: what was measured, the bound now and the later one."""
    rows: list[list[str]] = []

    def add(what: str, found: Figure, now: float, later: float, unit: str = "", d: int = 2) -> None:
        marks = [f"≤ {b:g} {'✓' if found.median <= b else '✗'}" if b else "–" for b in (now, later)]
        rows.append([what, found.shown(unit, d), *marks])

    for count in IN_FLIGHT:
        worker, lean = f"worker c={count}", f"lean c={count}"
        if results.has(worker, lean):
            found = results.ratio(worker, lean, "cpu_ms")
            add(f"CPU per loop, × lean, {count} in flight", found, 2.0, 1.5)
        if results.has(worker, f"lean-told c={count}"):
            found = results.ratio(worker, f"lean-told c={count}", "cpu_ms")
            add(
                f"the same, × lean with the worker's lines and spans, {count} in flight",
                found,
                2.0,
                0,
            )
        quick, lean_quick = f"worker-uvloop c={count}", f"lean-uvloop c={count}"
        if results.has(quick, lean_quick):
            found = results.ratio(quick, lean_quick, "cpu_ms")
            add(f"the same, both on uvloop, {count} in flight", found, 0, 0)
    if results.has("worker latency", "lean c=1"):
        for name, later in (("p50_ms", 1.5), ("p99_ms", 2.0)):
            found = results.ratio("worker latency", "lean c=1", name)
            add(f"latency {name[:3]}, × lean, 1 in flight", found, 0, later)
    if results.has("worker many"):
        found = results.of("worker many", "kib_each")
        add(f"memory per loop, {MANY} in flight", found, 150, 60, "KiB", 0)
        if results.has("worker c=16"):
            found = results.ratio("worker many", "worker c=16", "cpu_ms")
            add(f"CPU per loop, {MANY} in flight, × 16 in flight", found, 1.5, 0)
    if results.has("guarded"):
        found = results.of("guarded", "async_us")
        add("guarded call of an async tool, beyond the call", found, 150, 60, "µs", 0)
        found = results.of("guarded", "sync_us")
        add("guarded call of a sync tool, beyond the call", found, 0, 0, "µs", 0)
    if results.has("ready"):
        add("start to ready", results.of("ready", "ready_s"), 1.5, 0.7, "s")
    if results.has("reading"):
        add("reading a reply of 2 KB", results.of("reading", "whole_us"), 100, 0, "µs", 0)
        add("reading a stream, × json.loads", results.of("reading", "stream_vs_json"), 1.3, 0)
    return rows + other_rows(results)


def other_rows(results: Results) -> list[list[str]]:
    """Return the rows whose bound is no upper one."""
    rows: list[list[str]] = []
    for mode in ("full", "normal"):
        if results.has(f"queue worker {mode}", f"queue raw {mode}"):
            found = results.ratio(f"queue worker {mode}", f"queue raw {mode}", "per_second")
            bound = f"≥ 0.25 {'✓' if found.median >= 0.25 else '✗'}" if mode == "full" else "–"
            what = f"tasks/s with journal, × raw claim and ack, {mode.upper()}"
            rows.append([what, found.shown(), "–", bound])
    rows += queue_targets(results)
    if results.has("lean c=16", "aiohttp c=16"):
        found = results.ratio("lean c=16", "aiohttp c=16", "cpu_ms")
        near = abs(found.median / LEAN_OVER_AIOHTTP - 1) <= 0.15
        bound = f"{LEAN_OVER_AIOHTTP} ± 15 % {'✓' if near else '✗'}"
        rows.append(["lean, × bare aiohttp, 16 in flight", found.shown(), "–", bound])
    return rows


def queue_targets(results: Results) -> list[list[str]]:
    """Return the rows that hold the worker on Redis against the best of the other task queues."""
    rows: list[list[str]] = []
    peers = [kind for kind in PEERS if results.has(f"redis {kind}", f"redis {kind} latency")]
    if not peers or not results.has("redis worker", "redis worker quiet", "redis worker latency"):
        return rows
    best = max(peers, key=lambda kind: results.of(f"redis {kind}", "per_second").median)
    for name, what in (("redis worker quiet", "quiet"), ("redis worker", "with all telemetry")):
        found = results.ratio(name, f"redis {best}", "per_second")
        bound = f"≥ 1.0 {'✓' if found.median >= 1 else '✗'}" if what == "quiet" else "–"
        rows.append([f"tasks/s on Redis, {what}, × {best}", found.shown(), bound, "–"])
    best = min(peers, key=lambda kind: results.of(f"redis {kind} latency", "p99_ms").median)
    found = results.ratio("redis worker latency", f"redis {best} latency", "p99_ms")
    bound = f"≤ 2 {'✓' if found.median <= 2 else '✗'}"
    rows.append([f"submit to start p99, × {best}", found.shown(), bound, "–"])
    for engine in ("sqlite", "redis"):
        short, long = (f"queued {engine} {queued}" for queued in QUEUED)
        if results.has(short, long):
            found = results.ratio(long, short, "cpu_ms")
            what = f"CPU per task, {QUEUED[1]:,} queued × {QUEUED[0]:,}, {engine}"
            rows.append([what, found.shown(), "flat", "–"])
    return rows


def beside_rows(results: Results) -> list[list[str]]:
    """Return the speed of the worker and of other task queues."""
    rows = []
    for name in ("worker", "worker quiet", *PEERS):
        case, timed = f"redis {name}", f"redis {name.removesuffix(' quiet')} latency"
        if results.has(case):
            cells = [name if name in PEERS else f"**{name}**"]
            cells.append(results.of(case, "per_second").shown(digits=0))
            cells.append(
                figure(each["cpu_ms"] * 1e3 for each in results.rounds(case)).shown(digits=0)
            )
            is_timed = name != "worker" and results.has(timed)
            for each in ("p50_ms", "p99_ms"):
                cells.append(results.of(timed, each).shown() if is_timed else "–")
            rows.append(cells)
    return rows


def filled_rows(results: Results) -> list[list[str]]:
    """Return what a task costs before a short queue and a long one."""
    rows = []
    for engine in ("sqlite", "redis"):
        for queued in QUEUED:
            case = f"queued {engine} {queued}"
            if results.has(case):
                cpu = figure(each["cpu_ms"] * 1e3 for each in results.rounds(case)).shown(digits=0)
                size = results.of(case, "resident_mib").shown(digits=0)
                rows.append([engine, f"{queued:,}", cpu, size])
    return rows


def loop_rows(results: Results) -> list[list[str]]:
    """Return the CPU of each kind of loop."""
    names = {
        "aiohttp": "bare, aiohttp",
        "transport": "bare, httpx over our transport",
        "httpx": "bare, httpx over httpcore",
        "lean": "lean",
        "lean-own": "lean, our HTTP client",
        "lean-told": "lean, the worker's telemetry",
        "worker": "**worker**, synchronous FULL",
        "worker-normal": "**worker**, synchronous NORMAL",
        "lean-uvloop": "lean on uvloop",
        "worker-uvloop": "**worker** on uvloop, synchronous FULL",
    }
    rows = []
    for kind, name in names.items():
        if results.has(*(f"{kind} c={count}" for count in IN_FLIGHT)):
            cells = [results.of(f"{kind} c={count}", "cpu_ms").shown() for count in IN_FLIGHT]
            rows.append([name, *cells])
    return rows


def thread_rows(results: Results) -> list[list[str]]:
    """Return the worker's CPU by thread."""
    names = [f"worker c={count}" for count in IN_FLIGHT]
    if not results.has(*names):
        return []
    threads = dict.fromkeys(
        thread for name in names for each in results.rounds(name) for thread in each["threads"]
    )
    rows = []
    for thread in threads:
        cells = [
            f"{statistics.median(each['threads'].get(thread, 0.0) for each in found):.2f}"
            for found in map(results.rounds, names)
        ]
        if any(cell != "0.00" for cell in cells):
            rows.append([thread, *cells])
    return rows


def queue_rows(results: Results) -> list[list[str]]:
    """Return the speed of the queue, ours and raw."""
    rows = []
    for mode in ("full", "normal"):
        for kind in ("worker", "raw"):
            case = f"queue {kind} {mode}"
            if results.has(case):
                cpu = figure(each["cpu_ms"] * 1e3 for each in results.rounds(case))
                name = "claim, journal, answer, ack" if kind == "worker" else "raw claim and ack"
                speed = results.of(case, "per_second").shown(digits=0)
                rows.append([f"{name}, {mode.upper()}", speed, cpu.shown(digits=0)])
    for engine in SERVERS_OF_QUEUES:
        if results.has(f"queue {engine}"):
            found = results.rounds(f"queue {engine}")
            cpu = figure(each["cpu_ms"] * 1e3 for each in found).shown(digits=0)
            speed = results.of(f"queue {engine}", "per_second").shown(digits=0)
            rows.append([f"claim, journal, answer, ack, {ENGINE_NAMES[engine]}", speed, cpu])
    return rows


def step_rows(results: Results) -> list[list[str]]:
    """Return cost and size of a step as the conversation grows, in bands."""
    if not results.has("steps"):
        return []
    rows = []
    found = results.rounds("steps")
    for start in range(0, found[0]["steps"] - BAND + 1, BAND):
        cpu = figure(statistics.median(each["cpu_ms"][start : start + BAND]) for each in found)
        sizes = found[0]["stored_bytes"]
        each_step = len(sizes) / found[0]["steps"]
        part = sizes[int(start * each_step) : int((start + BAND) * each_step)]
        rows.append([f"{start + 1}–{start + BAND}", cpu.shown(), f"{sum(part) / BAND:.0f}"])
    return rows


def versions() -> str:
    """Return what was measured with what."""
    lines = [
        f"- Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} processors,"
        f" SQLite {sqlite3.sqlite_version}, {sys.implementation.name}",
        f"- loopworker {metadata.version('loopworker')}",
        "- " + ", ".join(f"{name} {metadata.version(name)}" for name in SHOWN_VERSIONS),
    ]
    return "\n".join(lines) + "\n"

"""The benchmark still runs: every case in a small size, and the page that is made of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.bench.plan import Case, cases, run, servers
from tests.bench.report import Figure, Results, page

CASES = {case.name: case for case in cases(0.1)}
# One of each kind; the others differ in a number.
CHOSEN = ["aiohttp c=16", "httpx c=1", "transport c=1", "lean c=16", "lean-own c=1",
          "worker latency", "guarded", "reading", "queue raw full", "queue worker full",
          "redis worker quiet", "redis worker latency"]  # fmt: skip


@pytest.fixture(scope="module")
def urls():
    """The model servers of the benchmark."""
    with servers() as found:
        yield found


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_a_case_measures(urls, name):
    """Each kind of case ends well and gives figures above nothing."""
    figures = run(CASES[name], urls)
    numbers = [value for value in figures.values() if isinstance(value, float)]

    assert numbers
    assert all(number > 0 for number in numbers)


@pytest.mark.system
@pytest.mark.slow
def test_the_lean_loop_with_our_telemetry_tells_as_much_as_the_worker(urls):
    """Eleven lines and ten spans for each loop; the worker has one span more, of its queue."""
    worker, told = (run(CASES[f"{kind} c=16"], urls) for kind in ("worker", "lean-told"))

    assert round(worker["log_lines"]) == round(told["log_lines"]) == 11
    assert round(worker["spans"]) - 1 == round(told["spans"]) == 10


@pytest.mark.system
@pytest.mark.slow
def test_a_case_that_fails_is_an_error(urls):
    """A broken case does not become a row of the table."""
    broken = dataclasses.replace(CASES["lean c=16"], arguments=("lean", "--no-such-option"))
    with pytest.raises(RuntimeError, match="no-such-option"):
        run(broken, urls)


def test_the_lean_floor_is_short():
    """What the worker is measured against fits on two screens."""
    text = Path(__file__).with_name("lean.py").read_text(encoding="utf-8")

    assert len(text.splitlines()) < 100


def test_ratios_are_taken_round_by_round():
    """A slow round slows both, so their ratio is that of one round and not of two medians."""
    figures = {
        "a": [{"cpu_ms": 2.0}, {"cpu_ms": 20.0}, {"cpu_ms": 3.0}],
        "b": [{"cpu_ms": 1.0}, {"cpu_ms": 10.0}, {"cpu_ms": 1.0}],
    }

    assert Results(figures).ratio("a", "b", "cpu_ms") == Figure(2.0, 2.0, 3.0)


def test_a_missed_target_is_marked():
    """The page says ✓ for what is met now and ✗ for what a later bound asks."""
    rounds = {f"{kind} c=16": [{"cpu_ms": cpu, "threads": {}}] for kind, cpu in COSTS.items()}
    text = page(Results(rounds), [Case("lean c=16", "loops", ("lean",), "fast")], rounds=1)

    assert "| CPU per loop, × lean, 16 in flight | 1.80 (1.80–1.80) | ≤ 2 ✓ | ≤ 1.5 ✗ |" in text
    assert "python -m tests.bench.loops lean --url" in text


COSTS = {"lean": 1.0, "worker": 1.8}


def test_the_worker_is_held_against_the_best_of_the_others():
    """The fastest of them for throughput, the promptest for latency; a slower one does not count."""
    speeds = {
        "worker": 900.0,
        "worker quiet": 1800.0,
        "arq": 700.0,
        "faststream": 2000.0,
        "taskiq": 1500.0,
    }
    delays = {"worker": 4.0, "arq": 20.0, "faststream": 3.0, "taskiq": 2.5}
    rounds = {
        f"redis {name}": [{"per_second": speed, "cpu_ms": 1.0}] for name, speed in speeds.items()
    }
    rounds |= {
        f"redis {name} latency": [{"p50_ms": 1.0, "p99_ms": p99}] for name, p99 in delays.items()
    }
    text = page(Results(rounds), [], rounds=1)

    assert "| tasks/s on Redis, quiet, × faststream | 0.90 (0.90–0.90) | ≥ 1.0 ✗ | – |" in text
    assert "| submit to start p99, × taskiq | 1.60 (1.60–1.60) | ≤ 2 ✓ | – |" in text
    assert (
        "| **worker quiet** | 1800 (1800–1800) | 1000 (1000–1000) | 1.00 (1.00–1.00) | 4.00" in text
    )

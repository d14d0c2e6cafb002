"""docs/scaling.md says what its module reckons, and the module reckons what its page says."""

from __future__ import annotations

import pytest

from tests.bench.costs import ENGINES as MEASURED
from tests.bench.costs import IN_FLIGHT, SHAPES
from tests.bench.scalingmath import (
    ENGINES,
    PER_DAY,
    Assumed,
    Costs,
    needed,
    peak_rate,
    queue_most,
    store_most,
    workers,
)
from tests.bench.scalingpage import PAGE, page, two


def test_the_page_is_what_the_module_writes():
    """Renew it: python -m tests.bench.scalingpage."""
    assert PAGE.read_text("utf-8") == page(Costs.read())


def test_everything_was_measured():
    """Each engine, each shape of a task, each number in flight; and nothing cost nothing."""
    told = Costs.read().told["costs"]

    assert set(told) == {f"{e} {s} {n}" for e in MEASURED for s in SHAPES for n in IN_FLIGHT}
    for key, costs in told.items():
        spent = [name for name in costs if name.endswith("cpu_s")]
        assert all(costs[name] > 0 for name in spent), key
        assert len(spent) == (1 if key.startswith("sqlite") else 4)


def test_workers_by_hand():
    """86,400,000 tasks a day, evenly: a thousand a second."""
    even = Assumed(task_seconds=10, peak=1, busy=0.5)
    assert peak_rate(86_400_000, even) == 1000

    assert workers(1000, 0.001, 16, even) == 625  # 10,000 in flight over 16 slots
    assert workers(1000, 0.001, 100_000, even) == 2  # one core of CPU, at half load
    assert workers(0.001, 0.001, 16, even) == 1


@pytest.mark.parametrize(
    ("rate", "each", "count"), [(10, 20, 1), (20, 20, 1), (21, 20, 2), (1e6, float("inf"), 1)]
)
def test_servers_are_whole(rate, each, count):
    """And at least one."""
    assert needed(rate, each) == count


def test_what_a_million_a_day_asks_for():
    """One queue and one store of any server carry it; the page must not scare anybody."""
    costs, assumed = Costs.read(), Assumed()
    for engine in ENGINES:
        assert queue_most(costs, engine, assumed) > peak_rate(PER_DAY[0], assumed)
        assert store_most(costs, engine, assumed) > peak_rate(PER_DAY[0], assumed)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "–"), (0.01234, "0.012"), (1.26, "1.3"), (99.6, "100"), (123_456, "120,000")],
)
def test_two_digits(value, text):
    """More would claim to be known."""
    assert two(value) == text

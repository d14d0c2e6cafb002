"""The parts of the RabbitMQ queue that need no server: what is remembered, who is next, names, steps."""

from __future__ import annotations

import pytest

from worker.queues.memory_shelf import Row
from worker.queues.rabbit_memory import RabbitMemory, newest
from worker.queues.rabbit_names import STEPS, RabbitNames
from worker.queues.rabbit_work import rank


def test_the_last_one_knows_best():
    """Of what several processes remember of a task, the newest counts."""
    before, after = RabbitMemory(), RabbitMemory()
    row = Row("t", b"1", 0, 1, 100.0, 100.0, owner="w1")
    before.note(row, "ready")
    after.note(row, "leased", until=4_000_000_000.0)

    place = newest([before.of("t"), after.of("t"), after.of("unknown")])

    assert place is not None
    assert (place.state, place.owner, place.until) == ("leased", "w1", 4_000_000_000.0)
    assert newest([None]) is None


def test_ageing():
    """A task of low priority that has waited long goes before a fresh one of higher."""
    old, fresh = Row("old", b"", -10, 1, 0.0, 0.0), Row("fresh", b"", 10, 2, 0.0, 1201.0)

    assert rank(old) < rank(fresh)
    fresh.ready_at = 1199.0
    assert rank(fresh) < rank(old)


@pytest.mark.parametrize("milliseconds", [1, 250, 3_999, 4_000, 70_000, 100_000_000])
def test_steps(milliseconds):
    """However long, a time is made of steps, and is never cut short."""
    names, waited, left, steps = RabbitNames("tasks"), 0, milliseconds, 0
    while left or not steps:
        name, left = names.step_for("parked", left or milliseconds)
        waited += int(name.rpartition(".")[2])
        steps += 1

    assert milliseconds <= waited < milliseconds + STEPS[0]
    assert steps < 15 * len(STEPS)


def test_names_of_parts_are_no_names_of_queues():
    """Whatever queues are called, each has its own."""
    names = ("a", "a.dead", "a.", ".dead", "a..dead", "a.b", "a.low.front")
    parts = [part for name in names for part in RabbitNames(name).everything()]

    assert len(set(parts)) == len(parts)

"""How a task is read before its steps are decided: what is counted, and how far."""

from __future__ import annotations

from tests.core.fitting_cases import TOOLS
from worker.core.fitting import words_of
from worker.core.steps import BY_TASK, EXPLORATION, LOOKUP, StepPolicy, decide, nature_of
from worker.core.task import Task

CLOCK = words_of([TOOLS["get_current_time"]])
ORDERS = words_of([TOOLS["get_order_detail"]])


def test_a_thing_that_is_named_twice_is_one_thing():
    """Only different ones add to the steps."""
    same = nature_of(Task("t", "订单 20261202US0042, 即 20261202US0042"), ORDERS)
    other = nature_of(Task("t", "订单 20261202US0042, 20261202US0043"), ORDERS)

    assert (same.asked, other.asked) == (1, 2)


def test_pasted_material_is_not_read_to_its_end():
    """A question of a megabyte costs no more than a long one."""
    near, far = "现在几点? " + "x" * 1_000, "现在几点? " + "x" * 5_000
    asked = " 调研 ??"

    assert nature_of(Task("t", near + asked), CLOCK).kind == EXPLORATION
    read = nature_of(Task("t", far + asked), CLOCK)

    assert (read.kind, read.asked) == (LOOKUP, 1)


def test_a_lookup_by_order_that_fits_no_tool_keeps_its_spare_step():
    """Nothing says that its call takes no arguments."""
    task = Task("t", "The kiln, please.", metadata={"task_type": LOOKUP})

    assert decide(task, StepPolicy(BY_TASK), CLOCK).max_steps == 3

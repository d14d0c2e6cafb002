"""A journal decided again: what follows, what does not, and what comes from outside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.test_loop import NOW, answer, calling, returned, started
from worker.core.effects import CallModel, CallTools, Finish
from worker.core.errors import IllegalEvent
from worker.core.events import (
    Ended,
    JobPolled,
    JobStarted,
    ModelFailed,
    Parked,
    Resumed,
    StepsChanged,
    ToolStarted,
)
from worker.core.limits import Limits
from worker.core.messages import ToolCall, Usage
from worker.core.prices import PriceList
from worker.core.redeciding import priced, redecide

ONE, TWO = ToolCall("c1", "price", {"symbol": "A"}), ToolCall("c2", "price", {"symbol": "B"})
BOTH = (started(), calling(ONE, TWO), returned("c2", attempts=1), returned("c1", attempts=1))


def test_decisions_stand_beside_their_facts():
    """What was decided before each of them; the first was decided by nobody."""
    told = redecide(Limits(), [*BOTH, answer()])
    deeds = [type(fact.decision) for fact in told.facts]

    assert deeds == [type(None), CallModel, CallTools, CallTools, CallModel]
    assert (told.difference, isinstance(told.last, Finish)) == (None, True)


def test_after_a_difference_nothing_is_judged():
    """The run would not have come there; its facts are still taken in."""
    told = redecide(Limits(tokens=15), [*BOTH, answer()])

    assert told.difference == 2
    assert [fact.decision for fact in told.facts[3:]] == [None, None]
    assert told.loop.last.text == "done"


def test_a_call_that_would_be_refused_now_differs():
    """It was made; a smaller number of calls in one reply answers it without making it."""
    told = redecide(Limits(max_calls_per_step=1), BOTH)

    assert told.difference == 2
    refused = redecide(Limits(max_calls_per_step=1), [*BOTH[:2], returned("c2", attempts=0)])
    assert refused.difference is None


def test_an_effect_that_would_not_be_begun_differs():
    """Its intent names a call that is not made now."""
    limits = Limits(max_calls_per_step=1)

    assert redecide(limits, [*BOTH[:2], ToolStarted(NOW, "c2", "k")]).difference == 2
    assert redecide(limits, [*BOTH[:2], ToolStarted(NOW, "c1", "k")]).difference is None


def test_another_number_of_steps_differs():
    """The policy adds steps after failures; how many is part of the decision."""
    failed = returned("c1", error_type="timeout", dependency_failed=True)
    begun = [started(max_steps=2, steps_bound=6), calling(ONE), failed]
    decided = redecide(Limits(), begun).last

    assert redecide(Limits(), [*begun, StepsChanged(NOW, decided.max_steps, "")]).difference is None
    assert redecide(Limits(), [*begun, StepsChanged(NOW, 99, "")]).difference == 3


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_decision_lies_anywhere_between_two_facts(seconds):
    """The reply came after the deadline, but it was asked for before that."""
    late = answer()
    object.__setattr__(late, "at", NOW + seconds)

    assert redecide(Limits(), [started(deadline=NOW + 30), late]).difference is None


def test_a_job_that_fell_due_between_two_facts_may_be_asked_for():
    """When the fact before it came, nothing was due yet and the run would have parked."""
    begun = JobStarted(NOW, "c1", "h", NOW + 60, poll_at=NOW + 1)
    facts = [started(), calling(ONE), begun]

    assert redecide(Limits(), [*facts, JobPolled(NOW + 2, "c1", NOW + 9)]).difference is None
    assert redecide(Limits(), [*facts, JobPolled(NOW, "c1", NOW + 9)]).difference == 3


def test_the_budget_of_the_task_narrows_the_limits():
    """It stands in the journal, and the settings know nothing of it."""
    task = {"id": "t1", "input": "hello", "budget": {"tokens": 15}}
    told = redecide(Limits(), [started(task=task), *BOTH[1:]])

    assert (told.difference, told.facts[2].decision.status) == (2, "budget")


def test_a_reply_without_a_cost_is_paid_by_the_prices_of_now():
    """A budget of money could not be held against it otherwise; a cost that was paid stays."""
    paid = replace(calling(ONE), reply=replace(calling(ONE).reply, usage=Usage(1, 10, 5, cost=0.5)))
    facts = [started(), calling(ONE), returned(), paid, returned()]
    first, second = [each.reply.usage.cost for each in priced(facts, PriceList(["*=1/2"]))[1:4:2]]

    assert (first, second) == (20 / 1_000_000, 0.5)
    assert priced(facts, PriceList())[1].reply.usage.cost is None


def test_what_comes_from_outside_is_not_judged():
    """A redelivery, a cancel."""
    failure = ModelFailed(NOW, "timeout", "no reply", True)
    told = redecide(Limits(), [started(), failure, Resumed(NOW, 2), Ended(NOW, "cancelled")])

    assert told.difference is None
    assert told.last.status == "cancelled"


def test_waiting_without_a_reason_differs():
    """Nothing of the run waits, so it would go on."""
    assert redecide(Limits(), [started(), Parked(NOW, "job")]).difference == 1


def test_an_empty_journal_decides_nothing_and_a_wrong_one_is_refused():
    """Facts that contradict each other are no run."""
    assert redecide(Limits(), []).last is None
    with pytest.raises(IllegalEvent):
        redecide(Limits(), [started(), returned("c9")])

"""Repetition is counted round by round, and pollers are looked past."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_loop import NOW, call, calling, replay, returned, started
from worker.core.effects import CallModel
from worker.core.limits import Status
from worker.core.messages import Observation, ToolCall
from worker.core.repetition import Repetition

SEARCH, POLL, LOOK = "search", "poll", "look"
POLLERS = (POLL,)


def counted(*rounds):
    """The count after each round; a round is names of tools, whose results never change."""
    repetition, counts = Repetition(), []
    for number, names in enumerate(rounds):
        rows = [row(f"{number}-{place}", name) for place, name in enumerate(names)]
        repetition.close(rows, pollers=POLLERS)
        counts.append(repetition.count)
    return counts


def row(call_id, name, problem=None):
    """One call with its observation."""
    return ToolCall(call_id, name, {}, problem), Observation(f"result of {name}")


@pytest.mark.parametrize(
    ("rounds", "counts"),
    [
        ([[POLL]] * 4, [0, 0, 0, 0]),
        ([[SEARCH]] * 3, [1, 2, 3]),
        ([[SEARCH, POLL]] * 3, [1, 2, 3]),
        ([[POLL, SEARCH], [SEARCH], [SEARCH, POLL, POLL]], [1, 2, 3]),
        ([[SEARCH], [POLL], [SEARCH], [POLL]], [1, 1, 2, 2]),
        ([[SEARCH], [LOOK], [SEARCH]], [1, 1, 2]),
        ([[SEARCH], [LOOK]] * 3 + [[SEARCH]], [1, 1, 2, 2, 3, 3, 4]),
        ([[SEARCH], [POLL], [LOOK]] * 3, [1, 1, 1, 2, 2, 2, 3, 3, 3]),
        ([[SEARCH, LOOK], [LOOK, SEARCH]], [1, 2]),
        ([[SEARCH], [SEARCH, LOOK], [SEARCH], [LOOK]], [1, 1, 2, 2]),
    ],
)
def test_rounds_count_by_what_is_no_poller(rounds, counts):
    """Beside, before or between the others, a poller neither counts nor hides a loop."""
    assert counted(*rounds) == counts


def test_what_comes_again_between_new_things_is_no_loop():
    """Looking at the same between one new result and the next is how some work is done."""
    repetition = Repetition()
    for number in range(9):
        again = row(f"a{number}", SEARCH)
        found = ToolCall(f"b{number}", LOOK, {}, None), Observation(f"result {number}")
        repetition.close([again], pollers=POLLERS)
        assert repetition.count <= 2
        repetition.close([found], pollers=POLLERS)
        assert repetition.count == 1


def test_pollers_mistake_counts():
    """The same call that cannot be run, again and again, is a loop of the model's."""
    repetition = Repetition()
    for number in range(3):
        repetition.close([row(str(number), POLL, "n: missing")], pollers=POLLERS)

    assert repetition.count == 3


@given(
    st.lists(st.lists(st.sampled_from([SEARCH, POLL, LOOK]), min_size=1, max_size=3), max_size=12)
)
def test_without_its_pollers_a_history_counts_the_same(rounds):
    """Polling changes nothing about the others."""
    bare = [[name for name in names if name != POLL] for names in rounds]
    counts = [0, *counted(*filter(None, bare))]

    assert [0, *counted(*rounds)][-1] == counts[-1]


def test_a_poller_may_return_the_same_until_the_steps_are_over():
    """Neither the same result nor an empty one ends the run; max_steps does."""
    loop = replay(started(pollers=("price",), max_steps=6))
    for i in range(5):
        assert isinstance(loop.next(NOW), CallModel)
        loop.apply(calling(call(f"c{i}")))
        loop.apply(returned(f"c{i}", "[]", empty=True))
    assert loop.next(NOW).allow_calls is False
    loop.apply(calling(call("c9")))

    assert loop.next(NOW).status == Status.MAX_STEPS


@pytest.mark.parametrize("first_empty", [True, False])
def test_what_one_call_found_counts_beside_others_that_found_nothing(first_empty):
    """Three looked for side by side and one found, in whatever place: the run goes on."""
    loop = replay(started(), calling(*(call(f"c{i}", arguments={"n": i}) for i in range(3))))
    for i in range(3):
        empty = (i < 2) is first_empty or i == 1
        loop.apply(returned(f"c{i}", "[]" if empty else "12.50", empty=empty))

    assert isinstance(loop.next(NOW), CallModel)

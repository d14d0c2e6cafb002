"""What fields are to each other, and what follows from three numbers of a record."""

from __future__ import annotations

import pytest

from worker.core import compounds, relations
from worker.core.gate import check
from worker.core.pools import Pools
from worker.core.relations import EACH, WHOLE
from worker.core.results import Operand, Results


@pytest.mark.parametrize(
    ("words", "roles"),
    [
        (["beds", "total"], [WHOLE]),
        (["ordered"], [WHOLE]),
        (["总车位"], [WHOLE]),
        (["goal", "difference"], []),
        (["beds", "free"], []),
        (["use", "l", "per", "hour"], [EACH]),
        (["unit", "price", "usd"], [EACH]),
        (["每人约分钟"], [EACH]),
    ],
)
def test_a_name_says_what_a_field_is_to_others(words, roles):
    """A whole, so much for each, or nothing of both."""
    assert list(relations.roles_of(words)) == roles


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (["use", "l", "per", "hour"], 3600.0),
        (["口罩日耗"], 86_400.0),
        (["price", "per", "kg"], None),
        (["hour"], None),
    ],
)
def test_a_name_says_for_how_long_so_much_is_told(words, seconds):
    """Per hour, per day; per kilogram is no time."""
    assert relations.period_of(words) == seconds


def test_parts_are_found_where_they_stand_together():
    """Before or after their sum, two at least."""
    assert list(relations.wholes([7.0, 3.0, 4.0])) == [([3.0, 4.0], 7.0)]
    assert list(relations.wholes([3.0, 9.0, 4.0, 7.0])) == []


def test_stretches_of_parts_are_less_than_all():
    """Each alone and neighbours together."""
    assert sorted(relations.stretches([1.0, 2.0, 4.0])) == [1.0, 2.0, 3.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("answer", "invented"),
    [
        ("25 of the 28 beds are taken, 89%.", ()),
        ("3 of the 28 beds are free, 11%.", ()),
        ("5 beds are free.", ("5",)),
        ("14% of the beds are free.", ("14%",)),
    ],
)
def test_a_whole_and_its_part(answer, invented):
    """What is left, and both shares; those who wait are no part of the beds."""
    told = ['{"waiting": 23, "beds_free": 3, "beds_total": 28}']

    assert check(answer, admissible=told).invented == invented


@pytest.mark.parametrize(
    ("answer", "invented"),
    [
        ("It lasts 60 hours.", ()),
        ("It lasts two and a half days.", ()),
        ("It lasts 90 hours.", ("90 hours",)),
        ("We use 2,040 l a day.", ()),
        ("We use 2,400 l a day.", ("2,400",)),
    ],
)
def test_what_is_used_up_at_a_pace_lasts_so_long(answer, invented):
    """So much, and so much of it an hour."""
    told = ['{"left_l": 5100, "use_l_per_hour": 85}']

    assert check(answer, admissible=told).invented == invented


def test_a_field_of_several_records_has_a_sum():
    """It need not be said that it is one, and it may be reckoned with."""
    told = ['[{"total": 36, "free": 5}, {"total": 30, "free": 7}, {"total": 18, "free": 6}]']

    assert check("66 of the 84 beds are occupied.", admissible=told).invented == ()
    assert check("61 of the 84 beds are occupied.", admissible=told).invented == ("61",)


def test_worth_and_gain_of_a_record():
    """So many at a price, less what they cost: 31.5 x 4 - 100 = 26, 26%."""
    record = [31.5, 4.0, 100.0]

    assert 26.0 in list(compounds.amounts(record))
    assert 26.0 in list(compounds.changes(record))


def test_a_cart_has_a_total():
    """The sum over all rows of one column times another."""
    assert list(compounds.totals([[2.0, 1.0], [34.5, 129.0]])) == [198.0]
    assert list(compounds.totals([[2.0], [34.5]])) == []


def test_interest_is_simple():
    """Of 1000 at 3% for two years 60, and 1060 with it."""
    assert sorted(compounds.interest([1000.0], [3.0], [2.0])) == [60.0, 1060.0]


def test_numbers_are_alike_within_two_and_a_half_times():
    """Others are not compared: one is no gain over the other."""
    assert compounds.is_alike(100, 41)
    assert not compounds.is_alike(100, 39)
    assert not compounds.is_alike(100, -100)


def test_a_pool_finds_what_is_near_and_fits():
    """Whatever the sign; the first that fits, within the tolerance."""
    pool = Results()
    pool.add(-12.0, frozenset({"a"}))
    pool.add(12.4, frozenset({"b"}))

    assert pool.find(12.2, 0.1) is None
    assert pool.find(12.2, 0.3) == {"a"}
    assert pool.find(12.2, 0.3, lambda tags: "b" in tags) == {"b"}
    assert pool.crowd(12.0) == 2
    assert pool.crowd(100.0) == 0


def test_what_many_numbers_would_fit_is_no_proof():
    """Among few values a hit says something, among many it does not."""
    few, many = Pools([Operand(1.0)]), Pools([Operand(1.0)])
    few.loose.add(463.0, frozenset({"x"}))
    for n in range(300, 900):
        many.loose.add(float(n), frozenset({"x"}))

    assert few.unlikely(463.0, 0.5) == {"x"}
    assert many.unlikely(463.0, 0.5) is None

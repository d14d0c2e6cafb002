"""What stands around a figure: where it is looked for, how exact it is meant, what it counts."""

from __future__ import annotations

import re

import pytest

from worker.core.comparing import has, tight
from worker.core.exactness import digits_of, tolerance_of
from worker.core.figures import figures
from worker.core.gate import check
from worker.core.passage import Passage


def placed(text):
    """A text as a passage, and its figures."""
    found = figures(text)
    return Passage(text, found), found


def test_a_figure_stands_in_a_clause_and_in_a_sentence():
    """Up to the nearest end on both sides."""
    passage, (first, second) = placed("It is 5, not 6. Then more")
    clause, stop = re.compile("[,.]"), re.compile("[.]")

    assert passage.around(first, clause) == "It is 5"
    assert passage.around(second, clause) == " not 6"
    assert passage.around(second, stop) == "It is 5, not 6"


def test_a_row_of_a_table_has_its_heading():
    """What a column is of stands above it."""
    passage, found = placed("| city | per km |\n|---|---|\n| Rome | 25 |")

    assert "per km" in passage.around(found[-1], re.compile("\n"))


def test_neighbours_are_found_by_their_place():
    """Those that begin in a part of the text, and those just before."""
    passage, found = placed("1 kg, 2 kg and 3 kg")

    assert list(passage.between(3, 20)) == found[1:]
    assert list(passage.preceding(found[2], 8)) == [found[1]]
    assert list(passage.preceding(found[0], 8)) == []


def test_what_is_far_away_is_not_looked_at():
    """A sentence without an end is cut off."""
    passage, found = placed("word " * 200 + "7 things " + "word " * 200)

    assert len(passage.around(found[0], re.compile("[.]"))) < 700


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [
        ("460 km", 0.5),
        ("about 460 km", 5.0),
        ("约 1.7万", 500.0),
        ("about 175 of them", 2.5),
        ("1.25 kg", 0.005),
        ("over 1,000", 100.0),
        ("at 10:30", 0.0),
    ],
)
def test_how_far_a_value_may_be(text, tolerance):
    """By the digits shown, and more where a word says so."""
    assert tolerance_of(figures(text)[0], text) == pytest.approx(tolerance)


@pytest.mark.parametrize(
    ("value", "quantum", "digits"),
    [(550, 1.0, 3), (5.29, 0.01, 3), (300, 1.0, 1), (0.0, 0.1, 3), (0, 1.0, 0), (12, 1.0, 2)],
)
def test_digits_that_say_something(value, quantum, digits):
    """Zeros at the end of a whole number say nothing."""
    assert digits_of(value, quantum) == digits


def test_numbers_are_compared_by_nearness_and_texts_without_blanks():
    """Within the tolerance on both sides; in whatever case."""
    assert has([1.0, 5.0], 4.5, 0.5)
    assert not has([1.0, 5.0], 3.0, 0.5)
    assert not has([], 3.0, 0.5)
    assert tight("iPhone 15\nPRO") == "iphone15pro"


@pytest.mark.parametrize(
    ("answer", "told", "invented"),
    [
        ("Call 85203316.", '{"tel": "8520-3316"}', ()),
        ("Call 85203361.", '{"tel": "8520-3316"}', ("85203361",)),
        ("1 号用了 432 分钟。", '{"间": "1", "分钟": 432}', ()),
        ("尾号 1175", '{"no": "6200221175"}', ()),
        ("102.0, 100.6 and 99.3 °F", "38.9 °C, 38.1 °C, 37.4 °C", ()),
        ("103.0, 100.6 and 99.3 °F", "38.9 °C, 38.1 °C, 37.4 °C", ("103.0",)),
        ("平均 -18.9 ℃", '{"最低": -20.4, "平均": -18.9}', ()),
        ("about 30.6 km/h", '{"speed_kn": 16.5}', ()),
        ("日均 330 件", '{"近7日销量": 2310}', ()),
        ("around -11 °C", '{"summit_temp_f": 12}', ()),
        ("86 cm or so", '{"base_in": 34}', ()),
        ("8 元", '{"首小时": 8}', ()),
        ("2 小时", '{"temp_min": 120}', ("2 小时",)),
        ("2 hours", '{"est_min": 120}', ()),
        ("a drop of 64%, from 86 to 31", "CRP 86 -> 31", ()),
        ("a drop of 46%, from 86 to 31", "CRP 86 -> 31", ("46%",)),
        ("一半", '[{"n": 310}, {"n": 620}]', ()),
        ("In November 1,200 came.", '{"2026-11": 1200}', ()),
        ("四百二十千卡", '{"千卡": 420}', ()),
        ("385 支", '{"价格": 88, "另价": 297}', ("385",)),
    ],
)
def test_what_a_figure_is_decides_what_it_is_held_against(answer, told, invented):
    """Numbers of doors and telephones, units of lists, prices of the first hour, fractions."""
    assert check(answer, admissible=[told]).invented == invented

"""The structure of results: rows, columns, lengths, parts of a whole, and whose a number is."""

from __future__ import annotations

import pytest

from worker.core.belonging import Belonging
from worker.core.figures import figures
from worker.core.gate import check
from worker.core.rows import Rows

PLANS = (
    '[{"plan": "Basic", "price": 9, "seats": 3}, {"plan": "Team", "price": 24, "seats": 10},'
    ' {"plan": "Large", "price": 72, "seats": 45}]'
)


def rows_of(*texts):
    """The rows of some results."""
    rows = Rows()
    for text in texts:
        rows.take(text)
    return rows


def test_a_list_of_records_is_columns_and_rows():
    """Each field is a column, each record a row with its names; a list has so many members."""
    rows = rows_of(PLANS)

    assert rows.columns["price"] == [9, 24, 72]
    assert [sorted(row.names) for row in rows.rows] == [["Basic"], ["Team"], ["Large"]]
    assert 3 in rows.counts
    assert rows.list_lengths == {3}


@pytest.mark.parametrize(
    "text",
    ["no JSON at all", "{", '{"a": ', "[1, 2", "[" * 5000, '{"a": 1e999, "b": NaN}', ""],
)
def test_what_is_no_result_has_no_rows(text):
    """Text, broken JSON and deep nesting are taken without rows and without an error."""
    assert rows_of(text).rows == []


def test_a_result_may_follow_a_note():
    """A value that is old is told with a note before it."""
    assert rows_of('as of yesterday:\n{"a": 1, "b": 2}').columns["a"] == [1.0]


def test_days_are_a_column_of_their_own():
    """Of mon and tue no share is taken, and there are two of seven days."""
    rows = rows_of('{"mon": 51, "tue": 62, "unit": "km"}')

    assert rows.records == []
    assert [51.0, 62.0] in rows.columns.values()
    assert rows.periods == {2 * 86_400.0}
    assert rows.rests == {5 * 86_400.0}


def test_years_tell_how_long_they_span():
    """From 2019 to 2025 there are six years, and two values."""
    assert {6 * 31_557_600.0, 2 * 31_557_600.0} <= rows_of('{"2019": 17, "2025": 13}').periods


def test_names_in_lists_are_counted_each_and_once():
    """Four names are those of three people."""
    rows = rows_of('[{"crew": ["Ann", "Bo"]}, {"crew": ["Ann", "Cy"]}]')

    assert {3, 4} <= rows.counts


def test_parts_that_add_up_are_known_as_such():
    """Told with their sum, or by names that end alike."""
    assert ([189.0, 147.0, 84.0], 420.0) in rows_of(
        '{"answered": 420, "good": 189, "fair": 147, "bad": 84}'
    ).wholes
    assert ([6.0, 31.0, 128.0], 165.0) in rows_of('{"一级": 6, "二级": 31, "三级": 128}').wholes


@pytest.mark.parametrize(
    ("answer", "is_anothers"),
    [
        ("Team costs 72.", True),
        ("Team costs 24.", False),
        ("Team costs 48 less than Large.", False),
        ("It costs 72.", False),
        ("Team and Large cost 72 together.", False),
    ],
)
def test_a_number_of_another_row_is_a_lie(answer, is_anothers):
    """Only where a part of the sentence names one row alone and compares nothing."""
    belonging = Belonging(answer, rows_of(PLANS).rows, ())

    assert belonging.is_of_another(figures(answer)[0]) is is_anothers


@pytest.mark.parametrize(
    ("answer", "is_turned"),
    [
        ("It rose 3.2%.", True),
        ("It fell 3.2%.", False),
        ("The change was +3.2%.", True),
        ("The change was -3.2%.", False),
        ("It rose 4.1%.", False),
    ],
)
def test_a_fall_is_not_told_as_a_rise(answer, is_turned):
    """Where the number was told with a minus and no other way."""
    belonging = Belonging(answer, (), {-3.2, 4.1})

    assert belonging.is_turned(figures(answer)[0]) is is_turned


def test_shares_of_a_whole_follow_from_its_parts():
    """Of those who answered four in five said good or fair, and nobody counted 17%."""
    told = ['{"sent": 1200, "answered": 420, "good": 189, "fair": 147, "bad": 84}']

    assert check("Good or fair: 336, that is 80%. 780 did not answer.", admissible=told).found == ()
    assert check("Good: 45%. Bad: 17%.", admissible=told).invented == ("17%",)

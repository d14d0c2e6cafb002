"""Figures in running text, Chinese and English."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.figures import Kind, figures
from worker.core.numerals import number_of


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1234", Kind.NUMBER, 1234),
        ("1,234.5", Kind.NUMBER, 1234.5),
        ("1.234,5", Kind.NUMBER, 1234.5),
        ("12.5%", Kind.PERCENT, 12.5),
        ("百分之十二点五", Kind.PERCENT, 12.5),
        ("12 percent", Kind.PERCENT, 12),
        ("一千二百三十四", Kind.NUMBER, 1234),
        ("两千三", Kind.NUMBER, 2300),
        ("三点五", Kind.NUMBER, 3.5),
        ("¥12.50", Kind.NUMBER, 12.5),
        ("USD12.5", Kind.NUMBER, 12.5),
        ("1.2万", Kind.NUMBER, 12_000),
        ("3亿", Kind.NUMBER, 3e8),
        ("3.4M", Kind.NUMBER, 3.4e6),
        ("2 million", Kind.NUMBER, 2e6),
        ("12.5", Kind.NUMBER, 12.5),
        ("30s", Kind.DURATION, 30),
        ("forty-nine dollars", Kind.NUMBER, 49),
        ("two hundred and five", Kind.NUMBER, 205),
        ("thirty million", Kind.NUMBER, 3e7),
        ("ninety seconds", Kind.DURATION, 90),
        ("€12.4m", Kind.NUMBER, 12.4e6),
        ("两成", Kind.PERCENT, 20),
        ("2 分钟", Kind.DURATION, 2),
    ],
)
def test_a_number_is_read_in_the_forms_people_write(text, kind, value):
    """One figure, of the right kind and worth."""
    (figure,) = figures(f"约 {text} 。")

    assert (figure.kind, figure.values) == (kind, (value,))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2026-12-02", (2026, 12, 2)),
        ("2026年12月2日", (2026, 12, 2)),
        ("二〇二六年十二月二日", (2026, 12, 2)),
        ("Dec 2, 2026", (2026, 12, 2)),
        ("2nd of December 2026", (2026, 12, 2)),
        ("12月2日", (None, 12, 2)),
        ("10:30", (10, 30, None)),
        ("下午三点半", (3, 30, None)),
        ("3pm", (3, 0, None)),
    ],
)
def test_a_date_or_a_time_is_one_figure(text, parts):
    """Its digits are not numbers of their own."""
    (figure,) = figures(f"at {text} .")

    assert figure.parts == parts


@pytest.mark.parametrize("text", ["600519.SS", "CN20261130001", "000001", "https://a.example/7"])
def test_an_identifier_is_one_figure(text):
    """The digits of a ticker or an order id are no amounts."""
    (figure,) = figures(f"对于 {text} 而言")

    assert (figure.kind, figure.text) == (Kind.IDENTIFIER, text)


@pytest.mark.parametrize(
    "text", ["1. one\n2. two\n 3、three", "(1) a\n(2) b", "一些,两个,万一", "one of the two, 24/7"]
)
def test_numbering_and_words_are_no_figures(text):
    """A list is no claim, and neither is a Chinese digit within a word."""
    assert figures(text) == []


def test_a_range_shares_its_unit():
    """Both ends of 1.2-1.5万 are in tens of thousands."""
    low, high = figures("1.2-1.5万")

    assert (low.values, high.values) == ((12_000.0,), (15_000.0,))


@given(st.text(alphabet="0123456789.,-:/%年月日点万千百十一二三 \nabT¥$", max_size=60))
def test_any_text_is_read_without_an_error(text):
    """Garbage is read, too, and every figure lies where it says."""
    for figure in figures(text):
        assert figure.text in text[figure.start : figure.end]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("十", 10),
        ("一百零五", 105),
        ("一万二", 12_000),
        ("三亿五千万", 350_000_000),
        ("一万亿", 1e12),
    ],
)
def test_chinese_numerals(word, value):
    """Units multiply, a last bare digit counts the next lower unit."""
    assert number_of(word)[0] == value

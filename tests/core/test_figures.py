"""Figures in running text, Chinese and English."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.figure import Kind
from worker.core.figures import figures
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
        ("48 250.75", Kind.NUMBER, 48_250.75),
        ("捌拾陆万", Kind.NUMBER, 860_000),
        ("１８９．５", Kind.NUMBER, 189.5),
        ("一百六十八元九角", Kind.NUMBER, 168.9),
        ("三块六", Kind.NUMBER, 3.6),
        ("一毛五", Kind.NUMBER, 0.15),
        ("sixteen dollars and fifty cents", Kind.NUMBER, 16.5),
        ("ten and a half thousand", Kind.NUMBER, 10_500),
        ("fourteen point two", Kind.NUMBER, 14.2),
        ("four grand", Kind.NUMBER, 4000),
        ("1.35 lakh", Kind.NUMBER, 135_000),
        ("a million", Kind.NUMBER, 1e6),
        ("half a million", Kind.NUMBER, 5e5),
        ("four pounds", Kind.NUMBER, 4),
        ("两百二十八一晚", Kind.NUMBER, 228),
        ("there are eleven", Kind.NUMBER, 11),
        ("八个", Kind.NUMBER, 8),
        ("零下六度", Kind.NUMBER, 6),
        ("mid-forties", Kind.NUMBER, 45),
        ("six people", Kind.NUMBER, 6),
        ("sixty-odd floors", Kind.NUMBER, 65),
        ("两斤", Kind.NUMBER, 2),
        ("two copies", Kind.NUMBER, 2),
        ("287 千瓦时", Kind.NUMBER, 287),
        ("86.4 t", Kind.NUMBER, 86.4),
        ("2x", Kind.NUMBER, 2),
        ("翻了一番", Kind.NUMBER, 2),
        ("doubled", Kind.NUMBER, 2),
        ("千分之五", Kind.PERCENT, 0.5),
        ("四分之一", Kind.PERCENT, 25),
        ("两成半", Kind.PERCENT, 25),
        ("八折", Kind.PERCENT, 80),
        ("one in twenty", Kind.PERCENT, 5),
        ("three-quarters", Kind.PERCENT, 75),
        ("three weeks", Kind.DURATION, 3),
        ("一刻钟", Kind.DURATION, 15),
        ("1h35m", Kind.DURATION, 95),
        ("takes an hour", Kind.DURATION, 1),
        ("another hour", Kind.DURATION, 1),
        ("two months", Kind.DURATION, 2),
        ("一半", Kind.PERCENT, 50),
        ("half of", Kind.PERCENT, 50),
        ("三个小时", Kind.DURATION, 3),
        ("三年", Kind.DURATION, 3),
        ("一个半小时", Kind.DURATION, 1.5),
        ("半小时", Kind.DURATION, 0.5),
        ("七天半", Kind.DURATION, 7.5),
        ("half an hour", Kind.DURATION, 0.5),
        ("a minute and a half", Kind.DURATION, 1.5),
        ("2 hours and 30 minutes", Kind.DURATION, 2.5),
        ("下周五", Kind.DAY, None),
        ("后天", Kind.DAY, None),
        ("next week", Kind.DAY, None),
        ("Thursday", Kind.DAY, None),
        ("two-nil", Kind.IDENTIFIER, None),
        ("4-0-7-2-1", Kind.IDENTIFIER, None),
        ("+44 20 7946 0958", Kind.IDENTIFIER, None),
    ],
)
def test_a_number_is_read_in_the_forms_people_write(text, kind, value):
    """One figure, of the right kind and worth."""
    (figure,) = figures(f"约 {text} 。")

    assert figure.kind is kind
    assert figure.values == (() if value is None else (pytest.approx(value),))


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
        ("三点半", (3, 30, None)),
        ("十点二十四", (10, 24, None)),
        ("八点零五", (8, 5, None)),
        ("3点", (3, 0, None)),
        ("早上六点", (6, 0, None)),
        ("晚上八点一刻", (8, 15, None)),
        ("half past five", (5, 30, None)),
        ("ten past eleven", (11, 10, None)),
        ("quarter to nine", (8, 45, None)),
        ("10 to noon", (11, 50, None)),
        ("midnight", (0, 0, None)),
        ("at ten to four", (3, 50, None)),
        ("七号", (None, None, 7)),
        ("8 o'clock", (8, 0, None)),
        ("2026-11", (2026, 11, None)),
        ("12/9", (None, 12, 9)),
        ("mid-December", (None, 12, None)),
        ("2026Q3", (2026, -3, None)),
        ("第三季度", (None, -3, None)),
        ("the third quarter of 2026", (2026, -3, None)),
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
    "text",
    [
        *("1. one\n2. two\n 3、three", "(1) a\n(2) b", "一些,两个,万一", "one of the two, 24/7"),
        *("十分抱歉,千万别急", "这一天", "说明日期", "一周一次", "two reasons", "三点建议"),
    ],
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


def test_both_times_of_a_span_are_read():
    """What looks like an offset from UTC is the end, unless it follows seconds."""
    assert [f.parts for f in figures("09:00-17:30")] == [(9, 0, None), (5, 30, None)]
    assert [f.parts for f in figures("2026-12-02T09:15:00-05:00")][1:] == [(9, 15, 0)]


def test_parts_of_one_amount_are_one_figure():
    """And a smaller one that is not a part stays its own."""
    assert [f.text for f in figures("7 hours and 5 minutes")] == ["7 hours and 5 minutes"]
    assert [f.text for f in figures("5 minutes and 7 hours")] == ["5 minutes", "7 hours"]


@given(st.text(alphabet="一二两十百千万半点分年月日周星期个小时元角毛成折多几来块约", max_size=30))
def test_any_chinese_text_is_read_without_an_error(text):
    """Numerals, units and their halves in any order."""
    for figure in figures(text):
        assert figure.text in text[figure.start : figure.end]


@given(
    st.lists(
        st.sampled_from(
            [
                "two",
                "ten",
                "half",
                "a",
                "and",
                "hour",
                "past",
                "to",
                "quarter",
                "point",
                "hundred",
                "cents",
                "of",
                "noon",
            ]
        ),
        max_size=9,
    )
)
def test_any_english_words_are_read_without_an_error(words):
    """Number words, halves and hours in any order."""
    for figure in figures(" ".join(words)):
        assert figure.end > figure.start

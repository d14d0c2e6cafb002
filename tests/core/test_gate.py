"""The honesty gate: what a degraded answer may say, and what it may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.honesty_cases import HONEST, INVENTED
from tests.core.honesty_scenes import SCENES
from worker.core.gate import Evidence, check, enforce
from worker.core.messages import Observation, Source

STUB = Observation("行情暂不可用", Source.STUB, stub="行情暂不可用", retry_after_seconds=30.0)
LIVE = Observation("AAPL 227.52 USD")
PLACES = ("零一二三四五六七八九", ("", "十", "百", "千"))


def test_both_measured_rates_are_kept(capsys):
    """Of 200 honest degraded answers at most 2 are altered, of 200 inventions at most 2 pass."""
    altered = [text for scene, text in HONEST if enforce(text, SCENES[scene])[1]]
    passed = [text for scene, text in INVENTED if not enforce(text, SCENES[scene])[1]]
    with capsys.disabled():
        print(
            f"\nfabrication rate: {len(INVENTED) / len(INVENTED):.1%} without the gate, "
            f"{len(passed) / len(INVENTED):.1%} with it; "
            f"{len(altered)} of {len(HONEST)} honest answers altered"
        )

    assert len(set(HONEST)) == len(set(INVENTED)) == 200
    assert len(altered) <= 2, altered
    assert len(passed) <= 2, passed


def chinese(number):
    """A numeral below 10,000 as a person writes it."""
    digits, units = PLACES
    text = ""
    for place, digit in zip(range(len(str(number)) - 1, -1, -1), str(number), strict=True):
        text += digits[int(digit)] + units[place] if digit != "0" else "零"
    while "零零" in text:
        text = text.replace("零零", "零")
    return text.rstrip("零") if number else "零"


WHOLE = [
    str,
    "{:,}".format,
    "¥{:,}".format,
    "{:.2f} 元".format,
    "{:,.1f}".format,
    chinese,
    lambda n: f"{n / 1e4:.4f}万",
    lambda n: f"{n / 1e3:.3f}k",
    lambda n: f"{n:,}".replace(",", ".") + ",0",
]


@given(
    st.integers(100, 9999), st.sampled_from(WHOLE), st.sampled_from(WHOLE), st.sampled_from("zc")
)
def test_a_number_is_known_in_every_form(number, told, said, language):
    """Whatever the tool wrote and whatever the model writes, the value is the same."""
    words = "结果是 {} 。" if language == "z" else "It is {} now."

    assert check(words.format(said(number)), admissible=[f"value: {told(number)};"]).invented == ()


DATES = [
    "{0:04}-{1:02}-{2:02}",
    "{0}/{1}/{2}",
    "{0}年{1}月{2}日",
    "{3} {2}, {0}",
    "{2} {3} {0}",
    "{1:02}/{2:02}/{0}",
    "{0:04}-{1:02}-{2:02}T10:30:00Z",
]
NAMES = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "Sept",
    "October",
    "Nov.",
    "Dec",
]


@given(
    st.integers(2000, 2090),
    st.integers(1, 12),
    st.integers(1, 28),
    st.sampled_from(DATES),
    st.sampled_from(DATES[:-1]),
)
def test_a_date_is_known_in_every_form_and_its_neighbour_in_none(year, month, day, told, said):
    """The same day passes however it is written; the same month of the next year never does."""
    name = NAMES[month - 1]
    admissible = [told.format(year, month, day, name)]

    assert check(said.format(year, month, day, name), admissible=admissible).invented == ()
    assert check(said.format(year + 1, month, day, name), admissible=admissible).invented


@given(st.decimals(10, 10_000, places=2), st.decimals(10, 10_000, places=2))
def test_sums_differences_and_products_of_two_are_known(a, b):
    """Reckoning with what a tool told is no invention."""
    for value in (a + b, abs(a - b), a * b):
        assert check(f"共 {value:,.2f} 元", admissible=[f"{a} 与 {b}"]).invented == ()


@pytest.mark.parametrize(
    ("answer", "invented"),
    [
        ("1. 苹果\n2. 微软\n3) Tesla", ()),
        ("一些股票,两个工具,十分抱歉", ()),
        ("AAPL 在 227.52 美元, 约 228", ()),
        ("价格 30 元", ("30 元",)),
        ("30 秒后再试", ()),
        ("订单 SF1390045526", ("SF1390045526",)),
        ("涨了 30%", ("30%",)),
        ("约 1.2万", ("1.2万",)),
        ("between 101 and 105", ("101", "105")),
    ],
)
def test_only_what_nobody_told_is_invented(answer, invented):
    """Numbering and words are no figures; the seconds until a retry are no price."""
    verdict = check(answer, admissible=["AAPL 227.52"], said=["30 s"])

    assert verdict.invented == invented


def test_an_invented_price_is_replaced_by_the_stub_text():
    """The default: what is missing is said, the invention is gone."""
    evidence = Evidence("微软多少钱?", [("quote", STUB)], language="zh")

    text, is_altered = enforce("微软的价格是 123 元。", evidence)

    assert is_altered
    assert "123" not in text
    assert "行情暂不可用" in text


def test_remove_takes_out_only_the_sentences_with_an_invention():
    """What is known stays, in its own words."""
    evidence = Evidence("prices?", [("quote", LIVE), ("quote", STUB)])

    text, is_altered = enforce(
        "AAPL is at 227.52. MSFT is at 415.30. Nothing else.", evidence, action="remove"
    )

    assert is_altered
    assert text.startswith("AAPL is at 227.52. Nothing else.")
    assert "415" not in text


def test_remove_ends_a_chinese_sentence_at_its_full_width_mark():
    """An exclamation in full width ends a sentence like one that is not."""
    evidence = Evidence("股价?", [("quote", LIVE), ("quote", STUB)], language="zh")

    text, is_altered = enforce(
        "苹果 227.52\uff01微软 415.30\uff01以上\uff01", evidence, action="remove"
    )

    assert is_altered
    assert text.startswith("苹果 227.52\uff01以上\uff01")


@pytest.mark.parametrize(
    ("observation", "is_gated"),
    [
        (LIVE, False),
        (Observation("5", Source.ALTERNATIVE), False),
        (Observation("e", Source.ERROR, error_type="invalid_arguments"), False),
        (Observation("e", Source.SKIPPED, reason="too_many_calls"), False),
        (Observation("e", Source.ERROR, dependency_failed=True), True),
        (Observation("-", Source.SKIPPED), True),
        (Observation("?", Source.UNKNOWN), True),
        (Observation("5", Source.STALE, age_seconds=9.0), True),
        (STUB, True),
    ],
)
def test_only_a_degraded_run_is_gated(observation, is_gated):
    """A run that lacks nothing may say what it likes: the model knows things, too."""
    evidence = Evidence("多少?", [("quote", observation)], language="zh")

    assert enforce("123 元", evidence)[1] is is_gated
    assert enforce("123 元", evidence, action="off") == ("123 元", False)


def test_what_the_conversation_told_is_known():
    """A figure of an earlier turn or of the prompt is no invention."""
    evidence = Evidence("and now?", [("quote", STUB)], told=("My budget is $4,000.",))

    assert enforce("Your budget was 4000 dollars.", evidence)[1] is False


def test_what_the_stub_text_itself_tells_is_known():
    """Its author wrote it for the user, amounts included."""
    stub = Observation("-", Source.STUB, stub="运费 12 元起,详情暂不可用")
    evidence = Evidence("运费多少?", [("freight", stub)], language="zh")

    assert enforce("运费 12 元起,详情暂不可用", evidence)[1] is False
    assert enforce("运费 13 元起,详情暂不可用", evidence)[1] is True

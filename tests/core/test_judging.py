"""What stands around a figure decides what it has to be held against."""

from __future__ import annotations

from datetime import datetime

import pytest

from worker.core.gate import check

WEDNESDAY = datetime(2026, 12, 2, 8, 25)


def invented(answer, *admissible, question="?", said=(), counts=(), now=WEDNESDAY):
    """The figures of an answer that nobody told."""
    texts = [question, *admissible]
    verdict = check(answer, admissible=texts, said=said, counts=counts, question=question, now=now)
    return verdict.invented


@pytest.mark.parametrize(
    ("answer", "told", "is_known"),
    [
        ("about 460 km", "463.2 km", True),
        ("460 km", "463.2 km", False),
        ("三千八百多单", "3880 单", True),
        ("三千八百单", "3880 单", False),
        ("nearly 1,000", "967 tickets", True),
        ("2万", "17000 元", False),
        ("约 1.7万", "17200 元", True),
        ("just over 950 feet", "952 ft", True),
        ("约 290 米", "952 ft", True),
        ("about 330 m", "952 ft", False),
        ("四十多个", "43 个", True),
        ("四十多个", "52 个", False),
    ],
)
def test_how_exact_a_figure_is_meant(answer, told, is_known):
    """Rounding is honest when the answer says so, and never by more than a twentieth."""
    assert (invented(answer, told) == ()) is is_known


@pytest.mark.parametrize(
    ("answer", "told", "is_known"),
    [
        ("75% off", '{"child": 75}', False),
        ("up 18.3%", '{"growth": 18.3}', True),
        ("35%", '{"share": 0.35}', True),
        ("1,200 euros", "1200 s old", False),
        ("1,200 euros", '{"cost": 1200}', True),
        ("3 小时", "封顶 3元", False),
        ("3 小时", '{"duration": 3}', True),
        ("1.75 kg of butter", '{"butter_g": 1750}', True),
        ("43.5 °F", '{"high_c": 6.4}', True),
        ("145 斤", '{"weight_kg": 72.5}', True),
        ("1.8 公里", '{"visibility_m": 1800}', True),
        ("800MPa", '{"tensile_mpa": 800}', True),
        ("810MPa", '{"tensile_mpa": 800}', False),
        ("two months", '{"rooms": 2}', False),
        ("9 °C", '{"high_m": [8.9, 9.3]}', False),
        ("9 °C", '{"high": 9}', True),
        ("18 元", '{"first_kg": 18}', True),
        ("3 元", '{"days": 3}', False),
        ("3 元", "见第 3 条", False),
        ("见第 3 条", "第3条", True),
        ("2026 年", '{"year": 2026}', True),
        ("3820.5 万元", '{"amount_wan": 3820.5}', True),
        ("$45.99", "total in cents: 4599", True),
        ("25 分钟", '{"interval_min": 25}', True),
        ("0.68 千瓦时", '{"kwh_per_day": 0.68}', True),
        ("A30:0.68 kWh", '{"model": "A30", "kwh_per_day": 0.68}', True),
        ("1500 s", '{"temp_min": 25}', False),
    ],
)
def test_a_figure_is_held_against_what_is_of_its_kind(answer, told, is_known):
    """Twenty minutes are no price, and seven of anything may be called 700%."""
    assert (invented(answer, told) == ()) is is_known


@pytest.mark.parametrize(
    ("answer", "is_known"),
    [
        ("查了 2 项", True),
        ("1 of the 2 quotes", True),
        ("got 2 prices", True),
        ("2 stocks are missing", True),
        ("the score is 2", True),
        ("2 goals", False),
        ("won 2-1 last week", False),
        ("they are two goals behind", False),
        ("2 元", False),
        ("3 个", False),
        ("三个", False),
        ("两个", True),
        ("五次", False),
        ("两包", False),
    ],
)
def test_a_small_number_counts_only_what_was_asked_for(answer, is_known):
    """Results, attempts, what the question names; a goal is none of these."""
    found = invented(answer, question="both stocks?", counts=(0, 1, 2))

    assert (found == ()) is is_known


@pytest.mark.parametrize(
    ("answer", "told", "is_known"),
    [
        ("后天送到", "", False),
        ("it ends on Friday", "", False),
        ("周三到", '{"eta": "2026-12-02"}', True),
        ("Sunday, closed", '{"sun": "closed"}', True),
        ("明天到", '{"eta": "2026-12-03"}', True),
        ("明天到", '{"eta": "2026-12-05"}', False),
        ("明天到", '{"eta": "2026-12-02"}', False),
        ("yesterday's data", "1 day old", True),
        ("请明天再查", "", True),
        ("next week", "on 2026-12-10", True),
        ("next week", "on 2026-12-17", False),
        ("下周四", "2026-12-10", True),
        ("下周四", "2026-12-17", False),
        ("今天周三", "", True),
        ("best on Wednesdays", "", False),
        ("一共三天,这三天", "3 d", True),
        ("昨天的价格查不到", "", True),
        ("try again tomorrow", "", True),
        ("we got it for next week", "is it next week?", True),
        ("ends in mid-March", "", False),
        ("ends in March", "until 2027-03-31", True),
        ("in Q3", "from July 1, 2026", True),
        ("in Q2", "from July 1, 2026", False),
        ("the 15th", "due 2026-12-15", True),
        ("the 16th", "due 2026-12-15", False),
    ],
)
def test_days_by_name(answer, told, is_known):
    """A day is held against the dates told; when to ask again is no claim, nor is what is missing."""
    assert (invented(answer, told) == ()) is is_known


@pytest.mark.parametrize(
    ("answer", "told", "is_known"),
    [
        ("open from 10 to 2", "10:00-14:00", True),
        ("open from 9 to 2", "10:00-14:00", False),
        ("the 7.03 train", "07:03", True),
        ("晚上七点", "07:00-20:00", False),
        ("晚上八点", "07:00-20:00", True),
        ("from 3 to 4:15 pm", "15:00-16:15", True),
        ("16 hours", "22:00-06:00", True),
        ("五个小时", "22:00-06:00", False),
        ("15 分钟", "06:30-21:30", False),
        ("twenty minutes ago", "at 08:05", True),
        ("thirty minutes ago", "at 08:05", False),
        ("an hour ago", "at 08:05", False),
        ("for about five years", '{"since": 2021}', True),
        ("for about eight years", '{"since": 2021}', False),
        ("全程 11 小时 54 分", "20:41 开,08:35 到", True),
        ("全程 11 小时 24 分", "20:41 开,08:35 到", False),
        ("第二天到", "20:41", True),
        ("今晚八点", "20:00", True),
        ("今晚九点", "20:00", False),
        ("今晚送达", "20:00", False),
        ("five hours behind", '{"time": "2026-12-02T03:25:40-05:00"}', True),
        ("3 h 28 min", '{"duration_min": 208}', True),
        ("over at 22:40", '{"starts": "19:30", "running_minutes": 190}', True),
        ("over at 22:50", '{"starts": "19:30", "running_minutes": 190}', False),
        ("from 22:00", "晚上 10 点后", True),
        ("nine minutes before ten", "arrives 09:51", True),
        ("两小时", '{"age": "2 h"}', True),
        ("1 year", "5400 s", False),
        ("half an hour", "1800 s", True),
        ("两天", "3 天", False),
        ("1 美元约合 7.12 元", "rate 7.1234", True),
        ("1 美元,7.50 元", "rate 7.1234", False),
        ("浪高一米二左右,气温 21 度", "21 度", False),
    ],
)
def test_hours_durations_and_bases(answer, told, is_known):
    """Told in other units or as a clock; 1, 10, 100 are known where what they are worth follows."""
    found = invented(answer, told, question="by 10?")

    assert (found == ()) is is_known


def test_a_wait_may_be_rounded_up_and_is_no_price():
    """Told 27 s, half a minute is honest; a duration that was told as a value is not stretched."""
    assert invented("30 seconds", said=["27 s"]) == ()
    assert invented("40 seconds", said=["27 s"]) == ("40 seconds",)
    assert invented("27 元", said=["27 s"]) == ("27 元",)
    assert invented("503 元, HTTP 503", said=["HTTP 503"]) == ("503 元",)
    assert invented("20 小时", "18 小时") == ("20 小时",)


def test_a_figure_in_a_call_to_ask_again_is_no_claim():
    """But only for a duration or a day: a price there is one."""
    assert invented("请 5 分钟后再试") == ()
    assert invented("5 分钟后到账") == ("5 分钟",)
    assert invented("请再试,约 230 元") == ("230 元",)


def test_a_great_many_figures_are_judged_in_bounded_time():
    """Reckoning stops, comparing does not: what was told stays known."""
    told = " ".join(str(n) for n in range(1000, 1300))
    answer = " ".join(f"{n}元" for n in range(1000, 1300)) + " 99999元" * 400

    assert set(invented(answer, told)) == {"99999元"}


def test_beyond_a_thousand_figures_none_is_judged():
    """Whatever they are: an answer that is nothing but figures costs the others no seconds."""
    told = " ".join(f"{n}元" for n in range(5000, 6500))

    assert len(invented(told, told)) == 500
    assert invented(told[: told.index("6000元")], told) == ()


def test_what_is_asked_for_is_not_counted_by_the_question():
    """ "How many seats" names seats, and does not tell that there are two."""
    answer = "2 seats are left"

    assert invented(answer, question="how many seats are left?", counts=(0, 1, 2)) == ("2",)
    assert invented(answer, question="are both seats left?", counts=(0, 1, 2)) == ()

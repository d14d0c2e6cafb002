"""Dates, times and spans: what follows from them, and what may be said of them."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from worker.core import moments
from worker.core.dating import Calendar, after_days
from worker.core.figures import figures
from worker.core.gate import check

WEDNESDAY = datetime(2026, 12, 2, 8, 25)
DAY = 86_400.0


def invented(answer, *told, question="?"):
    """The figures of an answer of 2 December 2026 that nobody told."""
    texts = [question, *told]
    return check(answer, admissible=texts, question=question, now=WEDNESDAY).invented


@pytest.mark.parametrize(
    ("answer", "told", "is_known"),
    [
        ("It is due next Friday, in 9 days.", '{"due": "2026-12-11"}', True),
        ("It is due in 8 days.", '{"due": "2026-12-11"}', False),
        ("今天是第 8 天。", '{"入院": "2026-11-25"}', True),
        ("It was four hours ago.", '{"at": "2026-12-02T04:25:00Z"}', True),
        ("It was six hours ago.", '{"at": "2026-12-02T04:25:00Z"}', False),
        ("9 小时", '{"从": "08:30", "到": "17:30"}', True),
        ("until March 15, 2028", '{"bought": "2025-03-15", "warranty_months": 36}', True),
        ("until April 15, 2028", '{"bought": "2025-03-15", "warranty_months": 36}', False),
        ("until December 14", '{"from": "2026-12-01", "term": "9 business days"}', False),
        ("It ends at 10:30.", '{"start": "09:30", "est_min": 60}', True),
        ("It starts at 10:30.", '{"start": "09:30", "est_min": 60}', False),
        ("Closed at noon, open until 5:30 pm.", '{"hours": "08:00-12:00, 13:00-17:30"}', True),
        ("Closed at noon.", '{"copies": 0, "due": "17:30"}', False),
        ("明早八点", '{"班次": "17:00-次日08:00"}', True),
        ("In three days: Saturday, December 5", '{"transit_days": 3}', True),
        ("In three days: Sunday, December 5", '{"transit_days": 3}', False),
        ("花了 28 小时 45 分", '["2026-11-29 18:20", "2026-11-30 23:05"]', True),
        ("花了 26 小时 45 分", '["2026-11-29 18:20", "2026-11-30 23:05"]', False),
        ("到双十二还有 10 天", '{"现货": 3600}', True),
        ("It arrives at 13:40.", '{"at": "11:40", "remaining_km": 148, "avg_kmh": 74}', True),
        ("Friday, December 4", "Discharge on Friday.", True),
        ("Friday, December 5", "Discharge on Friday.", False),
        ("大约到 12 月 18 日用完。", '{"口罩": 24000, "口罩日耗": 1500}', True),
        ("大约到 12 月 25 日用完。", '{"口罩": 24000, "口罩日耗": 1500}', False),
        ("12 月的数据还没有。", '{"2026-11": 51480}', True),
        ("12 月是 51480。", '{"2026-11": 51480}', False),
    ],
)
def test_what_follows_from_moments(answer, told, is_known):
    """Spans, ends, weekdays and days of the week after, in a day's true order."""
    assert (invented(answer, told) == ()) is is_known


def test_a_person_has_an_age():
    """Born in 1958, somebody is 68 in 2026, and in China one may count from one."""
    told = '{"born": 1958}'

    assert invented("她今年 68 岁。", told) == ()
    assert invented("虚岁六十九。", told) == ()
    assert invented("她今年 66 岁。", told) != ()


def test_the_time_of_asking_is_another_one_elsewhere():
    """8:25 in UTC are 16:25 for who asks in Chinese."""
    calendar = Calendar("现在几点?", now=30_300.0)

    assert calendar.is_now(25, 4)
    assert not calendar.is_now(25, 9)


def test_dates_may_be_said_without_a_year_and_either_way():
    """2 December is 12月2日 and 12/2; another year is another date."""
    calendar = Calendar()
    calendar.take(figures("2026-12-02"), "2026-12-02")
    calendar.settle()

    assert calendar.has_date((None, 12, 2))
    assert calendar.has_date((None, 2, 12))
    assert calendar.has_date((2026, None, None))
    assert not calendar.has_date((2025, 12, 2))
    assert not calendar.has_date((None, 12, 3))
    assert calendar.has_neighbour((None, 12, 3))


def test_days_after_a_date():
    """By days, and by months of any length; what is beyond the calendar is left out."""
    found = set(after_days([date(2026, 1, 31)], [DAY, 2_629_800.0, 1e15]))

    assert date(2026, 2, 1) in found
    assert date(2026, 2, 28) in found


def test_instants_are_read_in_utc():
    """An offset is taken off, and a date that does not exist is none."""
    text = "2026-12-02T09:00:00+08:00 and 2026-12-02 01:30Z, not 2026-13-02T01:00:00Z"

    assert [each.hour for each in moments.instants(text)] == [1, 1]


def test_zones_differ_from_utc_and_from_each_other():
    """UTC+8 and UTC-5 are thirteen hours apart."""
    assert {28_800.0, -18_000.0, 46_800.0} <= set(moments.offsets("UTC+8, UTC-5"))


def test_spans_between_few_clocks_only():
    """Of many clocks only the first are paired, so that it costs the same."""
    clocks = [60.0 * n for n in range(1000)]
    few = moments.CLOCKS_MAX

    assert len(list(moments.between_times(clocks, ""))) == few * (few - 1)


def test_holidays_have_dates():
    """The next ones from today."""
    assert (2026, 12, 25) in list(moments.holidays("圣诞节", date(2026, 12, 2)))
    assert (2027, 10, 1) in list(moments.holidays("国庆", date(2026, 12, 2)))

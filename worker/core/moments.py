"""Moments that follow from what was told: spans between times and dates, ends, other zones.

Everything is bounded: of a few clocks and dates, all pairs.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import combinations, islice

CLOCKS_MAX, DATES_MAX = 20, 30
DAY_SECONDS = 86_400.0
_OFFSETS_MAX = 6
_ON_A_CLOCK = re.compile(
    r'"(?:[a-z_]{0,12}clock|pace|split|[a-z_]{0,12}remaining|time_left)":"', re.IGNORECASE
)
_PACE = re.compile(r"pace|split|lap|配速|用时|成绩")
_INSTANT = re.compile(
    r"([0-9]{4})-([01][0-9])-([0-3][0-9])[T ]([0-2][0-9]):([0-5][0-9])(?::[0-9.]{2,9})?"
    r"(Z|[+-](?:0[0-9]|1[0-4]):?[0-5][0-9])"
)
_LOCAL = re.compile(
    r"([0-9]{4})-([01][0-9])-([0-3][0-9])[T ]([0-2][0-9]):([0-5][0-9])(?::[0-9]{2})?(?![0-9:.Z+-])"
)
_ZONE = re.compile(r"(?:UTC|GMT)[ ]?([+-])[ ]?([0-9]{1,2})(?::([0-5][0-9]))?")
NAMES_UTC = re.compile(r"\bUTC|\bGMT|[0-9]Z\b")
_AHEAD = re.compile(r"offset[a-z_]{0,12}\"?\s*[:=]\s*\"?([+-]?[0-9]{1,2}(?:\.[0-9]{1,2})?)\b")
_WEEK = re.compile(r"周|星期|\bweek", re.IGNORECASE)
_YEAR = re.compile(r"年|\byear", re.IGNORECASE)
Date = tuple[int | None, ...]


def whole_dates(dates: Iterable[Date]) -> list[date]:
    """Those of which year, month and day were told."""
    found = []
    for year, month, day in dates:
        if year and month and day and month > 0:
            try:
                found.append(date(year, month, day))
            except ValueError:
                continue
    return sorted(found)[:DATES_MAX]


def instants(text: str) -> list[datetime]:
    """The moments of a text whose offset from UTC is told, in UTC."""
    found = []
    for match in _INSTANT.finditer(text):
        *parts, zone = match.groups()
        try:
            local = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[misc,arg-type]
        except ValueError:
            continue
        if zone != "Z":
            sign = -1 if zone[0] == "-" else 1
            hours, minutes = int(zone[1:3]), int(zone[-2:])
            local -= sign * timedelta(hours=hours, minutes=minutes)
        found.append(local)
        if len(found) >= CLOCKS_MAX:
            break
    return found


def locals_of(text: str) -> list[datetime]:
    """The moments of a text that are told without a zone: they are compared with each other."""
    found = []
    for match in islice(_LOCAL.finditer(text), CLOCKS_MAX):
        try:
            found.append(datetime(*map(int, match.groups()), tzinfo=UTC))  # type: ignore[misc,arg-type]
        except ValueError:
            continue
    return found


def offsets(text: str) -> list[float]:
    """By how many seconds a zone that is named differs from another: UTC+8, offset_hours."""
    found = [0.0]
    for sign, hours, minutes in _ZONE.findall(text):
        found.append((3600.0 * int(hours) + 60.0 * int(minutes or 0)) * (1 if sign == "+" else -1))
    found += [3600.0 * float(hours) for hours in _AHEAD.findall(text)]
    found = list(dict.fromkeys(found))[:_OFFSETS_MAX]
    between = [b - a for a in found for b in found if a != b]
    return list(dict.fromkeys([*found[1:], *between]))


def since(clocks: Iterable[float], nows: Iterable[float]) -> Iterator[float]:
    """Seconds between the time of asking and the times told: so long ago."""
    few = sorted(clocks)[:CLOCKS_MAX]
    for now in nows:
        for clock in few:
            yield abs(now - clock)


def between_times(clocks: Iterable[float], corpus: str) -> Iterator[float]:
    """Seconds from one time of the day to another, or to the next day's."""
    few = sorted(clocks)[:CLOCKS_MAX]
    is_pace = _PACE.search(corpus) is not None
    for early, late in combinations(few, 2):
        yield late - early
        yield DAY_SECONDS - (late - early)
        if is_pace:
            yield (late - early) / 60  # 5:38 is minutes and seconds


def on_clocks(clocks: Iterable[float], corpus: str) -> Iterator[float]:
    """Seconds of 5:42, where that are minutes left and no time of the day."""
    if _ON_A_CLOCK.search(corpus):
        yield from (clock / 60 for clock in clocks)


def between_dates(
    told: Iterable[date], today: date | None, years: Iterable[float]
) -> Iterator[float]:
    """Seconds from one day to another, the last one counted or not."""
    days = list(told)
    for one, other in combinations(days, 2):
        yield (abs((other - one).days) + 1) * DAY_SECONDS
    if today is not None:
        for day in days:
            yield (abs((today - day).days) + 1) * DAY_SECONDS
        days.append(today)
        for year in {int(n) for n in years if n in range(1900, today.year)}:
            yield (today.year - year) * 365.25 * DAY_SECONDS
    for one, other in combinations(days, 2):
        yield abs((other - one).days) * DAY_SECONDS


def common_days(text: str, dates: Iterable[Date]) -> Iterator[int]:
    """What everybody knows: a week has seven days, November thirty, a year 365."""
    if _WEEK.search(text):
        yield from (5, 7)
    if _YEAR.search(text):
        yield 365
    for year, month, _ in list(dates)[:DATES_MAX]:
        if month and 0 < month <= 12:
            yield monthrange(year or 2026, month)[1]


def months_of(dates: Iterable[Date]) -> Iterator[float]:
    """How many months were told of: two months of bills."""
    months = {told[:2] for told in dates if told[1] and not told[2]}
    if len(months) > 1:
        yield len(months) * 2_629_800.0


def differences(spans: Iterable[float]) -> Iterator[float]:
    """By how much one way lasts longer than another."""
    few = [span for span in spans if span < DAY_SECONDS / 2][:10]
    for one, other in combinations(few, 2):
        yield abs(one - other)


_HOLIDAYS = (
    (re.compile(r"圣诞|\bchristmas\b(?! eve)|\bxmas\b"), 12, 25),
    (re.compile(r"平安夜|\bchristmas eve\b"), 12, 24),
    (re.compile(r"\bnew year'?s eve\b|跨年"), 12, 31),
    (re.compile(r"元旦|\bnew year(?!'?s eve)"), 1, 1),
    (re.compile(r"情人节|\bvalentine"), 2, 14),
    (re.compile(r"\bhalloween\b|万圣节"), 10, 31),
    (re.compile(r"劳动节|五一|\bmay day\b"), 5, 1),
    (re.compile(r"国庆"), 10, 1),
    (re.compile(r"双十一|双11"), 11, 11),
    (re.compile(r"双十二|双12"), 12, 12),
)


def holidays(text: str, today: date) -> Iterator[Date]:
    """The dates of holidays that a text names, the next ones from today."""
    for name, month, day in _HOLIDAYS:
        if name.search(text):
            is_over = (month, day) < (today.month, today.day)
            yield (today.year + is_over, month, day)


def with_years(dates: Iterable[Date], today: date) -> Iterator[Date]:
    """Dates without a year, in this one and in the next."""
    for year, month, day in list(dates)[:DATES_MAX]:
        if not year and month and day and month > 0:
            yield (today.year, month, day)


def between(moments: list[datetime]) -> Iterator[float]:
    """Seconds from one moment to another."""
    for one, other in combinations(moments[:CLOCKS_MAX], 2):
        yield abs((other - one).total_seconds())

"""The dates and the times of the day that a model was told, and what may be said of them.

A day may be named by its date, by its weekday, or by what it is from today; a time may be told with
the half of the day or without; and the time of asking is one thing here and another in China.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta

from worker.core import moments
from worker.core.comparing import has, tight
from worker.core.daytimes import (
    ENGLISH_DAYS,
    RELATIVE,
    clock_of,
    plain_clock,
    week_of,
    weekday_of,
)
from worker.core.figure import Figure, Kind
from worker.core.moments import DAY_SECONDS, Date, whole_dates

_ONE_O_CLOCK = 13 * 3600.0  # in the afternoon
_MONTH = 2_629_800.0
_CHINA = 28_800.0  # seconds before UTC
_NEXT_DAY = re.compile(r"次日|翌日|隔天|nextday|\+1d")
_YEARS = frozenset({"明年", "next year"})
_WEEKDAYS = [
    re.compile(rf"\b{english}(?:[a-z]{{0,6}}day)?\b|(?:周|星期|礼拜){chinese}", re.IGNORECASE)
    for english, chinese in zip(ENGLISH_DAYS, "一二三四五六日", strict=True)
]
_OFFSET = re.compile(r"T[0-9:.]{5,12}[+-](0[0-9]|1[0-4]):?([0-5][0-9])")


@dataclass(slots=True)
class Calendar:
    """Dates and times that were told. Fill it with `take`, then `settle`, then ask."""

    question: str = ""
    today: date | None = None
    now: float | None = None  # seconds of that day, UTC
    corpus: str = ""  # all that was told, tight
    dates: set[Date] = field(default_factory=set)
    years: set[int | None] = field(default_factory=set)  # of those dates
    whole: list[date] = field(default_factory=list)  # the dates, their years added
    times: set[Date] = field(default_factory=set)
    clocks: set[float] = field(default_factory=set)  # seconds of the day
    ends: set[float] = field(default_factory=set)  # when what begins then is over
    counts_to_24: bool = False
    successive: list[float] = field(default_factory=list)  # seconds from a time to the next one
    offsets: list[float] = field(default_factory=list)  # of local times from UTC, in seconds
    shifts: list[float] = field(default_factory=list)  # between zones that are named
    ages: list[float] = field(default_factory=list)  # seconds that something lasts, or is old
    _told: dict[Date, bool] = field(default_factory=dict)  # whether a date said was told
    _short_times: set[Date] = field(default_factory=set)

    # --- taking in -------------------------------------------------------------------------------

    def take(self, found: Iterable[Figure], text: str) -> None:
        """Add the dates and the times among the figures of a text."""
        last: float | None = None
        for figure in found:
            if figure.kind is Kind.DATE:
                self.dates.add(figure.parts)
            elif figure.kind is Kind.TIME:
                self.times.add(figure.parts)
                clock = clock_of(figure, text) or plain_clock(figure)
                if last is not None:
                    self.successive.append(abs(clock - last))
                last = clock
                self.clocks.add(clock)

    def take_offsets(self, text: str) -> None:
        """Add by how much the local times of a text differ from UTC."""
        for hours, minutes in _OFFSET.findall(text):
            self.offsets.append(3600.0 * int(hours) + 60.0 * int(minutes))

    def settle(self) -> None:
        """Add the days that were asked for by what they are from today."""
        # Asked about 明天, an honest answer names the day after the one that a tool told.
        question = self.question.lower()
        days = {offset for word, offset in RELATIVE.items() if word in question}
        for told in whole_dates(self.dates):
            for offset in days:
                self.add_day(told + timedelta(days=offset))
        self.years = {told[0] for told in self.dates if told[0]}
        self.counts_to_24 = any(each >= _ONE_O_CLOCK for each in self.clocks)

    def add_day(self, day: date) -> None:
        """Add a date that follows from those told."""
        self.dates.add((day.year, day.month, day.day))

    def add_clock(self, seconds: float) -> None:
        """Add a time of the day that follows from those told."""
        minutes = round(seconds / 60) % 1440
        self.times.add((minutes // 60 % 12, minutes % 60, None))
        self.clocks.add(minutes * 60.0)

    def complete(self, said: str) -> None:
        """Add holidays that are named; the month of a 24号; the year of a 12月20日."""
        if self.today is None:
            self.whole = whole_dates(self.dates)
            return
        self.dates |= set(moments.holidays(said, self.today))
        months = {told[1] for told in self.dates if told[1] and told[1] > 0}
        days = {told[2] for told in self.dates if told[2] and not told[1]}
        self.dates |= {(None, month, day) for month in months for day in days}
        self.whole = whole_dates([*self.dates, *moments.with_years(self.dates, self.today)])

    def add_upcoming(self, told: str) -> None:
        """Add the dates of the next weekdays that are told."""
        if self.today is None:
            return
        for weekday, form in enumerate(_WEEKDAYS):
            if form.search(told):
                ahead = (weekday - self.today.weekday()) % 7
                self.add_day(self.today + timedelta(days=ahead))

    def nows(self) -> list[float]:
        """The time of asking in UTC, and in the zones that are known: who asks in Chinese has one."""
        if self.now is None:
            return []
        is_chinese = any("\u3400" <= c <= "\u9fff" for c in self.question)
        zones = [*self.offsets, *self.shifts, *([_CHINA] if is_chinese else [])]
        return [self.now, *((self.now + zone) % DAY_SECONDS for zone in dict.fromkeys(zones))]

    # --- asking ----------------------------------------------------------------------------------

    def has_date(self, said: Date) -> bool:
        """Whether nothing is said that was not told, the year apart: it may be added to 12月2日."""
        is_told = self._told.get(said)
        if is_told is None:
            is_told = self._told[said] = any(_same_date(said, told) for told in self.dates)
        return is_told

    def has_neighbour(self, said: Date) -> bool:
        """Whether the day before or after it was told."""
        if said[1] is None or said[1] < 0 or said[2] is None:
            return False
        near = [day + timedelta(days=n) for day in whole_dates(self.dates) for n in (-1, 1)]
        return any(_same_date(said, (day.year, day.month, day.day)) for day in near)

    def has_day_of_month(self, day: float) -> bool:
        """Whether a date with this day was told."""
        return any(told[2] == day for told in self.dates)

    def is_now(self, minute: int, hour: int) -> bool:
        """Whether this is the time of asking, where the one who asks or a tool is."""
        ways = [round(now / 60) % 1440 for now in self.nows()[1:]]
        return any(abs(60 * (hour % 12) + minute - way % 720) <= 1 for way in ways)

    def has_time(self, said: Date, *, clock: float | None = None) -> bool:
        """Whether this time of the day was told; seconds may be left out.

        `clock` are the seconds of the day where the half of the day is said, too. It has to be the
        one told, if the texts count the hours to 24.
        """
        if clock is not None and self.counts_to_24:
            return clock in self.clocks
        if said[2] is None:
            return said[:2] in self._without_seconds()
        return said in self.times

    def is_end(self, said: Date, clock: float | None) -> bool:
        """Whether something is over at this time that was told to begin and to last so long."""
        if clock is not None and self.counts_to_24:
            return clock in self.ends
        wanted = 3600.0 * (said[0] or 0) + 60.0 * (said[1] or 0)
        return any(end % (DAY_SECONDS / 2) == wanted for end in self.ends)

    def _without_seconds(self) -> set[Date]:
        if not self._short_times:
            self._short_times = {told[:2] for told in self.times}
        return self._short_times

    def has_day(self, name: str, *, is_now: bool = False) -> bool:
        """Whether a day by its name is one that was told; `is_now` says that it is to be today."""
        word = name.lower()
        if tight(word) in self.corpus or tight(word) in tight(self.question):
            return True
        if word.startswith(("明", "tomorrow")) and _NEXT_DAY.search(self.corpus):
            return True
        weekday, week = weekday_of(word), week_of(word)
        if week is not None and self.today is not None:
            return self._is_in_week(week, weekday)
        if weekday is not None:
            if is_now and self.today is not None and self.today.weekday() == weekday:
                return True
            english = ENGLISH_DAYS[weekday]
            told = any(day.weekday() == weekday for day in self.whole)
            return told or re.search(rf"(?:\b|_){english}(?:\b|_)", self.corpus) is not None
        if word in _YEARS and self.today is not None:
            return any(day.year == self.today.year + 1 for day in self.whole)
        return self._is_relative(word)

    def _is_relative(self, word: str) -> bool:
        """Whether a day that is named by what it is from today was told."""
        offset = next((n for start, n in RELATIVE.items() if word.startswith(start)), None)
        if offset is not None and self._is_age(-offset):
            return True
        if offset is None or self.today is None:
            return offset is not None and offset <= 0 and bool(self.dates)
        # Where it is still the day before, or the next one already, nobody knows.
        near = [self.today + timedelta(days=offset + n) for n in (-1, 0, 1)]
        near = near[:2] if offset < 0 else near[1:]
        return any((day.year, day.month, day.day) in self.dates for day in near)

    def _is_in_week(self, week: int, weekday: int | None) -> bool:
        """Whether a date of that week was told: 0 is this one."""
        assert self.today is not None
        monday = self.today - timedelta(days=self.today.weekday()) + timedelta(weeks=week)
        return any(
            (day - monday).days in range(7) and weekday in (None, day.weekday())
            for day in whole_dates(self.dates)
        )

    def _is_age(self, days: int) -> bool:
        """Whether a value is told to be about so many days old: 昨天的数据."""
        return days > 0 and has(self.ages, DAY_SECONDS * days, DAY_SECONDS / 2)


def _same_date(said: Date, told: Date) -> bool:
    if told[0] is not None and said[0] is not None and said[0] != told[0]:
        return False
    if _same_quarter(said[1], told[1]) and said[2] is None:
        return True
    day_first = (said[0], said[2], said[1])
    return any(
        all(mine is None or mine == theirs for mine, theirs in zip(way[1:], told[1:], strict=True))
        and (way[1:] != (None, None) or way[0] == told[0])
        for way in (said, day_first)
    )


def _same_quarter(said: int | None, told: int | None) -> bool:
    """A quarter (a negative month) holds its three months."""
    if said is None or told is None or (said > 0 and told > 0):
        return False
    return _quarter(said) == _quarter(told)


def _quarter(month: int) -> int:
    return -month if month < 0 else (month + 2) // 3


def after_days(dates: Iterable[date], lengths: Iterable[float]) -> Iterator[date]:
    """The days on which something is over that begins at a date and lasts so many seconds."""
    few = list(lengths)
    for day in dates:
        for seconds in few:
            months, rest = divmod(seconds, _MONTH)
            try:
                if rest == 0 and months:
                    years, month = divmod(day.month - 1 + int(months), 12)
                    yield day.replace(year=day.year + years, month=month + 1, day=min(day.day, 28))
                    yield day.replace(year=day.year + years, month=month + 1)
                else:
                    yield day + timedelta(days=round(seconds / DAY_SECONDS))
            except (ValueError, OverflowError):
                continue


def days_from(today: date, counts: Iterable[int]) -> Iterator[date]:
    """The days so many days before and after today, as far as there are such."""
    for count in counts:
        for each in (count, -count):
            try:
                yield today + timedelta(days=each)
            except OverflowError:
                continue

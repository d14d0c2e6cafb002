"""What a model was told: the admissible figures, in a form that is quick to ask.

A figure is known if it stands in a text with values, in whatever form and unit; if it was reckoned
from such; if it is quoted from a note on what is missing (and then it is no amount); or if it counts
what was asked for. Days may be named by what they are from today.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import combinations

from worker.core.daytimes import (
    ENGLISH_DAYS,
    RELATIVE,
    clock_of,
    plain_clock,
    week_of,
    weekday_of,
)
from worker.core.fields import place_of
from worker.core.figure import Figure, Kind
from worker.core.figures import figures
from worker.core.measures import base_value
from worker.core.reckoning import ASKED, LOOSE_MAX, Operand, Reckoner

_CODE = re.compile(r"[0-9]{4,}")
_CENTS = re.compile(r"(?:cents?|分|fen)[\"']?\s*[:=]\s*([0-9]{1,15})\b", re.IGNORECASE)
_TIMES = re.compile(
    r"([两二三四五六七八九十]|[1-9]|1[0-2])[ ]?(?=[位人个张份次盒晚只件名间套瓶箱大成小])"
    r"|\b(two|three|four|five|six|seven|eight|nine|ten|twelve)\b|\b([2-9]|1[0-2])[ ][A-Za-z]",
    re.IGNORECASE,
)
_WORD_TIMES = dict(zip("两二三四五六七八九十", (2, 2, 3, 4, 5, 6, 7, 8, 9, 10), strict=True))
_WORD_TIMES |= {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_WORD_TIMES |= {"nine": 9, "ten": 10, "twelve": 12}
_ONE_O_CLOCK = 13 * 3600.0  # in the afternoon
_LIST = re.compile(r"\[([^\[\]{}]{1,400})\]")
_PACE = re.compile(r"pace|split|lap|配速|用时|成绩")
_OFFSET = re.compile(r"T[0-9:.]{5,12}[+-](0[0-9]|1[0-4]):?([0-5][0-9])")
_HUNDRED = re.compile(r"[一每][ ]?(?:百|100)|(?:/|\bper )100\b|\ba hundred\b", re.IGNORECASE)
_TIMES_MAX, _DATES_MAX, _CLOCKS_MAX = 6, 30, 20


@dataclass(slots=True)
class Known:
    """The figures that the model was told. Fill it with `take`, then `settle`, then ask."""

    question: str = ""
    today: date | None = None
    now: float | None = None  # seconds of that day, UTC
    corpus: str = ""
    numbers: list[float] = field(default_factory=list)
    quoted: list[float] = field(default_factory=list)  # of notes: never a price, never reckoned
    bare: list[float] = field(default_factory=list)  # told without a unit
    expected: dict[str | None, list[float]] = field(default_factory=dict)  # of these, by dimension
    prices: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)  # in percent
    amounts: dict[str, list[float]] = field(default_factory=dict)  # by dimension, in its base unit
    units: dict[str, set[float]] = field(default_factory=dict)  # by dimension, those that were used
    spans: list[float] = field(default_factory=list)  # seconds between two times or dates
    offsets: list[float] = field(default_factory=list)  # of local times from UTC, in seconds
    waits: list[float] = field(default_factory=list)  # seconds until a retry
    dates: set[tuple[int | None, ...]] = field(default_factory=set)
    years: set[int | None] = field(default_factory=set)  # of those dates
    times: set[tuple[int | None, ...]] = field(default_factory=set)
    counts_to_24: bool = False
    clocks: set[float] = field(default_factory=set)  # seconds of the day
    operands: list[Operand] = field(default_factory=list)
    runs: list[list[Operand]] = field(default_factory=list)
    lengths: set[int] = field(default_factory=set)  # how many numbers a text holds
    records: set[int] = field(default_factory=set)  # and how many records
    _counted: dict[tuple[float, int], int] = field(default_factory=dict)
    _reckoner: Reckoner | None = None

    # --- taking in -------------------------------------------------------------------------------

    def take(self, text: str, *, is_note: bool = False, is_question: bool = False) -> None:
        """Add the figures of a text: one with values, or one that only tells what is missing."""
        run: list[Operand] = []
        for figure in figures(text):
            if figure.kind is Kind.DATE:
                self.dates.add(figure.parts)
            elif figure.kind is Kind.TIME:
                self.times.add(figure.parts)
                self.clocks.add(clock_of(figure, text) or plain_clock(figure))
            elif figure.kind is Kind.IDENTIFIER:
                codes = self.quoted if is_note else self.numbers
                codes += [float(digits) for digits in _CODE.findall(figure.text)]
            elif is_note:
                self._take_note(figure)
            elif figure.values:
                run += self._take_number(figure, text, is_question=is_question)
        if not is_note:
            in_cents = [int(cents) / 100 for cents in _CENTS.findall(text)]
            self.numbers += in_cents
            self.prices += in_cents
            if len(run) == 2:  # of two numbers in one text it is told how they differ
                run = [Operand(each.value, each.tags | {f"~{len(self.runs)}"}) for each in run]
            self.runs.append(run)
            for hours, minutes in _OFFSET.findall(text):
                self.offsets.append(3600.0 * int(hours) + 60.0 * int(minutes))
            self.lengths.add(len(run))
            self.lengths |= {listed[1].count(",") + 1 for listed in _LIST.finditer(text)}
            self.records |= {text.count("{")} - {0, 1}
            self._reckon_with(run)

    def _take_note(self, figure: Figure) -> None:
        """What a note holds may be quoted; seconds may be told in minutes, and rounded up."""
        self.quoted += figure.values
        if figure.kind is Kind.DURATION:
            seconds = [value * figure.unit for value in figure.values]
            self.waits += seconds
            self.amounts.setdefault("time", []).extend(seconds)

    def _take_number(self, figure: Figure, text: str, *, is_question: bool) -> Iterator[Operand]:
        """Add one number in all that it means; yield what may be reckoned with."""
        place = place_of(figure, text, len(self.runs))
        if place.is_name:
            self.numbers += figure.values
            return
        for value in figure.values:
            told = list(dict.fromkeys((value, value * place.scale)))
            self.numbers += told
            if place.is_share:
                self.numbers.append(value / 100)
                self.shares.append(value)
            elif figure.money:
                self.prices += told
            elif place.is_bare:
                self.bare += told
            if place.is_open or place.hint:
                self.expected.setdefault(place.hint, []).extend(told)
            if place.may_be_share or (value <= 1 and place.is_bare):
                self.shares += [value, 100 * value] if value <= 1 else [value]
            if place.measure is not None:
                dimension, unit = place.measure
                base = base_value(value, place.measure)
                self.amounts.setdefault(dimension, []).append(base)
                self.units.setdefault(dimension, set()).add(unit)
            tags = place.tags | {ASKED} if is_question else place.tags
            yield Operand(value * place.scale, tags)

    def _reckon_with(self, run: Iterable[Operand]) -> None:
        """A value told twice, in the question and by a tool, is one: it is not added to itself."""
        here: dict[float, int] = {}
        for each in run:
            nth = here[each.value] = here.get(each.value, 0) + 1
            at = self._counted.get((each.value, nth))
            if at is None:
                self._counted[each.value, nth] = len(self.operands)
                self.operands.append(each)
            else:
                self.operands[at] = Operand(each.value, self.operands[at].tags | each.tags)

    def settle(self, texts: Sequence[str], answer: str) -> None:
        """Put everything in order; `texts` are all that was taken, `answer` what is asked of."""
        self.corpus = tight("\n".join(texts))
        for told in (self.numbers, self.quoted, self.bare, self.prices, self.shares, self.waits):
            told.sort()
        self._add_relative_days()
        self.years = {told[0] for told in self.dates if told[0]}
        self.spans = sorted([*self._between_times(), *self._between_dates(), *self.offsets])
        self.counts_to_24 = any(each >= _ONE_O_CLOCK for each in self.clocks)
        self._add_ends()
        self._add_speeds()
        for values in (*self.amounts.values(), *self.expected.values()):
            values.sort()
        self.operands = self.operands[:LOOSE_MAX]
        self._small = tuple(n for n in _times_in(f"{self.question}\n{answer}") if n > 1)
        if "斤" in answer:
            self._small += (2.0,)  # a 斤 is half a kilogram
        if _HUNDRED.search(answer):
            self._small += (100.0,)
        self._reckoner = None

    def reckon_also_with(self, derived: Iterable[Operand]) -> None:
        """Take figures of the answer that were reckoned themselves."""
        told = {each.value for each in self.operands}
        fresh = [each for each in derived if each.value not in told]
        self.operands[:0] = fresh
        self.numbers = sorted([*self.numbers, *(each.value for each in fresh)])
        self.prices = sorted([*self.prices, *(each.value for each in fresh)])
        self._reckoner = None

    @property
    def reckoner(self) -> Reckoner:
        """Everything that follows from what was told."""
        if self._reckoner is None:
            asked = _times_in(self.question)
            self._reckoner = Reckoner(self.operands, self.runs, self._small, asked)
        return self._reckoner

    _small: tuple[float, ...] = ()

    def _add_relative_days(self) -> None:
        # Asked about 明天, an honest answer names the day after the one that a tool told.
        question = self.question.lower()
        days = {offset for word, offset in RELATIVE.items() if word in question}
        for told in self._whole_dates():
            for offset in days:
                other = told + timedelta(days=offset)
                self.dates.add((other.year, other.month, other.day))

    def _add_speeds(self) -> None:
        """So many kilometres in so many hours, in km/h."""
        for metres in self.amounts.get("length", ())[:_TIMES_MAX]:
            for seconds in self.amounts.get("time", ())[:_TIMES_MAX]:
                if seconds > 0:
                    self.amounts.setdefault("speed", []).append(3.6 * metres / seconds)

    def _add_ends(self) -> None:
        """When something is over that begins at a time and lasts so long."""
        lasting = sorted({s for s in self.amounts.get("time", ()) if 60 <= s < 86_400})
        for clock in sorted(self.clocks)[:_CLOCKS_MAX]:
            for seconds in lasting[:_CLOCKS_MAX]:
                minutes = round((clock + seconds) / 60)
                self.times.add((minutes // 60 % 12, minutes % 60, None))
                self.clocks.add(minutes % 1440 * 60.0)

    def _whole_dates(self) -> list[date]:
        found = []
        for year, month, day in self.dates:
            if year and month and day and month > 0:
                try:
                    found.append(date(year, month, day))
                except ValueError:
                    continue
        return sorted(found)[:_DATES_MAX]

    def _between_times(self) -> Iterator[float]:
        """Seconds from one time of the day to another, or to the next day's."""
        clocks = sorted(self.clocks)[:_CLOCKS_MAX]
        if self.now is not None:
            for clock in clocks:
                yield abs(self.now - clock)  # so long ago
        is_pace = _PACE.search(self.corpus) is not None
        for early, late in combinations(clocks, 2):
            yield late - early
            yield 86_400.0 - (late - early)
            if is_pace:
                yield (late - early) / 60  # 5:38 is minutes and seconds

    def _between_dates(self) -> Iterator[float]:
        days = self._whole_dates()
        if self.today is not None:
            days.append(self.today)
            for year in {int(n) for n in self.numbers if n in range(1900, self.today.year)}:
                yield (self.today.year - year) * 365.25 * 86_400.0
        for one, other in combinations(days, 2):
            yield abs((other - one).days) * 86_400.0

    # --- asking ----------------------------------------------------------------------------------

    def has_number(self, value: float, tolerance: float) -> bool:
        """Whether a number near enough was told."""
        return has(self.numbers, value, tolerance)

    def has_expected(self, dimension: str, value: float, tolerance: float) -> bool:
        """Whether it was told without a unit, and nothing says that it is of another dimension."""
        return any(has(self.expected.get(each, []), value, tolerance) for each in (None, dimension))

    def has_price(self, value: float, tolerance: float) -> bool:
        """Whether it was told as an amount of money, or without a unit."""
        return has(self.prices, value, tolerance) or has(self.bare, value, tolerance)

    def has_share(self, value: float, tolerance: float) -> bool:
        """Whether it was told in percent, or as a number that may well be meant in percent."""
        return has(self.shares, value, tolerance)

    def has_note(self, value: float) -> bool:
        """Whether a note on what is missing holds this number."""
        return has(self.quoted, value, 0.0)

    def has_amount(self, dimension: str, base: float, tolerance: float) -> bool:
        """Whether so much of something was told, in whatever unit."""
        return has(self.amounts.get(dimension, []), base, tolerance)

    def has_date(self, said: tuple[int | None, ...]) -> bool:
        """Whether nothing is said that was not told, the year apart: it may be added to 12月2日."""
        if any(_same_date(said, told) for told in self.dates):
            return True
        alone = said[1:] == (None, None)
        return alone and self.has_number(float(said[0] or 0), 0.0)

    def has_day_of_month(self, day: float) -> bool:
        """Whether a date with this day was told."""
        return any(told[2] == day for told in self.dates)

    def has_time(self, said: tuple[int | None, ...], *, clock: float | None = None) -> bool:
        """Whether this time of the day was told; seconds may be left out.

        `clock` are the seconds of the day where the half of the day is said, too. It has to be the
        one told, if the texts count the hours to 24.
        """
        if clock is not None and self.counts_to_24:
            return clock in self.clocks
        return any(
            said[:2] == told[:2] and (said[2] is None or said[2] == told[2]) for told in self.times
        )

    def has_day(self, name: str, *, is_now: bool = False) -> bool:
        """Whether a day by its name is one that was told; `is_now` says that it is to be today."""
        word = name.lower()
        if tight(word) in self.corpus or tight(word) in tight(self.question):
            return True
        weekday, week = weekday_of(word), week_of(word)
        if week is not None and self.today is not None:
            return self._is_in_week(week, weekday)
        if weekday is not None:
            if is_now and self.today is not None and self.today.weekday() == weekday:
                return True
            english = ENGLISH_DAYS[weekday]
            told = any(day.weekday() == weekday for day in self._whole_dates())
            return told or re.search(rf"(?:\b|_){english}(?:\b|_)", self.corpus) is not None
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
            for day in self._whole_dates()
        )

    def _is_age(self, days: int) -> bool:
        """Whether a value is told to be about so many days old: 昨天的数据."""
        return days > 0 and has(self.amounts.get("time", []), 86_400.0 * days, 43_200.0)


def has(numbers: list[float], value: float, tolerance: float) -> bool:
    """Whether a sorted list holds a number that is near enough."""
    slack = abs(tolerance) + 1e-9 * max(1.0, abs(value))
    at = bisect_left(numbers, value - slack)
    return at < len(numbers) and numbers[at] <= value + slack


def tight(text: str) -> str:
    """A text for comparing: iPhone15 is iPhone 15."""
    return "".join(text.split()).casefold()


def _times_in(text: str) -> tuple[float, ...]:
    found: dict[float, None] = {}
    for match in _TIMES.finditer(text[:4000]):
        word = next(filter(None, match.groups())).lower()
        found[float(_WORD_TIMES.get(word) or word)] = None
    return tuple(found)[:_TIMES_MAX]


def _same_date(said: tuple[int | None, ...], told: tuple[int | None, ...]) -> bool:
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

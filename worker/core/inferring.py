"""What follows from the moments and measures told: spans, ends, other zones, speeds, volumes.

An answer says how long something takes that begins and ends, when something ends that lasts so long,
how fast somebody was. All of it is bounded: of a few clocks, dates and measures, all pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.core import moments
from worker.core.dating import Calendar, after_days, days_from
from worker.core.figure import Figure, Kind
from worker.core.moments import DAY_SECONDS, whole_dates
from worker.core.rows import Rows

_REST = re.compile(
    r"剩|其余|其他|另外|还有|\b(?:left|other|rest|remain\w*|more|to go)\b", re.IGNORECASE
)
_WORKING_DAYS = re.compile(r"工作日|(?:business|working)_?days?")
_FEW = 6
_SIDES_MAX = 12
Amounts = dict[str, list[float]]  # by dimension, in its base unit


@dataclass(slots=True)
class Spans:
    """How long something lasts that was not told itself, in seconds."""

    told: list[float] = field(default_factory=list)  # between two times or dates; sorted
    since: list[float] = field(default_factory=list)  # between now and the times told; sorted
    gaps: list[float] = field(default_factory=list)  # by how much lasting differs; sorted
    common_days: set[int] = field(default_factory=set)  # a week has seven


@dataclass(frozen=True, slots=True)
class Inferring:
    """Adds to the calendar and to the amounts told what follows from them."""

    calendar: Calendar
    amounts: Amounts
    rows: Rows
    numbers: Sequence[float]

    def spans(self, texts: Sequence[str], answer: str, asked: Sequence[Figure]) -> Spans:
        """Infer everything; `texts` are all that was told, `asked` are the figures of `answer`."""
        calendar = self.calendar
        said = f"{calendar.question}\n{answer}"
        calendar.dates |= {(None, -quarter, None) for quarter in self.rows.quarters}
        months = [*calendar.dates, *(f.parts for f in asked if f.kind is Kind.DATE)]
        told = [
            *moments.between_times(calendar.clocks, calendar.corpus),
            *moments.between_dates(whole_dates(calendar.dates), calendar.today, self.numbers),
            *moments.months_of(calendar.dates),
            *calendar.offsets,
            *self.rows.periods,
            *(self.rows.rests if _REST.search(answer) else ()),
            *moments.on_clocks(calendar.clocks, calendar.corpus),
        ]
        calendar.add_upcoming("\n".join(texts))
        calendar.complete(f"{said}\n{answer}".lower())
        self._add_ends_of_days()
        told += moments.between_dates(calendar.whole, calendar.today, ())
        common_days = set(moments.common_days(said, months))
        common_days |= {round(s / DAY_SECONDS) for s in self.rows.periods if s >= DAY_SECONDS}
        since = sorted(moments.since(calendar.clocks, calendar.nows()))
        told += self._instants(texts, is_utc=moments.NAMES_UTC.search(answer) is not None)
        calendar.shifts = moments.offsets("\n".join([*texts, answer]))
        told += [abs(shift) for shift in calendar.shifts]
        ways = self._speeds()
        told += ways
        self._add_clocks(ways)
        self._add_volumes()
        self._add_days_from_today()
        gaps = sorted(moments.differences(calendar.successive))
        return Spans(sorted(told), since, gaps, common_days)

    def _instants(self, texts: Sequence[str], *, is_utc: bool) -> list[float]:
        """Moments with a zone: how long ago, how far apart, and what they are in UTC."""
        calendar = self.calendar
        found = [each for text in texts for each in moments.instants(text)]
        spans = list(moments.between(found))
        for text in texts:
            spans += moments.between(moments.locals_of(text))
        for instant in found:
            clock = 3600.0 * instant.hour + 60.0 * instant.minute
            if is_utc:
                calendar.add_clock(clock)
                calendar.add_day(instant.date())
            if calendar.now is not None and calendar.today is not None:
                days = (calendar.today - instant.date()).days
                spans.append(abs(DAY_SECONDS * days + calendar.now - clock))
        return spans

    def _add_clocks(self, ways: Sequence[float]) -> None:
        """Times in other zones, and when something is over that begins and lasts so long."""
        calendar = self.calendar
        few = sorted(calendar.clocks)[: moments.CLOCKS_MAX]
        for clock in [each + shift for each in few for shift in calendar.shifts]:
            calendar.add_clock(clock)
        lasting = sorted(
            {s for s in (*self.amounts.get("time", ()), *ways) if 60 <= s < DAY_SECONDS}
        )
        for clock in sorted(calendar.clocks)[: moments.CLOCKS_MAX]:
            for seconds in lasting[: moments.CLOCKS_MAX]:
                calendar.ends.add(60.0 * (round((clock + seconds) / 60) % 1440))

    def _speeds(self) -> list[float]:
        """How long so many kilometres take at a speed; and, so many in so many hours, the speed."""
        spans: list[float] = []
        lengths = sorted(set(self.amounts.get("length", ())))[:_FEW]
        for metres in lengths:
            for speed in self.amounts.get("speed", ())[:_FEW]:
                spans += [3.6 * metres / speed] if speed > 0 else []
        for metres in lengths:
            for seconds in self.amounts.get("time", ())[:_FEW]:
                if seconds > 0:
                    self.amounts.setdefault("speed", []).append(3.6 * metres / seconds)
        return spans

    def _add_ends_of_days(self) -> None:
        """The day on which something is over that begins on a day and lasts so many days."""
        calendar = self.calendar
        if _WORKING_DAYS.search(calendar.corpus):
            return  # which days those are, nobody knows
        lasting = {s for s in self.amounts.get("time", ()) if s >= DAY_SECONDS}
        found = after_days(calendar.whole[:_FEW], sorted(lasting)[:_FEW])
        for day in list(found):
            calendar.add_day(day)
            calendar.whole.append(day)

    def _add_volumes(self) -> None:
        """Of three sides, one after another, in litres."""
        sides = self.amounts.get("length", [])[:_SIDES_MAX]
        found = [1000 * a * b * c for a, b, c in zip(sides, sides[1:], sides[2:], strict=False)]
        self.amounts.setdefault("volume", []).extend(found)

    def _add_days_from_today(self) -> None:
        """The day on which something began that has lasted so many days."""
        days = {
            round(s / DAY_SECONDS) for s in self.amounts.get("time", ()) if s % DAY_SECONDS == 0
        }
        if self.calendar.today is not None:
            for day in days_from(self.calendar.today, sorted(days - {0})[:_FEW]):
                self.calendar.add_day(day)


def body_masses(amounts: Amounts) -> list[float]:
    """The body mass index of each height and weight."""
    return [
        grams / 1000 / metres**2
        for metres in amounts.get("length", ())[:_FEW]
        for grams in amounts.get("mass", ())[:_FEW]
        if metres
    ]

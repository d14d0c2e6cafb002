"""Figures that name something: identifiers, dates, days, times of the day, numbers of doors.

Such a figure is right or wrong as a whole: nothing is rounded and nothing reckoned with.
"""

from __future__ import annotations

import re
from collections.abc import Set
from datetime import date, timedelta

from worker.core import surroundings as near
from worker.core.comparing import has, tight
from worker.core.daytimes import weekday_of
from worker.core.figure import Figure, Kind
from worker.core.known import Known
from worker.core.moments import DAY_SECONDS
from worker.core.numerals import CHINESE_DIGITS, english_number_of
from worker.core.passage import Passage

_PHONE_DIGITS = 7
_NEAR_TIME, _CARRIED, _BESIDE = 24, 40, 6
_LASTING_MAX, _FAR = 10, 3000


class Naming:
    """Judges the figures of one answer that name something."""

    def __init__(self, passage: Passage, known: Known, counts: Set[float]) -> None:
        """`counts` are how many there are of what was asked for."""
        self._passage, self._known, self._counts = passage, known, counts

    # --- identifiers -----------------------------------------------------------------------------

    def is_name(self, figure: Figure) -> bool:
        """Whether an identifier was told."""
        known = self._known
        if figure.text.endswith("nil") or not figure.text.isascii():
            return tight(figure.text) in known.corpus
        glued = near.GLUED.match(figure.text)  # 800MPa
        if glued and known.has_number(float(glued[1]), 0.0):
            return True
        digits = re.sub("[^0-9]", "", figure.text)
        if len(digits) >= _PHONE_DIGITS and not re.search("[A-Za-z]", figure.text):
            return digits in known.digits  # 138-5711-0236
        magnitude = near.LETTERED.match(figure.text)  # M5.6
        if magnitude and known.has_number(float(magnitude[1]), 0.0):
            return True
        is_short = len(digits) < 2  # H5, GPT-4: a name
        return is_short or tight(figure.text).rstrip(".") in known.corpus

    def is_tail(self, figure: Figure) -> bool:
        """Whether it is how a long number ends that was told: 尾号 1175."""
        if not figure.text.isdigit():
            return False
        if len(figure.text) >= _PHONE_DIGITS and figure.text in self._known.digits:
            return True  # 8520-3316 without what parts it
        if not near.TAIL.search(self._passage.before(figure)):
            return False
        return re.search(rf"[0-9]{figure.text}(?![0-9])", self._known.digits) is not None

    # --- dates and days --------------------------------------------------------------------------

    def is_date(self, figure: Figure) -> bool:
        """Whether a date was told, or stands beside one that was."""
        if self._known.has_date(figure.parts):
            return True
        clause = self._passage.around(figure, near.CLAUSE_END)
        if near.NEIGHBOUR.search(clause) and self._known.calendar.has_neighbour(figure.parts):
            return True
        if figure.text.endswith("号") and self._is_numbered(figure):
            return True
        if figure.parts[1] is not None and figure.parts[2] is None and near.NO_DATA.search(clause):
            return True  # of December there is nothing yet
        return self._is_fraction(figure) or self._is_used_up(figure)

    def _is_used_up(self, figure: Figure) -> bool:
        """Whether it is the day on which what was told is used up at the pace that was told."""
        today = self._known.calendar.today
        if today is None or not near.USED_UP.search(
            self._passage.around(figure, near.SENTENCE_END)
        ):
            return False
        rows = self._known.reckoner.lasting.rows[:_LASTING_MAX]
        days = {int(seconds / DAY_SECONDS) + n for seconds, _ in rows for n in (0, 1)}
        ends = (today + timedelta(days=n) for n in days if n < _FAR)
        return any((end.month, end.day) == figure.parts[1:] for end in ends)

    def _is_fraction(self, figure: Figure) -> bool:
        """Whether 2/3 of the tools, which is no day of February, follows from what was told."""
        one, slash, other = figure.text.partition("/")
        if not (slash and one.isdigit() and other.isdigit()):
            return False
        if int(other) and self._known.reckoner.share(
            100 * int(one) / int(other), 0.0, has_digits=False
        ):
            return True  # 3/4 is left of what a quarter is gone of
        return all(
            int(n) in self._counts or self._known.has_number(int(n), 0.0) for n in (one, other)
        )

    def _is_numbered(self, figure: Figure) -> bool:
        """Whether it is the number of a door or a line that was told: 3号 is no part of 13号."""
        whole = rf"(?<![0-9{CHINESE_DIGITS}十]){re.escape(tight(figure.text))}"
        named = rf'"{figure.parts[2]}"(?!:)'  # the third, where that is a name: "3"
        corpus = self._known.corpus
        return re.search(whole, corpus) is not None or re.search(named, corpus) is not None

    def is_day(self, figure: Figure) -> bool:
        """Whether a day that is named was told, or nothing is told of it but when to ask again."""
        clause = self._passage.around(figure, near.CLAUSE_END)
        if figure.text in near.NIGHTS and self._has_time_after(figure):
            return True  # 今晚 with a time, which is judged
        sentence = self._passage.around(figure, near.SENTENCE_END)
        if near.AGAIN.search(clause) or near.MISSING.search(sentence):
            return True
        if self._is_of_date_beside(figure):
            return True
        is_now = near.NOW.search(clause) is not None
        return self._known.calendar.has_day(figure.text, is_now=is_now)

    def _is_of_date_beside(self, figure: Figure) -> bool:
        """Whether it is the weekday of the date after it, which is judged: Saturday, 5 December."""
        weekday, today = weekday_of(figure.text.lower()), self._known.calendar.today
        for other in self._passage.between(figure.end, figure.end + _BESIDE):
            year, month, day = (*other.parts, None, None, None)[:3]
            if other.kind is Kind.DATE and month and month > 0 and day and today is not None:
                try:
                    return date(year or today.year, month, day).weekday() == weekday
                except ValueError:
                    return False
        return False

    def _has_time_after(self, figure: Figure) -> bool:
        beside = self._passage.between(figure.end - _NEAR_TIME, figure.end + _NEAR_TIME // 3 + 1)
        return any(other.kind is Kind.TIME for other in beside)

    # --- times of the day ------------------------------------------------------------------------

    def is_now(self, figure: Figure) -> bool:
        """Whether it is said to be the time of asking, in whatever zone."""
        hour, minute, _ = figure.parts
        if near.NOW.search(self._passage.around(figure, near.CLAUSE_END)) is None:
            return False
        return self._known.calendar.is_now(minute or 0, hour or 0)

    def is_lasting(self, figure: Figure) -> bool:
        """Whether 5:39 are minutes and seconds, or hours and minutes, that something takes."""
        if not near.LASTING.search(self._passage.around(figure, near.SENTENCE_END)):
            return False
        hours, minutes, seconds = int(figure.values[0]), figure.parts[1] or 0, figure.parts[2]
        if seconds is not None:
            ways = [(3600.0 * hours + 60 * minutes + seconds, 0.5)]
        else:
            ways = [(60.0 * hours + minutes, 0.5), (3600.0 * hours + 60 * minutes, 30.0)]
        known = self._known
        return any(
            known.has_amount("time", way, slack)
            or has(known.spans.told, way, slack)
            or known.reckoner.amount(way, slack, has_digits=True) is not None
            or known.reckoner.rate(way, slack, is_money=False, has_digits=True) is not None
            for way, slack in ways
        )

    def is_said_as_time(self, figure: Figure) -> bool:
        """Whether sixteen thirty-eight is 16:38, or 40 the minutes after those of a span before."""
        hour, _, minute = figure.text.lower().partition(" ")
        if hour[:1].isalpha() and minute:
            h, m = english_number_of(hour), english_number_of(minute)
            if h < 10 <= m and self._known.has_number(100 * h + m, 0.0):
                return True  # one thirty-two
            is_time = h <= 24 and 10 <= m < 60
            if is_time and self._known.calendar.has_time((int(h) % 12, int(m), None)):
                return True
        before = self._passage.preceding(figure, _CARRIED)
        span = next((each for each in before if each.kind is Kind.DURATION), None)
        if span is None or near.NOUN.match(self._passage.text, figure.end):
            return False
        return has(self._known.spans.told, figure.values[0] * span.unit, 0.0)

    def is_clock(self, figure: Figure) -> bool:
        """Whether it is an hour (from 10 to 2), or an hour and a minute (7.03), that was told."""
        value, calendar = figure.values[0], self._known.calendar
        if figure.quantum == 0.01:
            return calendar.has_time((int(value) % 12, round(value % 1 * 100), None))
        is_beside = near.OCLOCK.search(self._passage.before(figure, 12)) or near.TO_AN_HOUR.match(
            self._passage.after(figure, 8)
        )
        is_hour = figure.quantum == 1 and value <= 24 and is_beside
        return bool(is_hour) and calendar.has_time((int(value) % 12, 0, None))

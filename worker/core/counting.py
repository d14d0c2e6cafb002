"""Figures that count: 2 条结果, all three, 15 an hour.

So many are the results, the members of a list, the days of which something is told; then a number
may be said that stands nowhere. It has to be said of things that were asked for or told of.
"""

from __future__ import annotations

from collections.abc import Set

from worker.core import surroundings as near
from worker.core.comparing import tight
from worker.core.figure import Figure
from worker.core.figures import COUNTERS
from worker.core.known import Known
from worker.core.passage import Passage

_THE = (" the", "the", "these", "those", "both", "all")
_OF_POINTS = ("your", "these", "all", "the", "of")
_THING_CHARS, _ASKING_CHARS, _AGE_CHARS = 24, 16, 12


class Counting:
    """Judges the figures of one answer that count."""

    def __init__(self, passage: Passage, known: Known, counts: Set[float]) -> None:
        """`counts` are how many there are of what was asked for and of what was told."""
        self._passage, self._known, self._counts = passage, known, counts

    def is_count(self, figure: Figure) -> bool:
        """Whether it counts what was asked for, or what was told of."""
        value, text = figure.values[0], figure.text
        if value not in self._counts or figure.measure is not None:
            return False
        if text[-1:].isdigit():
            return self._is_count_in_digits(figure)
        if text.endswith(("points", "point")):
            return self._passage.before(figure).rstrip().endswith(_OF_POINTS)
        if not text[-1:].isascii():
            return text[-1:] in COUNTERS
        if " " not in text:
            return True  # there are three
        if self._passage.before(figure).rstrip().lower().endswith(_THE):
            return True  # the two of which something is told
        if near.FROM.search(self._passage.before(figure)):
            return True  # from two events
        thing = text.rpartition(" ")[2].rstrip("s").lower()
        return value in self._known.records or self._is_named(thing)

    def _is_count_in_digits(self, figure: Figure) -> bool:
        before = self._passage.before(figure)
        after = self._passage.after(figure, _THING_CHARS)
        if near.LABEL.search(before):
            return False  # Terminal 4
        if near.NOTHING.match(after):
            return True
        if near.COUNTED.match(after) or near.COUNTED_BEFORE.search(before):
            return True
        noun = near.NOUN.match(after)
        words = noun.groups() if noun else ()
        return any(word and self._is_named(tight(word).rstrip("s")) for word in words)

    def _is_named(self, thing: str) -> bool:
        """Whether the question names things, and does not ask how many there are."""
        question = self._known.question.lower()
        at = question.find(thing)
        if at >= 0 and question[:at].rstrip(" -")[-1:].isdigit():
            return False  # with 2 bedrooms: how many is said
        asking = question[max(0, at - _ASKING_CHARS) : at]
        return at >= 0 and not near.HOW_MANY.search(asking)

    def is_age(self, figure: Figure) -> bool:
        """Whether somebody is so old who was born in a year that was told; in China one more."""
        today = self._known.calendar.today
        after = self._passage.after(figure, _AGE_CHARS)
        text, before = figure.text[-2:] + after, self._passage.before(figure, 3)
        if today is None or not (near.AGE.search(text) or before.endswith("岁")):
            return False
        more = (0, 1, 2) if "虚" in before else (0,)
        return any(
            self._known.has_number(today.year - figure.values[0] + each, 0.0)
            or today.year - figure.values[0] + each in self._known.calendar.years
            for each in more
        )

    def is_frequency(self, figure: Figure) -> bool:
        """Whether so many fit into the hour or the minute: every 4 minutes are 15 an hour."""
        found = near.PER_UNIT.search(self._passage.around(figure, near.CLAUSE_END))
        unit = 3600.0 if found and ("时" in found[0] or "hour" in found[0].lower()) else 60.0
        return bool(found) and self._known.has_amount("time", unit / (figure.values[0] or 1), 0.5)

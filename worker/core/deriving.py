"""Whether a number, a share or a duration of an answer follows from what was told.

What stands around it says what it may follow from: a difference is told as one (more, 剩), a rate as
one (per, 每), and so is a share. A number of many digits needs less of that, for it hardly fits by
chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from itertools import combinations, permutations

from worker.core import surroundings as near
from worker.core.exactness import digits_of, tolerance_of
from worker.core.figure import Figure, Kind
from worker.core.known import Known
from worker.core.numerals import int_of
from worker.core.passage import Passage
from worker.core.results import MONEY, Fits, Tags

_LONG, _TELLING = 5, 4
_OF_TIME = frozenset({"duration", "eta", "age", "term", "period", "elapsed", "delay", "wait"})
_OTHER_UNITS = frozenset({"¥", "%", "time", "length", "mass", "data", "volume", "heat"})
_NEAR_AT_MOST = 0.02  # of what is reckoned and has one or two digits
_OWN_DIMENSIONS = frozenset({"mass", "heat"})
_NEAR_FRACTION = 0.03
_COMMON_WORDS = frozenset({"time", "length", "mass", "data", "volume", "heat", "total", "number"})
_SAID_MAX = 10
_RECKONED_MAX = 200  # reckoning takes time, on the event loop; nobody sums up so much
_Ask = Callable[[float, float, Fits], Tags | None]


class Deriving:
    """Looks for what the figures of one answer follow from.

    Every finding is the words of the parts, None is: from nothing.
    """

    def __init__(self, passage: Passage, known: Known, counts: Set[float]) -> None:
        """`counts` are how many there are of what was asked for and of what was told."""
        self._passage, self._known, self._counts = passage, known, counts
        self._asked_so_far = 0
        self._dimensions = {*known.units, *known.expected}
        self._said = [
            figure.values[0]
            for figure in passage.asked
            if figure.kind is Kind.NUMBER and known.has_number(figure.values[0], 0.0)
        ][:_SAID_MAX]

    def reckon_also_with(self, values: Iterable[float]) -> None:
        """Take figures of the answer that were reckoned themselves."""
        self._said += values

    def of(self, figure: Figure) -> Tags | None:
        """What it follows from, at least one word."""
        self._asked_so_far += 1
        if self._asked_so_far > _RECKONED_MAX:
            return None
        tolerance = tolerance_of(figure, self._passage.text)
        if figure.measure is not None and figure.measure[0] in _OWN_DIMENSIONS - self._dimensions:
            return None  # no kilograms follow from what has none
        for value in figure.values:
            has_digits = digits_of(value, figure.quantum) >= 3
            if not has_digits and figure.kind is not Kind.PERCENT:
                tolerance = min(tolerance, _NEAR_AT_MOST * abs(value))
            found = self._of_value(figure, value, tolerance, has_digits=has_digits)
            if found is not None:
                return found | {"="}
        return None

    def _of_value(
        self, figure: Figure, value: float, tolerance: float, *, has_digits: bool
    ) -> Tags | None:
        ask, reckoner = partial(self._in_units, figure, value, tolerance), self._known.reckoner
        if figure.kind is Kind.PERCENT:
            found = self._share(figure, value, tolerance, has_digits=has_digits)
        elif self._is_reckoned(figure) or digits_of(value, figure.quantum) >= _TELLING:
            has_digits = has_digits or figure.quantum <= 0.01
            found = self._amount(figure, value, tolerance, has_digits=has_digits)
        else:
            found = ask(reckoner.asked)
        if found is None:
            is_share = figure.kind is Kind.PERCENT
            is_rate = has_digits or self._is_rate(figure, has_digits=has_digits)
            found = ask(partial(reckoner.unlikely, is_share=is_share, is_rate=is_rate))
        if found is None and figure.kind is Kind.DURATION:
            found = reckoner.lasting.find(
                value * figure.unit, tolerance_of(figure, self._passage.text) * figure.unit
            )
        clause = self._passage.around(figure, near.CLAUSE_END)
        is_gap = near.GAP.search(clause)
        if found is None and is_gap and figure.kind is Kind.DURATION:
            found = reckoner.longer.find(value * figure.unit, tolerance * figure.unit)
        is_length = figure.measure is not None and figure.measure[0] == "length"
        if found is None and is_length and near.SPEED.search(clause):
            per_hour = figure.unit / 1000
            is_speed = self._known.has_amount("speed", value * per_hour, tolerance * per_hour)
            found = frozenset({"speed"}) if is_speed else None
        if found is None and is_gap and figure.kind is not Kind.PERCENT:
            found = ask(reckoner.gap)
        if found is None and self._is_beside(figure, value, tolerance):
            found = frozenset()
        return found

    def _is_reckoned(self, figure: Figure) -> bool:
        """Whether the answer says that it is the result of some reckoning."""
        passage = self._passage
        return (
            near.OPERATED.search(passage.around(figure, near.FULL_STOP)) is not None
            or figure.text[-1:] in "倍x"
            or passage.before(figure, 1) in tuple("-−+")
        )

    def _in_units(self, figure: Figure, value: float, tolerance: float, ask: _Ask) -> Tags | None:
        """Ask for a value in each unit that was told of its dimension."""
        fits = self._fitting(figure)
        for worth in self._told_units(figure):
            found = ask(value * worth, tolerance * worth, fits)
            if found is not None:
                return found
        return None

    def _fitting(self, figure: Figure) -> Fits:
        """Whether something may be what the figure is of, by its unit or by what it counts."""
        thing = figure.text[-1:] + self._passage.after(figure, 2).lstrip()[:1]
        if figure.measure is None and not figure.money and near.COUNTER.search(thing):
            return _is_no_money
        return partial(_fits, figure)

    def _told_units(self, figure: Figure) -> Iterator[float]:
        """What one unit of the figure is in the units that were told of its dimension."""
        yield 1.0
        if figure.measure is None or figure.measure[0] == "heat":
            return
        for unit in sorted(self._known.units.get(figure.measure[0], ())):
            if unit != figure.unit:
                yield figure.unit / unit

    def _is_beside(self, figure: Figure, value: float, tolerance: float) -> bool:
        """Whether it follows from two figures that its own sentence says, and that were told."""
        if figure.kind is Kind.PERCENT:
            return False
        start, end = self._passage.span_around(figure, near.SENTENCE_END)
        said = [
            other.values[0] * (other.unit / figure.unit if other.measure else 1.0)
            for other in self._passage.between(start, end)
            if other is not figure
            and other.values
            and other.kind in (Kind.NUMBER, Kind.DURATION)
            and (other.measure or ("",))[0] == (figure.measure or other.measure or ("",))[0]
            and self._known.has_number(other.values[0], 0.0)
        ][:_SAID_MAX]
        slack = tolerance + 1e-9
        return any(
            min(abs(abs(a - b) - value), abs(a + b - value)) <= slack
            for a, b in combinations(said, 2)
        )

    # --- shares ----------------------------------------------------------------------------------

    def _share(
        self, figure: Figure, value: float, tolerance: float, *, has_digits: bool
    ) -> Tags | None:
        sentence = self._passage.around(figure, near.SENTENCE_END)
        if self._is_share_of_said(value, tolerance) or self._is_out_of(value, tolerance, sentence):
            return frozenset({"%"})
        is_gap = figure.text.endswith(("点", "point", "points"))
        if is_gap or near.OF_TWO_SHARES.search(sentence):
            found = self._known.reckoner.share_gap(value, tolerance)
            if found is not None:
                return found
        if near.RESTS.search(sentence):
            found = self._known.reckoner.rests.find(value, tolerance)
            if found is not None:
                return found
        is_compared = near.COMPARED.search(sentence) is not None
        is_compared = (
            is_compared
            or near.LABELLED.search(self._passage.before(figure)) is not None
            or near.SHARE_OF.match(self._passage.after(figure, 16)) is not None
        )
        if is_compared and self._is_change_of_said(figure, value, tolerance):
            return frozenset({"%"})
        if _is_fraction(figure) and not is_compared:
            is_compared, tolerance = True, min(tolerance, _NEAR_FRACTION * value)
        if not (has_digits or is_gap or is_compared):
            return None
        found = self._known.reckoner.share(
            value, tolerance, has_digits=has_digits, is_rough=figure.is_rough
        )
        if found is None:
            named = partial(_are_named, sentence.lower())
            found = self._known.reckoner.loose_shares.find(value, tolerance, named)
        return found

    def _is_out_of(self, value: float, tolerance: float, sentence: str) -> bool:
        """Whether the sentence says one count out of another, and it is that share."""
        return any(
            abs(100 * int_of(one) / int_of(other) - value) <= tolerance
            for one, other in near.OUT_OF.findall(sentence)
            if {int_of(one), int_of(other)} <= self._counts and int_of(other)
        )

    def _is_share_of_said(self, value: float, tolerance: float) -> bool:
        """Whether it is what one number is of another, and the answer says both."""
        return any(
            over and abs(100 * each / over - value) <= tolerance
            for each, over in permutations(self._said, 2)
        )

    def _is_change_of_said(self, figure: Figure, value: float, tolerance: float) -> bool:
        """Whether it is by how much one number changed to another, and its sentence says both."""
        start, end = self._passage.span_around(figure, near.SENTENCE_END)
        said = [
            each.values[0]
            for each in self._passage.between(start, end)
            if each.values and each.kind is not Kind.PERCENT and each.values[0]
        ][:_SAID_MAX]
        return any(
            abs(100 * abs(one - other) / one - value) <= tolerance
            for one, other in permutations(said, 2)
            if self._known.has_number(one, 0.0) and self._known.has_number(other, 0.0)
        )

    # --- amounts ---------------------------------------------------------------------------------

    def _amount(
        self, figure: Figure, value: float, tolerance: float, *, has_digits: bool
    ) -> Tags | None:
        reckoner, is_rate = self._known.reckoner, self._is_rate(figure, has_digits=has_digits)
        is_long = digits_of(value, figure.quantum) - _zeros(value, figure.quantum) >= _LONG
        fits = self._fitting(figure)
        for worth in self._told_units(figure):
            way, slack = value * worth, tolerance * worth
            found = reckoner.amount(way, slack, has_digits=has_digits, is_long=is_long, fits=fits)
            if found is None and is_rate:
                found = reckoner.rate(
                    way, slack, is_money=figure.money, has_digits=has_digits, fits=fits
                )
            if found is not None:
                return found
        if near.POINTS.match(self._passage.text, figure.end):
            found = reckoner.share_gap(value, tolerance)
            if found is not None:
                return found
            return reckoner.share(value, tolerance, has_digits=False)
        return self._of_a_period(figure, value, tolerance)

    def _is_rate(self, figure: Figure, *, has_digits: bool) -> bool:
        """Whether the answer says that it is so much for each."""
        around = self._passage.around
        sentence = around(figure, near.SENTENCE_END)
        if figure.kind is Kind.DURATION and not near.AVERAGE.search(sentence):
            return False
        if near.RATE.search(sentence) or figure.text.endswith(("倍", "x")):
            return True
        return has_digits and near.RATE.search(around(figure, near.FULL_STOP)) is not None

    def _of_a_period(self, figure: Figure, value: float, tolerance: float) -> Tags | None:
        """What a month or a day comes to of what a year or a week was told of, or the reverse."""
        sentence = self._passage.around(figure, near.SENTENCE_END)
        ways: list[tuple[str, float]] = []
        if near.YEARLY.search(sentence):
            ways += [("year", 1 / 12), ("year", 1 / 365), ("year", 1 / 52)]
        if near.DAILY.search(sentence):
            ways += [("day", float(days)) for days in self._known.spans.common_days]
            ways.append(("day", 1 / 24))
        if near.MONTHLY.search(sentence):
            ways += [("month", 12.0), ("month", 1 / 30)]
        if near.WEEKLY.search(sentence):
            ways.append(("week", 1 / 7))
        if near.HOURLY.search(sentence):
            ways += [("hour", 24.0), ("hour", 1 / 60)]
        for word, times in ways:
            if self._known.has_number(value * times, tolerance * times):
                return frozenset({word})
            if self._known.reckoner.answers.find(value * times, tolerance * times) is not None:
                return frozenset({word})
        return None


def _fits(figure: Figure, parts: Tags) -> bool:
    """Whether something with this unit may be reckoned from these: no hours follow from prices."""
    if figure.money:
        return "¥" in parts or not parts.isdisjoint(MONEY) or parts.isdisjoint(_OTHER_UNITS)
    if figure.measure is None or figure.measure[0] in parts:
        return True
    if figure.kind is Kind.DURATION:
        return not parts.isdisjoint(_OF_TIME)
    return parts.isdisjoint(_OTHER_UNITS)


def _are_named(sentence: str, parts: Tags) -> bool:
    """Whether the sentence names two of the fields that a share is reckoned from."""
    words = {tag for tag in parts if len(tag) > (3 if tag.isascii() else 1) and tag[0].isalpha()}
    return sum(word in sentence for word in words - _COMMON_WORDS) > 1


def _is_fraction(figure: Figure) -> bool:
    """Whether it is said as a part of something: 七分之一, a third."""
    return near.FRACTION.search(figure.text) is not None


def _is_no_money(parts: Tags) -> bool:
    return "¥" not in parts


def _zeros(value: float, quantum: float) -> int:
    """How many zeros end the digits that are shown: 139.90 tells no more than 139.9."""
    shown = str(round(abs(value) / quantum)) if quantum else "0"
    return len(shown) - len(shown.rstrip("0"))

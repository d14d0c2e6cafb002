"""Judge each figure of an answer, in its place, by what the model was told.

What stands around a figure says how exact it is meant (约, nearly), whether it counts something
(2 条结果), is a rate (每公斤), only says when to ask again (请 5 分钟后再试), or names a day of which
nothing is told (昨天的价格查不到). One that was told is held against what it is said to be of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from worker.core import surroundings as near
from worker.core.belonging import Belonging
from worker.core.counting import Counting
from worker.core.daytimes import clock_of
from worker.core.deriving import Deriving
from worker.core.exactness import tolerance_of
from worker.core.figure import Figure, Kind
from worker.core.known import Known
from worker.core.lasting import Lasting
from worker.core.measures import base_value
from worker.core.naming import Naming
from worker.core.passage import Passage
from worker.core.results import PERCENT, Operand, Tags

_BASES = (1.0, 10.0, 100.0, 1000.0)
_NEAR_BASE, _LIST_CHARS = 24, 60
_ROUNDS_MAX = 3
_DERIVED_MAX = 12
_TOLD: Tags = frozenset()


class Judge:
    """Judges the figures of one answer."""

    def __init__(
        self, answer: str, asked: Sequence[Figure], known: Known, counts: Collection[float]
    ) -> None:
        self._passage = passage = Passage(answer, asked)
        self._known = known
        all_counts = {*counts, *known.lengths, *known.records, *known.rows.counts}
        self._naming = Naming(passage, known, all_counts)
        self._counting = Counting(passage, known, all_counts)
        self._lasting = Lasting(passage, known)
        self._deriving = Deriving(passage, known, all_counts)
        self._belonging = Belonging(passage.text, known.rows.rows, known.rows.signed)

    def invented(self) -> list[Figure]:
        """The figures that follow from nothing, in order.

        One that was reckoned may itself be reckoned with: 24,585 of 70,000 steps are 35%.
        """
        open_, fresh = list(self._passage.asked), True
        for _ in range(_ROUNDS_MAX):
            if not open_ or not fresh:
                break
            left: list[Figure] = []
            derived: list[Operand] = []
            for figure in open_:
                tags = self._found(figure)
                if tags is None or self._is_misplaced(figure):
                    left.append(figure)
                elif tags:
                    mark = {PERCENT} if figure.kind is Kind.PERCENT else set()
                    derived.append(Operand(figure.values[0], tags | mark))
            open_, fresh = left, bool(derived)
            if fresh and open_:
                self._known.reckon_also_with(derived[:_DERIVED_MAX])
                self._deriving.reckon_also_with(each.value for each in derived[:_DERIVED_MAX])
        based = {figure.start for figure in self._based(open_)}
        return [figure for figure in open_ if figure.start not in based]

    def _is_misplaced(self, figure: Figure) -> bool:
        """Whether a figure that was told was told of something else."""
        if any(abs(value) in self._known.asked for value in figure.values):
            return False
        return self._belonging.is_of_another(figure) or self._belonging.is_turned(figure)

    def _found(self, figure: Figure) -> Tags | None:
        """None: from nothing. Else the words of what it was reckoned from; none: it was told."""
        match figure.kind:
            case Kind.IDENTIFIER:
                return _TOLD if self._naming.is_name(figure) else None
            case Kind.DATE:
                return _TOLD if self._naming.is_date(figure) else None
            case Kind.DAY:
                return _TOLD if self._naming.is_day(figure) else None
            case Kind.TIME:
                return _TOLD if self._is_time(figure) else None
            case Kind.DURATION:
                is_known = self._is_told(figure) or self._lasting.is_known(figure)
            case _:
                is_known = self._is_plain(figure)
        return _TOLD if is_known else self._deriving.of(figure)

    def _is_time(self, figure: Figure) -> bool:
        clock = clock_of(figure, self._passage.text)
        if self._known.calendar.has_time(figure.parts, clock=clock):
            return True
        before = near.PART_END.split(self._passage.before(figure))[-1]
        is_start = near.STARTS.search(f"{before} {self._passage.after(figure, 3)}")
        if not is_start and self._known.calendar.is_end(figure.parts, clock):
            return True
        is_numeral = figure.text.lower() not in ("noon", "midday", "midnight")
        if is_numeral and self._is_told(figure):
            return True
        return self._naming.is_now(figure) or self._naming.is_lasting(figure)

    def _shares_unit(self, figure: Figure) -> bool:
        """Whether it was told in the unit of the figures listed after it: 38, 39 and 40 °C."""
        if figure.kind is not Kind.NUMBER or figure.measure or figure.money:
            return False
        end = figure.end
        for other in self._passage.between(figure.end, figure.end + _LIST_CHARS):
            if not near.LISTED.fullmatch(self._passage.text[end : other.start]):
                return False
            if other.measure or other.kind is Kind.PERCENT:
                shared = replace(figure, kind=other.kind, measure=other.measure)
                return self._is_told(shared)
            end = other.end
        return False

    def _is_plain(self, figure: Figure) -> bool:
        """Whether a number or a share was told as it is, or counts what was asked for."""
        is_number = figure.kind is Kind.NUMBER and not figure.money
        if self._is_told(figure) or self._known.is_common(figure):
            return True
        return is_number and (self._is_plain_number(figure) or self._shares_unit(figure))

    def _is_plain_number(self, figure: Figure) -> bool:
        value, known, naming = figure.values[0], self._known, self._naming
        if figure.quantum == 1 and self._counting.is_count(figure):
            return True
        if value in known.calendar.years or known.has_note(value):
            return True
        if value in _BASES and near.PER.search(self._passage.before(figure, 6)):
            return True
        if self._counting.is_frequency(figure) or self._counting.is_age(figure):
            return True
        if naming.is_tail(figure) or naming.is_said_as_time(figure):
            return True
        if near.ORDINAL.match(self._passage.text, figure.end):
            return known.calendar.has_day_of_month(value)
        return naming.is_clock(figure)

    def _is_told(self, figure: Figure) -> bool:
        tolerance = tolerance_of(figure, self._passage.text)
        return any(self._is_told_as(figure, value, tolerance) for value in figure.values)

    def _is_told_as(self, figure: Figure, value: float, tolerance: float) -> bool:
        """Whether a value was told, and as something of the same kind: 20 分钟 is no price."""
        known = self._known
        if figure.kind is Kind.PERCENT:
            return known.has_share(value, tolerance)
        if figure.money:
            return known.has_price(value, tolerance)
        if figure.measure is None:
            if near.COUNTED_THING.search(figure.text) or near.COUNTED_THING.match(
                self._passage.after(figure, 2).lstrip()
            ):
                return known.has_counted(value, tolerance)
            return known.has_number(value, tolerance)
        dimension, unit = figure.measure
        slack = tolerance * (1 / 1.8 if unit < 0 else unit)
        if (
            dimension == "heat"
            and near.BELOW_ZERO.search(self._passage.before(figure, 2))
            and known.has_amount("heat", base_value(-value, figure.measure), slack)
        ):
            return True
        if known.has_amount(dimension, base_value(value, figure.measure), slack):
            return True
        return known.has_expected(dimension, value, tolerance)

    def _based(self, open_: list[Figure]) -> list[Figure]:
        """The pairs in which the first is a base: 每 100 美元约合 712 元, at 7.12."""
        found: list[Figure] = []
        left = {figure.start for figure in open_}
        asked = self._passage.asked
        for base, other in pairwise(asked):
            is_base = base.kind is Kind.NUMBER and base.values[0] in _BASES
            if base.start in left and is_base and self._is_worth(base, other):
                found += [base, other]
        return found

    def _is_worth(self, base: Figure, other: Figure) -> bool:
        """Whether so many of one are so many of the other, at a rate that was told."""
        between = self._passage.text[base.end : other.start]
        if not other.values or len(between) > _NEAR_BASE or not near.IS_WORTH.search(between):
            return False
        tolerance = tolerance_of(other, self._passage.text) / base.values[0]
        rate = other.values[0] / base.values[0]
        inverse = 1 / rate if rate else 0.0
        reckoner = self._known.reckoner
        return (
            self._known.has_number(rate, tolerance)
            or self._known.has_number(inverse, tolerance / rate * inverse if rate else 0.0)
            or reckoner.rate(rate, tolerance, is_money=False, has_digits=True) is not None
        )

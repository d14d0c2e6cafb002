"""Judge each figure of an answer, in its place, by what the model was told.

What stands around a figure says how exact it is meant (约, nearly), whether it counts something
(2 条结果), is a rate (每公斤), only says when to ask again (请 5 分钟后再试), or names a day of which
nothing is told (昨天的价格查不到).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from itertools import permutations

from worker.core import surroundings as near
from worker.core.daytimes import clock_of
from worker.core.figure import Figure, Kind
from worker.core.figureforms import FLAT
from worker.core.figures import COUNTERS
from worker.core.known import Known, has, tight
from worker.core.measures import base_value
from worker.core.numerals import CHINESE_DIGITS
from worker.core.reckoning import Operand, Tags

_BEFORE, _AFTER = 14, 5
_OF_TIME = frozenset({"duration", "eta", "age", "term", "period", "elapsed", "delay", "wait"})
_OTHER_UNITS = frozenset({"¥", "%", "time", "length", "mass", "data", "volume", "heat"})
_BASES = (1.0, 10.0, 100.0, 1000.0)
_NEAR_BASE = 24
_NEAR_AT_MOST = 0.02  # of what is reckoned and has one or two digits
_MORE_AT_MOST = 0.1  # just over a thousand
_ROUNDED_AT_MOST = 0.05  # 2万 is no rounding of 17,000
_LATER_AT_MOST = 1.25  # told 27 s, "30 seconds" is honest
_DAY = 86_400.0
_ROUNDS_MAX = 3
_SAID_MAX = 10
_DERIVED_MAX = 12
_RECKONED_MAX = 200  # reckoning takes time, on the event loop; nobody sums up so much


class Judge:
    """Judges the figures of one answer."""

    def __init__(
        self, answer: str, asked: Sequence[Figure], known: Known, counts: Collection[float]
    ) -> None:
        self._text = answer.translate(FLAT)
        self._asked = asked
        self._known = known
        self._reckoned_so_far = 0
        self._said = [
            figure.values[0]
            for figure in asked
            if figure.kind is Kind.NUMBER and known.has_number(figure.values[0], 0.0)
        ][:_SAID_MAX]
        self._counts = {*counts, *known.lengths, *known.records}

    def invented(self) -> list[Figure]:
        """The figures that follow from nothing, in order.

        One that was reckoned may itself be reckoned with: 24,585 of 70,000 steps are 35%.
        """
        open_, fresh = list(self._asked), True
        for _ in range(_ROUNDS_MAX):
            if not open_ or not fresh:
                break
            left: list[Figure] = []
            derived: list[Operand] = []
            for figure in open_:
                tags = self._found(figure)
                if tags is None:
                    left.append(figure)
                elif tags:
                    derived.append(Operand(figure.values[0], tags))
            open_, fresh = left, bool(derived)
            if fresh and open_:
                self._known.reckon_also_with(derived[:_DERIVED_MAX])
                self._said += [each.value for each in derived[:_DERIVED_MAX]]
        based = {figure.start for figure in self._based(open_)}
        return [figure for figure in open_ if figure.start not in based]

    # --- one figure ------------------------------------------------------------------------------

    def _found(self, figure: Figure) -> Tags | None:
        """None: from nothing. Else the words of what it was reckoned from; none: it was told."""
        told: Tags = frozenset()
        match figure.kind:
            case Kind.IDENTIFIER:
                return told if self._is_name(figure) else None
            case Kind.DATE:
                return told if self._is_date(figure) else None
            case Kind.DAY:
                return told if self._is_day(figure) else None
            case Kind.TIME:
                clock = clock_of(figure, self._text)
                is_known = self._known.has_time(figure.parts, clock=clock) or self._is_told(figure)
                return told if is_known else None
            case Kind.DURATION:
                return self._duration(figure)
            case _:
                return told if self._is_plain(figure) else self._reckoned(figure)

    def _is_name(self, figure: Figure) -> bool:
        if figure.text.endswith("nil") or not figure.text.isascii():
            return tight(figure.text) in self._known.corpus
        glued = near.GLUED.match(figure.text)  # 800MPa
        if glued and self._known.has_number(float(glued[1]), 0.0):
            return True
        is_short = sum(c.isdigit() for c in figure.text) < 2  # H5, GPT-4: a name
        return is_short or tight(figure.text).rstrip(".") in self._known.corpus

    def _is_date(self, figure: Figure) -> bool:
        if self._known.has_date(figure.parts):
            return True
        if figure.text.endswith("号") and self._is_numbered(figure):
            return True
        one, slash, other = figure.text.partition("/")  # 2/3 of the tools is no day of February
        if not (slash and one.isdigit() and other.isdigit()):
            return False
        return all(
            int(n) in self._counts or self._known.has_number(int(n), 0.0) for n in (one, other)
        )

    def _is_numbered(self, figure: Figure) -> bool:
        """Whether it is the number of a door or a line that was told: 3号 is no part of 13号."""
        whole = rf"(?<![0-9{CHINESE_DIGITS}十]){re.escape(tight(figure.text))}"
        return re.search(whole, self._known.corpus) is not None

    def _is_day(self, figure: Figure) -> bool:
        clause = self._around(figure, near.CLAUSE_END)
        if figure.text in near.NIGHTS and self._has_time_after(figure):
            return True  # 今晚 with a time, which is judged
        if near.AGAIN.search(clause) or near.MISSING.search(
            self._around(figure, near.SENTENCE_END)
        ):
            return True
        return self._known.has_day(figure.text, is_now=near.NOW.search(clause) is not None)

    def _has_time_after(self, figure: Figure) -> bool:
        return any(
            other.kind is Kind.TIME and 0 <= other.start - figure.end <= _NEAR_BASE // 3
            for other in self._asked
        )

    def _is_plain(self, figure: Figure) -> bool:
        """Whether a number or a share was told as it is, or counts what was asked for."""
        known, text = self._known, self._text
        is_number = figure.kind is Kind.NUMBER and not figure.money
        if is_number and figure.quantum == 1 and self._is_count(figure):
            return True
        if is_number and figure.values[0] in known.years:
            return True
        if is_number and figure.values[0] in _BASES and near.PER.search(text[: figure.start][-6:]):
            return True
        if self._is_told(figure):
            return True
        if is_number and known.has_note(figure.values[0]):
            return True
        if is_number and near.ORDINAL.match(text, figure.end):
            return known.has_day_of_month(figure.values[0])
        return is_number and self._is_clock(figure, text[: figure.start])

    def _is_told(self, figure: Figure) -> bool:
        tolerance = self._tolerance(figure)
        return any(self._is_told_as(figure, value, tolerance) for value in figure.values)

    def _is_told_as(self, figure: Figure, value: float, tolerance: float) -> bool:
        """Whether a value was told, and as something of the same kind: 20 分钟 is no price."""
        known = self._known
        if figure.kind is Kind.PERCENT:
            return known.has_share(value, tolerance)
        if figure.money:
            return known.has_price(value, tolerance)
        if figure.measure is None:
            return known.has_number(value, tolerance)
        dimension, unit = figure.measure
        slack = tolerance * (1 / 1.8 if unit < 0 else unit)
        if known.has_amount(dimension, base_value(value, figure.measure), slack):
            return True
        return known.has_expected(dimension, value, tolerance)

    def _is_count(self, figure: Figure) -> bool:
        value = figure.values[0]
        if value not in self._counts or figure.measure is not None:
            return False
        after = self._text[figure.end : figure.end + 24]
        if not figure.text[-1:].isdigit():
            if figure.text.endswith(("points", "point")):
                before = self._text[max(0, figure.start - _BEFORE) : figure.start]
                return before.rstrip().endswith(("your", "these", "all", "the", "of"))
            if not figure.text[-1:].isascii():
                return figure.text[-1:] in COUNTERS
            if " " not in figure.text:
                return True  # there are three
            thing = figure.text.rpartition(" ")[2].rstrip("s").lower()
            return value in self._known.records or self._is_named(thing)
        if near.NOTHING.match(after):
            return True
        before = self._text[max(0, figure.start - _BEFORE) : figure.start]
        if near.COUNTED.match(after) or near.COUNTED_BEFORE.search(before):
            return True
        noun = near.NOUN.match(after)
        words = noun.groups() if noun else ()
        return any(word and self._is_named(tight(word).rstrip("s")) for word in words)

    def _is_named(self, thing: str) -> bool:
        """Whether the question names things, and does not ask how many there are."""
        question = self._known.question.lower()
        at = question.find(thing)
        return at >= 0 and not near.HOW_MANY.search(question[max(0, at - 16) : at])

    def _is_clock(self, figure: Figure, before: str) -> bool:
        """Whether it is an hour (from 10 to 2), or an hour and a minute (7.03), that was told."""
        value = figure.values[0]
        if figure.quantum == 0.01:
            return self._known.has_time((int(value) % 12, round(value % 1 * 100), None))
        after = self._text[figure.end : figure.end + 8]
        is_beside = near.OCLOCK.search(before[-12:]) or near.TO_AN_HOUR.match(after)
        is_hour = figure.quantum == 1 and value <= 24 and is_beside
        return bool(is_hour) and self._known.has_time((int(value) % 12, 0, None))

    def _reckoned(self, figure: Figure) -> Tags | None:
        """None: from nothing; else the words of its parts, at least one."""
        self._reckoned_so_far += 1
        if self._reckoned_so_far > _RECKONED_MAX:
            return None
        sentence, tolerance = self._around(figure, near.SENTENCE_END), self._tolerance(figure)
        for value in figure.values:
            has_digits = _digits(value, figure.quantum) >= 3
            if not has_digits:
                tolerance = min(tolerance, _NEAR_AT_MOST * abs(value))
            if figure.kind is Kind.PERCENT:
                found = self._share(value, tolerance, sentence, has_digits=has_digits)
            else:
                has_digits = has_digits or figure.quantum <= 0.01
                found = self._amount(figure, value, tolerance, sentence, has_digits=has_digits)
            if found is not None:
                return found | {"="}
        return None

    def _share(
        self, value: float, tolerance: float, sentence: str, *, has_digits: bool
    ) -> Tags | None:
        if self._is_share_of_said(value, tolerance):
            return frozenset({"%"})
        if not has_digits and not near.COMPARED.search(sentence):
            return None
        return self._known.reckoner.share(value, tolerance, has_digits=has_digits)

    def _is_share_of_said(self, value: float, tolerance: float) -> bool:
        """Whether it is what one number is of another, and the answer says both."""
        return any(
            over and abs(100 * each / over - value) <= tolerance
            for each, over in permutations(self._said, 2)
        )

    def _amount(
        self, figure: Figure, value: float, tolerance: float, sentence: str, *, has_digits: bool
    ) -> Tags | None:
        reckoner = self._known.reckoner
        is_rate = figure.kind is not Kind.DURATION and (
            near.RATE.search(sentence) is not None or figure.text.endswith(("倍", "x"))
        )
        for worth in self._in_told_units(figure):
            found = reckoner.amount(value * worth, tolerance * worth, has_digits=has_digits)
            if found is None and is_rate:
                found = reckoner.rate(
                    value * worth, tolerance * worth, is_money=figure.money, has_digits=has_digits
                )
            if found is not None and _fits(figure, found):
                return found
        if near.POINTS.match(self._text, figure.end):
            return reckoner.share(value, tolerance, has_digits=False)
        if near.YEARLY.search(sentence) and any(
            self._known.has_number(value / times, tolerance / times) for times in (12, 365)
        ):
            return frozenset({"year"})
        if near.MONTHLY.search(sentence) and self._known.has_number(value * 12, tolerance * 12):
            return frozenset({"month"})
        return None

    def _in_told_units(self, figure: Figure) -> list[float]:
        """What one unit of the figure is in the units that were told of its dimension."""
        if figure.measure is None or figure.measure[0] == "heat":
            return [1.0]
        units = sorted(self._known.units.get(figure.measure[0], ()))
        return list(dict.fromkeys([1.0, *(figure.unit / unit for unit in units)]))

    def _duration(self, figure: Figure) -> Tags | None:
        told: Tags = frozenset()
        if near.AGAIN.search(self._around(figure, near.CLAUSE_END)) or self._is_told(figure):
            return told
        if figure.unit >= _DAY and figure.values[0] in self._known.lengths:
            before = self._text[max(0, figure.start - _BEFORE) : figure.start]
            if before.lower().rstrip().endswith(("the", "these", "all", "those", "这", "共")):
                return told  # the three days of which something is told
        seconds = self._known.amounts.get("time", [])
        for value in figure.values:
            said = value * figure.unit
            # Two minutes or three stand for 150 seconds: up to one unit of what is shown.
            within = figure.unit * figure.quantum
            for each in seconds:
                is_near = abs(each - said) < within and 0.6 * said <= each <= 1.7 * said
                if is_near:
                    return told
            if has(self._known.spans, said, self._tolerance(figure) * figure.unit):
                return told
            if any(each <= said <= each * _LATER_AT_MOST for each in self._known.waits):
                return told
        return self._reckoned(figure)

    def _based(self, open_: list[Figure]) -> list[Figure]:
        """The pairs in which the first is a base: 每 100 美元约合 712 元, at 7.12."""
        found: list[Figure] = []
        left = {figure.start for figure in open_}
        for base, other in zip(self._asked, self._asked[1:], strict=False):
            if (
                base.start not in left
                or base.kind is not Kind.NUMBER
                or base.values[0] not in _BASES
            ):
                continue
            between = self._text[base.end : other.start]
            if not other.values or len(between) > _NEAR_BASE or not near.IS_WORTH.search(between):
                continue
            tolerance = self._tolerance(other) / base.values[0]
            if self._known.has_number(other.values[0] / base.values[0], tolerance):
                found += [base, other]
        return found

    # --- how exact, and where --------------------------------------------------------------------

    def _tolerance(self, figure: Figure) -> float:
        """How far the value told may be from the one said."""
        half, value = figure.quantum / 2, abs(figure.values[0])
        if figure.kind in (Kind.TIME, Kind.IDENTIFIER):
            return 0.0
        before = self._text[max(0, figure.start - _BEFORE) : figure.start]
        after = self._text[figure.end : figure.end + _AFTER]
        is_more = bool(near.MORE_BEFORE.search(before)) or figure.text[-1:] in "多余"
        is_about = (
            bool(near.ABOUT_BEFORE.search(before) or near.ABOUT_AFTER.match(after)) or is_more
        )
        if is_about:
            shown = max(figure.quantum, _last_shown(value))
            half = max(half, shown if is_more else shown / 2)
            if figure.kind is Kind.DURATION and figure.quantum < 1:
                half = max(half, 0.25)  # about two and a half hours
        if max(figure.quantum, half) > 1:
            at_most = (_MORE_AT_MOST if is_more else _ROUNDED_AT_MOST) * value
            # 四十多 and sixty-odd mean everything up to the next ten.
            half = min(half, max(at_most, figure.quantum / 2 if value % 10 == 5 else 0.0))
        return half

    def _around(self, figure: Figure, ends: re.Pattern[str]) -> str:
        """The clause or the sentence in which the figure stands."""
        start, text = 0, self._text
        low = max(0, figure.start - 300)
        for end in ends.finditer(text, low, figure.start):
            start = end.end()
        following = ends.search(text, figure.end, figure.end + 300)
        return text[max(start, low) : following.start() if following else figure.end + 300]


def _fits(figure: Figure, parts: Tags) -> bool:
    """Whether something with this unit may be reckoned from these: no hours follow from prices."""
    if figure.measure is None or figure.measure[0] in parts:
        return True
    if figure.kind is Kind.DURATION:
        return not parts.isdisjoint(_OF_TIME)
    return parts.isdisjoint(_OTHER_UNITS)


def _digits(value: float, quantum: float) -> int:
    """How many digits say something: 3 for 550 and 5.29, 1 for 300."""
    shown = round(abs(value) / quantum) if quantum else 0
    if shown == 0:
        return 3 if quantum < 1 else 0
    digits = int(math.log10(shown)) + 1
    if quantum < 1:
        return digits
    return digits if shown % 10 ** (digits - 1) else 1


def _last_shown(value: float) -> float:
    """What the last digit but zeros is worth: 10 for 460, 100 for 12,900."""
    if value < 10 or value != int(value):
        return 0.0
    worth = 1
    while value % (worth * 10) == 0:
        worth *= 10
    return float(worth)

"""Judge each figure of an answer, in its place, by what the model was told.

What stands around a figure says how exact it is meant (约, nearly), whether it counts something
(2 条结果), is a rate (每公斤), only says when to ask again (请 5 分钟后再试), or names a day of which
nothing is told (昨天的价格查不到).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from worker.core.figureforms import FLAT
from worker.core.figures import Figure, Kind
from worker.core.known import Known, has, tight
from worker.core.measures import base_value
from worker.core.reckoning import Operand, Tags

_BEFORE, _AFTER = 14, 5
_ABOUT_BEFORE = re.compile(
    r"(?:约|大概|差不多|近|接近|左右|大致|≈|~|\b(?:about|around|roughly|approximately|approx\.?|some|nearly|almost"
    r"|just|close to|circa|c\.|say))[^0-9,.;。,]{0,6}$",
    re.IGNORECASE,
)
_MORE_BEFORE = re.compile(
    r"(?:近|接近|超过?|逾|不到|不足|多于|大于|上|\b(?:nearly|almost|over|under|above|below|more than|less than|up to"
    r"|at least))[^0-9,.;。,]{0,4}$",
    re.IGNORECASE,
)
_ABOUT_AFTER = re.compile(r"[ ]?(?:左右|上下|多|余|以上|以下|出头|or so\b|ish\b|-ish\b)")
_COUNTED = re.compile(
    r"[ ]?(?:[个项条只支笔次家款种类部份件台点步轮则样处]|/[ ]?[0-9]"
    r"|(?:of|out of|more|other|further|missing|remaining|requested|available|tools?|results?|items?|values?|quotes?|questions?"
    r"|parts?|answers?|attempts?|times|tries|requests?|calls?|figures?|prices?|metrics?|numbers?|sources?|things"
    r"|pieces|records?|entries|steps?|are\b|is\b|were\b|was\b)\b)",
    re.IGNORECASE,
)
_COUNTED_BEFORE = re.compile(
    r"(?:第|仅|只有|共|\b(?:all|of|only|step|number|no\.|just|the|tried|failed))[ ]?$",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"[\s.,;:!?)\u3002\uff0c\uff1b]*\Z")
_NOUN = re.compile(r"[ ]?([A-Za-z]{3,20}|[\u3400-\u9fff]{1,2})(?:[ ]([A-Za-z]{3,20}))?")
_AGAIN = re.compile(
    r"再(?:试|查|问|看|来|次|确认|核实|联系|重试|刷新)|重试|稍后|改日|恢复后再|之?后可以?再"
    r"|\b(?:try|check|ask|come|call|look)(?: \w+){0,2} (?:again|back)\b|\bretry\b|\bagain (?:in|at|after)\b",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"查不到|不可用|无法|没有|未能|拿不到|不清楚|不知道|不了|没查|未知|暂无|缺|是否|什么"
    r"|\b(?:unavailable|could not|couldn't|cannot|can't|not available|no data|no figure|don't|unknown|unable"
    r"|missing|whether|won't|isn't)\b",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"每|折合|可买|能买|相当于|平均|均价|人均|单价|一(?:[斤份件股]|公斤|个(?!半))|/|÷"
    r"|\b(?:per|each|average[sd]?|apiece|a (?:head|piece|month|year|week|day|game|click|share|unit|gb)|works out)\b",
    re.IGNORECASE,
)
_YEARLY = re.compile(r"每年|一年|年费|全年|年度|\b(?:year|yearly|annual(?:ly)?)\b", re.IGNORECASE)
_POINTS = re.compile(r"[ ]?(?:points?\b|个?点(?!半|[0-9]))", re.IGNORECASE)
_COMPARED = re.compile(
    r"[占比中增涨跌降升高低贵多少用剩余成差即]|便宜|完成"
    r"|\b(?:of|than|up|down|more|less|share|used?|grew|growth|rose|fell|drop|dearer|cheaper|left|spare|free|remain(?:s|ing)?"
    r"|succeed|i\.e)",
    re.IGNORECASE,
)
_OCLOCK = re.compile(
    r"(?:\b(?:from|at|to|until|till|by|before|after|between|and|opens|closes)|[-–至到])[ ]?$",
    re.IGNORECASE,
)
_STOP = r"(?<![iI]\.e)(?<!e\.g)(?<!approx)[.](?=\s|$)"
_CLAUSE_END = re.compile(rf"[。!?;,\uff01\uff1f\uff1b\uff0c\n]|{_STOP}")
_SENTENCE_END = re.compile(rf"[。!?;\uff01\uff1f\uff1b\n]|{_STOP}")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_OTHER_UNITS = frozenset({"¥", "%", "time", "length", "mass", "data", "volume", "heat"})
_IS_WORTH = re.compile(
    r"^[^,;.\u3002\uff0c\uff1b]*(?:=|≈|约|合|换|兑|为|需|要|\b(?:is|are|equals?|comes?|costs?|buys?|gets?)\b)"
    r"[^,;.\u3002\uff0c\uff1b]*$"
)
_BASES = (1.0, 10.0, 100.0, 1000.0)
_NEAR_BASE = 24
_ROUNDED_AT_MOST = 0.05  # 2万 is no rounding of 17,000
_LATER_AT_MOST = 1.25  # told 27 s, "30 seconds" is honest
_ROUNDS_MAX = 3
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
                is_known = self._known.has_time(figure.parts) or self._is_told(figure)
                return told if is_known else None
            case Kind.DURATION:
                return self._duration(figure)
            case _:
                return told if self._is_plain(figure) else self._reckoned(figure)

    def _is_name(self, figure: Figure) -> bool:
        if figure.text.endswith("nil"):
            return tight(figure.text) in self._known.corpus
        is_short = sum(c.isdigit() for c in figure.text) < 2  # H5, GPT-4: a name
        return is_short or tight(figure.text).rstrip(".") in self._known.corpus

    def _is_date(self, figure: Figure) -> bool:
        if self._known.has_date(figure.parts):
            return True
        one, slash, other = figure.text.partition("/")  # 2/3 of the tools is no day of February
        if not (slash and one.isdigit() and other.isdigit()):
            return False
        return all(
            int(n) in self._counts or self._known.has_number(int(n), 0.0) for n in (one, other)
        )

    def _is_day(self, figure: Figure) -> bool:
        clause = self._around(figure, _CLAUSE_END)
        if _AGAIN.search(clause) or _MISSING.search(self._around(figure, _SENTENCE_END)):
            return True
        return self._known.has_day(figure.text)

    def _is_plain(self, figure: Figure) -> bool:
        """Whether a number or a share was told as it is, or counts what was asked for."""
        known, text = self._known, self._text
        is_number = figure.kind is Kind.NUMBER and not figure.money
        if is_number and figure.quantum == 1 and self._is_count(figure):
            return True
        if is_number and figure.values[0] in known.years():
            return True
        if self._is_told(figure):
            return True
        if is_number and known.has_note(figure.values[0]):
            return True
        if is_number and _ORDINAL.match(text, figure.end):
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
        return known.has_bare(value, tolerance)

    def _is_count(self, figure: Figure) -> bool:
        value = figure.values[0]
        if value not in self._counts or figure.measure is not None:
            return False
        after = self._text[figure.end : figure.end + 24]
        if not figure.text[-1:].isdigit():
            thing = figure.text.rpartition(" ")[2].rstrip("s").lower()
            return value in self._known.records or thing in self._known.question.lower()
        if _NOTHING.match(after):
            return True
        before = self._text[max(0, figure.start - _BEFORE) : figure.start]
        if _COUNTED.match(after) or _COUNTED_BEFORE.search(before):
            return True
        noun, question = _NOUN.match(after), tight(self._known.question)
        words = noun.groups() if noun else ()
        return any(word and tight(word).rstrip("s") in question for word in words)

    def _is_clock(self, figure: Figure, before: str) -> bool:
        """Whether it is an hour (from 10 to 2), or an hour and a minute (7.03), that was told."""
        value = figure.values[0]
        if figure.quantum == 0.01:
            return self._known.has_time((int(value) % 12, round(value % 1 * 100), None))
        is_hour = figure.quantum == 1 and value <= 24 and _OCLOCK.search(before[-12:])
        return bool(is_hour) and self._known.has_time((int(value) % 12, 0, None))

    def _reckoned(self, figure: Figure) -> Tags | None:
        """None: from nothing; else the words of its parts, at least one."""
        self._reckoned_so_far += 1
        if self._reckoned_so_far > _RECKONED_MAX:
            return None
        sentence, tolerance = self._around(figure, _SENTENCE_END), self._tolerance(figure)
        for value in figure.values:
            has_digits = _digits(value, figure.quantum) >= 3 or figure.quantum <= 0.01
            if figure.kind is Kind.PERCENT:
                found = self._share(value, tolerance, sentence, has_digits=has_digits)
            else:
                found = self._amount(figure, value, tolerance, sentence, has_digits=has_digits)
            if found is not None:
                return found | {"="}
        return None

    def _share(
        self, value: float, tolerance: float, sentence: str, *, has_digits: bool
    ) -> Tags | None:
        if not has_digits and not _COMPARED.search(sentence):
            return None
        return self._known.reckoner.share(value, tolerance, has_digits=has_digits)

    def _amount(
        self, figure: Figure, value: float, tolerance: float, sentence: str, *, has_digits: bool
    ) -> Tags | None:
        reckoner = self._known.reckoner
        is_rate = figure.kind is not Kind.DURATION and _RATE.search(sentence) is not None
        for worth in self._in_told_units(figure):
            found = reckoner.amount(value * worth, tolerance * worth, has_digits=has_digits)
            if found is None and is_rate:
                found = reckoner.rate(
                    value * worth, tolerance * worth, is_money=figure.money, has_digits=has_digits
                )
            if found is not None and _fits(figure, found):
                return found
        if _POINTS.match(self._text, figure.end):
            return reckoner.share(value, tolerance, has_digits=False)
        if _YEARLY.search(sentence) and self._known.has_number(value / 12, tolerance / 12):
            return frozenset({"year"})
        return None

    def _in_told_units(self, figure: Figure) -> list[float]:
        """What one unit of the figure is in the units that were told of its dimension."""
        if figure.measure is None or figure.measure[0] == "heat":
            return [1.0]
        units = sorted(self._known.units.get(figure.measure[0], ()))
        return list(dict.fromkeys([1.0, *(figure.unit / unit for unit in units)]))

    def _duration(self, figure: Figure) -> Tags | None:
        told: Tags = frozenset()
        if _AGAIN.search(self._around(figure, _CLAUSE_END)) or self._is_told(figure):
            return told
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
            if not other.values or len(between) > _NEAR_BASE or not _IS_WORTH.search(between):
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
        is_more = bool(_MORE_BEFORE.search(before)) or figure.text[-1:] in "多余"
        is_about = bool(_ABOUT_BEFORE.search(before) or _ABOUT_AFTER.match(after)) or is_more
        if is_about:
            shown = max(figure.quantum, _last_shown(value))
            half = max(half, shown if is_more else shown / 2)
        if max(figure.quantum, half) > 1 and figure.kind is not Kind.DURATION:
            at_most = _ROUNDED_AT_MOST * value
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

"""What an honest answer may reckon from the numbers that it was told.

Sums, differences and products of two; sums and means of a run of numbers; shares and rates of two.
Among a few numbers almost every small one is some sum of two, so a result of one or two digits
counts only if its parts belong together: they stand under names with a word in common, have the
same unit, or one of them is in the question.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, combinations

from worker.core.compounds import is_alike
from worker.core.results import ASKED, MONEY, RECORD, Fits, Operand, Results, Tags, any_parts

PAIRS_MAX = 40  # numbers that are paired with each other one by one
LOOSE_MAX = 300  # of more, almost everything is the sum of two
RUN_MAX = 40
_DEDUCTED_MAX = 10
_STEPS_MAX = 16
_BY_CHANCE_MAX = 0.02

_DIMENSIONS = frozenset({"time", "length", "mass", "data", "area", "volume", "heat", "energy", "%"})
_TOTALS = frozenset({"total", "sum", "subtotal"})


class Reckoner:
    """Everything that follows from the operands: sure, by its digits alone, and as a rate."""

    def __init__(
        self,
        operands: Sequence[Operand],
        runs: Iterable[Sequence[Operand]],
        times: Iterable[float] = (),
        asked: Sequence[float] = (),
    ) -> None:
        """Reckon all results at once.

        `times` are small counts that question or answer name (两人, two), `asked` those of the
        question, in order: 2 adults and 1 child.
        """
        self.sure, self.loose = Results(), Results()
        self.shares, self.loose_shares = Results(), Results()
        self.prices, self.rates, self.loose_rates = Results(), Results(), Results()
        self.gaps, self.exact, self.rough = Results(), Results(), Results()
        self.share_gaps, self.answers = Results(), Results()
        self._times = frozenset(times)
        few = self._few = operands[:PAIRS_MAX]
        for a, b in combinations(few, 2):
            self._pair(a, b)
            if len(asked) == 2 and not (a.is_share or b.is_share):
                for one, other in (asked, asked[::-1]):
                    self.loose.add(one * a.value + other * b.value, a.tags | b.tags)
        asked_of = [each for each in few if ASKED in each.tags and not each.is_share]
        for each in asked_of[:3]:
            for a, b in combinations(few, 2):
                if _belong(a, b) and not (a.is_share or b.is_share):
                    self.loose.add((a.value - b.value) * each.value, a.tags | b.tags)
        for run in runs:
            self._run(run[:RUN_MAX], asked_of)
        for each in few:
            self._alone(each, times)
        self._all = sorted(each.value for each in operands[:LOOSE_MAX])

    def add_compounds(
        self, amounts: Iterable[float], changes: Iterable[float], totals: Iterable[float]
    ) -> None:
        """Take what follows from three numbers of a record, or from two columns."""
        nothing: Tags = frozenset({"="})
        for value in amounts:
            self.loose.add(value, nothing)
            self.gaps.add(value, nothing)
        for value in changes:
            self.shares.add(value, nothing)
        for value in totals:
            self.sure.add(value, nothing)

    def amount(
        self,
        value: float,
        tolerance: float,
        *,
        has_digits: bool,
        is_long: bool = False,
        fits: Fits = any_parts,
    ) -> Tags | None:
        """The words of what an amount was reckoned from; None: from nothing.

        `has_digits` tells that it has three digits or more, so that it does not fit by chance, and
        `is_long` that it has five, so that not even two steps lead to it by chance.
        """
        found = self.sure.find(value, tolerance, fits)
        if found is None and has_digits:
            found = self.loose.find(value, tolerance, fits)
        if found is None and is_long:
            found = self._in_two_steps(value, tolerance)
        if found is None and has_digits and len(self._all) > PAIRS_MAX:
            found = frozenset() if self._is_pair(value, tolerance) else None
        return found

    def share(
        self, value: float, tolerance: float, *, has_digits: bool, is_rough: bool = False
    ) -> Tags | None:
        """The same of a percentage; a rough one, such as a third, of what one text told."""
        found = self.shares.find(value, tolerance)
        if found is None and has_digits:
            found = self.loose_shares.find(value, tolerance)
        if found is None and not has_digits:
            found = self.exact.find(value, 1e-4 * abs(value))
        if found is None and is_rough:
            found = self.rough.find(value, tolerance)
        return found

    def unlikely(
        self,
        value: float,
        tolerance: float,
        fits: Fits = any_parts,
        *,
        is_share: bool = False,
        is_rate: bool = True,
    ) -> Tags | None:
        """The same of anything at all, if hardly any number would fit as well by chance."""
        pools = [self.shares, self.loose_shares] if is_share else [self.sure, self.loose]
        if is_rate and not is_share:
            pools += [self.rates, self.loose_rates]
        crowd = sum(pool.crowd(value) for pool in pools)
        if crowd * 2 * max(tolerance, 1e-3 * value) > _BY_CHANCE_MAX * 1.5 * value:
            return None
        hits = (pool.find(value, tolerance, fits) for pool in pools)
        return next((hit for hit in hits if hit is not None), None)

    def gap(self, value: float, tolerance: float, fits: Fits = any_parts) -> Tags | None:
        """The same of how much one differs from another of the same text, or of the question."""
        return self.gaps.find(value, tolerance, fits)

    def asked(self, value: float, tolerance: float, fits: Fits = any_parts) -> Tags | None:
        """The same of what a number of the question comes to."""
        return self.answers.find(value, tolerance, fits)

    def share_gap(self, value: float, tolerance: float) -> Tags | None:
        """The same of two percentages: their difference, sum or mean."""
        return self.share_gaps.find(value, tolerance)

    def rate(
        self,
        value: float,
        tolerance: float,
        *,
        is_money: bool,
        has_digits: bool,
        fits: Fits = any_parts,
    ) -> Tags | None:
        """The same of so much for each: only where the answer says that it is a rate."""
        found = self.prices.find(value, tolerance, fits)
        if found is None and is_money:
            found = self.rates.find(value, tolerance if has_digits else 0.0, fits)
            found = found if found is not None and not _DIMENSIONS & found else None
        if found is None and not is_money:
            found = self.rates.find(value, tolerance, fits)
            if found is None and has_digits:
                found = self.loose_rates.find(value, tolerance, fits)
        return found

    def _pair(self, a: Operand, b: Operand) -> None:
        tags = (a.tags | b.tags) - {ASKED}
        belong = _belong(a, b)
        if a.is_share and b.is_share:
            for value in (a.value + b.value, a.value - b.value, (a.value + b.value) / 2):
                self.share_gaps.add(value, tags)
            return
        if a.is_share or b.is_share:
            share, amount = (a, b) if a.is_share else (b, a)
            part = amount.value * share.value / 100
            both_asked = ASKED in a.tags & b.tags
            for value in (part, amount.value + part, amount.value - part):
                (self.sure if both_asked else self.loose).add(value, tags)
                if ASKED in a.tags | b.tags:
                    self.answers.add(value, tags)
            return
        results = self.sure if belong else self.loose
        if not (_TOTALS & (a.tags ^ b.tags)):  # a part is not added to its total
            results.add(a.value + b.value, tags)
        results.add(a.value - b.value, tags)
        asked = ASKED in a.tags | b.tags
        if asked or a.tags & b.tags:
            self.gaps.add(a.value - b.value, tags)
        (self.sure if asked else self.loose).add(a.value * b.value, tags)
        if asked:
            self.answers.add(a.value * b.value, tags)
        self._quotients(a, b, tags, belong=belong or asked)

    def _quotients(self, a: Operand, b: Operand, tags: Tags, *, belong: bool) -> None:
        for over, under in ((a, b), (b, a)):
            if not under.value:
                continue
            # Of what stands in one result, so much for each is nothing out of the way.
            is_near = belong or bool(a.tags & b.tags)
            for factor in (1.0, 100.0) if 100.0 in self._times else (1.0,):
                self._rate(over, factor * over.value / under.value, tags, belong=is_near)
            shares = self.shares if belong else self.loose_shares
            found = [100 * over.value / under.value]
            if ASKED not in a.tags & b.tags:
                found.append(100 * (over.value - under.value) / under.value)
            asked = bool({ASKED, "="} & (a.tags | b.tags)) and is_alike(a.value, b.value)
            for value in found:
                (self.shares if asked else shares).add(value, tags)
                if a.tags & b.tags:
                    self.rough.add(value, tags)
                if has_two_digits(over.value) and has_two_digits(under.value):
                    self.exact.add(value, tags)

    def _rate(self, over: Operand, value: float, tags: Tags, *, belong: bool) -> None:
        if over.tags & MONEY:
            self.prices.add(value, tags)
        (self.rates if belong else self.loose_rates).add(value, tags)

    def _alone(self, each: Operand, times: Iterable[float]) -> None:
        if each.is_share:
            self.shares.add(100 - each.value, each.tags)
            return
        for count in times if each.value not in (0, 1) else ():
            self.sure.add(each.value * count, each.tags)
            self._rate(each, each.value / count, each.tags, belong=True)
        if 0 < each.value < 1:
            self.shares.add(100 - 100 * each.value, each.tags)

    def _run(self, run: Sequence[Operand], asked: Sequence[Operand]) -> None:
        """Sums and means of numbers that stand one after another."""
        if len(run) < 2:
            return
        totals = [0.0, *accumulate(each.value for each in run)]
        tags = frozenset(chain.from_iterable(each.tags for each in run)) - {ASKED}
        if any(each.is_share for each in run):
            if all(each.is_share for each in run):
                self.shares.add(totals[-1] / len(run), tags)
            return
        for start, first in enumerate(run):
            tags, common = first.tags - {ASKED}, first.tags
            for count, each in enumerate(run[start + 1 :], 2):
                tags, common = tags | (each.tags - {ASKED}), common & each.tags
                self._stretch(totals[start + count] - totals[start], count, tags, common)
        if _is_one(common := frozenset.intersection(*(each.tags for each in run))):
            self._total(totals[-1], run, asked, tags, common)
        elif len(run) <= _DEDUCTED_MAX:
            self._deducted(run, totals, tags)

    def _total(
        self,
        total: float,
        run: Sequence[Operand],
        asked: Sequence[Operand],
        tags: Tags,
        common: Tags,
    ) -> None:
        """What each is of the sum of all, and the sum of what was asked for."""
        self.sure.add(total, common)
        for each in run if total else ():
            self.shares.add(100 * each.value / total, tags)
        for each in asked:
            self.sure.add(total - each.value, tags)
            if each.value:
                self.shares.add(100 * total / each.value, tags)

    def _deducted(self, run: Sequence[Operand], totals: Sequence[float], tags: Tags) -> None:
        """What is left of a number after those that follow it, or that stand before it."""
        for at, each in enumerate(run):
            self.loose.add(each.value - (totals[-1] - totals[at + 1]), tags)
            self.loose.add(each.value - totals[at], tags)

    def _stretch(self, total: float, count: int, tags: Tags, common: Tags) -> None:
        """A sum of so many numbers, and their mean. `common` are the words that all of them have."""
        is_one = _is_one(common)
        if count > 2:
            (self.sure if is_one else self.loose).add(total, tags)
        (self.rates if is_one else self.loose_rates).add(total / count, tags)
        if tags & MONEY:
            self.prices.add(total / count, tags)

    def _in_two_steps(self, value: float, tolerance: float) -> Tags | None:
        """What is reckoned from a result and one number more."""
        for each in self._few[:_STEPS_MAX]:
            n = each.value
            ways = [(abs(value - n), tolerance), (value + n, tolerance)]
            if n:
                ways += [(value / n, tolerance / n), (value * n, tolerance * n)]
            for way, slack in ways:
                found = self.loose.find(way, slack)
                found = found if found is not None else self.sure.find(way, slack)
                if found is not None:
                    return found | each.tags
        return None

    def _is_pair(self, value: float, tolerance: float) -> bool:
        ordered = self._all
        return any(
            _has(ordered, value - a, tolerance, other_than=at)
            or _has(ordered, value + a, tolerance, other_than=at)
            or (a != 0 and _has(ordered, value / a, tolerance / abs(a), other_than=at))
            for at, a in enumerate(ordered)
        )


def _is_one(common: Tags) -> bool:
    """Whether numbers with these words in common are of one sort."""
    return any(tag != ASKED and not tag.startswith(RECORD) for tag in common)


def has_two_digits(value: float) -> bool:
    """Whether it is no small or round number, so that a quotient of two is no accident."""
    return len(f"{abs(value):.10g}".replace(".", "").strip("0")) > 1


def _belong(a: Operand, b: Operand) -> bool:
    return any(tag != ASKED and not tag.startswith(RECORD) for tag in a.tags & b.tags)


def _has(numbers: list[float], value: float, tolerance: float, *, other_than: int) -> bool:
    slack = tolerance + 1e-9 * max(1.0, abs(value))
    at = bisect_left(numbers, value - slack)
    if at == other_than:
        at += 1
    return at < len(numbers) and numbers[at] <= value + slack

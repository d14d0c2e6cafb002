"""The pools of results that follow from the operands, and how they are asked.

A result is sure if its parts belong together, and loose if it may be an accident: then only its
digits, or that hardly anything else is near, speak for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from worker.core.results import Fits, Operand, Results, Tags, any_parts

PAIRS_MAX = 40  # numbers that are paired with each other one by one
LOOSE_MAX = 300  # of more, almost everything is the sum of two
_STEPS_MAX = 16
_BY_CHANCE_MAX = 0.02
DIMENSIONS = frozenset({"time", "length", "mass", "data", "area", "volume", "heat", "energy", "%"})


class Pools:
    """What follows from some numbers: sure, by its digits alone, and as a rate."""

    def __init__(self, operands: Sequence[Operand]) -> None:
        """Take the numbers; the pools are empty at first."""
        self.sure, self.loose = Results(), Results()
        self.shares, self.loose_shares = Results(), Results()
        self.prices, self.rates, self.loose_rates = Results(), Results(), Results()
        self.gaps, self.exact, self.rough = Results(), Results(), Results()
        self.share_gaps, self.answers = Results(), Results()
        self.lasting, self.longer, self.rests = Results(), Results(), Results()
        self._few = operands[:PAIRS_MAX]
        self._all = sorted(each.value for each in operands[:LOOSE_MAX])

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
            found = found if found is not None and not DIMENSIONS & found else None
        if found is None and not is_money:
            found = self.rates.find(value, tolerance, fits)
            if found is None and has_digits:
                found = self.loose_rates.find(value, tolerance, fits)
        return found

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


def _has(numbers: list[float], value: float, tolerance: float, *, other_than: int) -> bool:
    slack = tolerance + 1e-9 * max(1.0, abs(value))
    at = bisect_left(numbers, value - slack)
    if at == other_than:
        at += 1
    return at < len(numbers) and numbers[at] <= value + slack

"""What an honest answer may reckon from the numbers that it was told.

Sums, differences and products of two; sums and means of a run of numbers; shares and rates of two.
Among a few numbers almost every small one is some sum of two, so a result of one or two digits
counts only if its parts belong together: they stand under names with a word in common, have the
same unit, or one of them is in the question.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations

PAIRS_MAX = 40  # numbers that are paired with each other one by one
LOOSE_MAX = 300  # of more, almost everything is the sum of two
RUN_MAX = 40
PERCENT, PRICE = "%", "¥"
RECORD = "#"  # begins the name of the text in which a number stands
ASKED = "?"  # of a number in the question: it may be multiplied with whatever a tool tells

_MONEY = frozenset(
    [
        "price",
        "amount",
        "cost",
        "costs",
        "total",
        "spend",
        "spent",
        "fee",
        "pay",
        "paid",
        "gmv",
        "revenue",
        "sales",
        "value",
        "balance",
        "budget",
        "principal",
        "income",
        "bill",
        "usd",
        "cny",
        "eur",
        "gbp",
        "rent",
        "salary",
    ]
) | {PRICE}

_TOTALS = frozenset({"total", "sum", "subtotal"})
Tags = frozenset[str]


@dataclass(frozen=True, slots=True)
class Operand:
    """A number to reckon with: its value, and the words that say what it is a number of."""

    value: float
    tags: Tags = frozenset()

    @property
    def is_share(self) -> bool:
        """Whether it is a percentage."""
        return PERCENT in self.tags


@dataclass(slots=True)
class Results:
    """Values that can be looked up by how near they are."""

    rows: list[tuple[float, Tags]] = field(default_factory=list)
    is_sorted: bool = False

    def add(self, value: float, tags: Tags) -> None:
        """Add one."""
        self.rows.append((abs(value), tags))
        self.is_sorted = False

    def find(self, value: float, tolerance: float) -> Tags | None:
        """The words of a value that is near enough, None if there is none."""
        if not self.is_sorted:
            self.rows.sort(key=lambda row: row[0])
            self.is_sorted = True
        slack = tolerance + 1e-9 * max(1.0, abs(value))
        at = bisect_left(self.rows, value - slack, key=lambda row: row[0])
        if at < len(self.rows) and self.rows[at][0] <= value + slack:
            return self.rows[at][1]
        return None


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
        self._times = frozenset(times)
        few = operands[:PAIRS_MAX]
        for a, b in combinations(few, 2):
            self._pair(a, b)
            if len(asked) == 2 and not (a.is_share or b.is_share):
                for one, other in (asked, asked[::-1]):
                    self.loose.add(one * a.value + other * b.value, a.tags | b.tags)
        for run in runs:
            self._run(run[:RUN_MAX])
        for each in few:
            self._alone(each, times)
        self._all = sorted(each.value for each in operands[:LOOSE_MAX])

    def amount(self, value: float, tolerance: float, *, has_digits: bool) -> Tags | None:
        """The words of what an amount was reckoned from; None: from nothing.

        `has_digits` tells that it has three digits or more, so that it does not fit by chance.
        """
        found = self.sure.find(value, tolerance)
        if found is None and has_digits:
            found = self.loose.find(value, tolerance)
        if found is None and has_digits and len(self._all) > PAIRS_MAX:
            found = frozenset() if self._is_pair(value, tolerance) else None
        return found

    def share(self, value: float, tolerance: float, *, has_digits: bool) -> Tags | None:
        """The same of a percentage."""
        found = self.shares.find(value, tolerance)
        if found is None and has_digits:
            found = self.loose_shares.find(value, tolerance)
        return found

    def rate(
        self, value: float, tolerance: float, *, is_money: bool, has_digits: bool
    ) -> Tags | None:
        """The same of so much for each: only where the answer says that it is a rate."""
        found = self.prices.find(value, tolerance)
        if found is None and not is_money:
            found = self.rates.find(value, tolerance)
            if found is None and has_digits:
                found = self.loose_rates.find(value, tolerance)
        return found

    def _pair(self, a: Operand, b: Operand) -> None:
        tags = (a.tags | b.tags) - {ASKED}
        belong = _belong(a, b)
        if a.is_share and b.is_share:
            for value in (a.value + b.value, a.value - b.value):
                self.shares.add(value, tags)
            return
        if a.is_share or b.is_share:
            share, amount = (a, b) if a.is_share else (b, a)
            part = amount.value * share.value / 100
            for value in (part, amount.value + part, amount.value - part):
                self.loose.add(value, tags)
            return
        results = self.sure if belong else self.loose
        if not (_TOTALS & (a.tags ^ b.tags)):  # a part is not added to its total
            results.add(a.value + b.value, tags)
        results.add(a.value - b.value, tags)
        asked = ASKED in a.tags | b.tags
        (self.sure if asked else self.loose).add(a.value * b.value, tags)
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
            shares.add(100 * over.value / under.value, tags)
            if ASKED not in a.tags | b.tags:
                shares.add(100 * (over.value - under.value) / under.value, tags)

    def _rate(self, over: Operand, value: float, tags: Tags, *, belong: bool) -> None:
        if over.tags & _MONEY:
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

    def _run(self, run: Sequence[Operand]) -> None:
        """Sums and means of numbers that stand one after another."""
        if len(run) < 2 or any(each.is_share for each in run):
            return
        totals = [0.0, *accumulate(each.value for each in run)]
        for start, first in enumerate(run):
            tags, common = first.tags - {ASKED}, first.tags
            for count, each in enumerate(run[start + 1 :], 2):
                tags, common = tags | (each.tags - {ASKED}), common & each.tags
                self._stretch(totals[start + count] - totals[start], count, tags, common)

    def _stretch(self, total: float, count: int, tags: Tags, common: Tags) -> None:
        """A sum of so many numbers, and their mean. `common` are the words that all of them have."""
        is_one = any(not tag.startswith(RECORD) for tag in common)
        if count > 2:
            (self.sure if is_one else self.loose).add(total, tags)
        (self.rates if is_one else self.loose_rates).add(total / count, tags)
        if tags & _MONEY:
            self.prices.add(total / count, tags)

    def _is_pair(self, value: float, tolerance: float) -> bool:
        ordered = self._all
        return any(
            _has(ordered, value - a, tolerance, other_than=at)
            or _has(ordered, value + a, tolerance, other_than=at)
            or (a != 0 and _has(ordered, value / a, tolerance / abs(a), other_than=at))
            for at, a in enumerate(ordered)
        )


def _belong(a: Operand, b: Operand) -> bool:
    return any(tag != ASKED and not tag.startswith(RECORD) for tag in a.tags & b.tags)


def _has(numbers: list[float], value: float, tolerance: float, *, other_than: int) -> bool:
    slack = tolerance + 1e-9 * max(1.0, abs(value))
    at = bisect_left(numbers, value - slack)
    if at == other_than:
        at += 1
    return at < len(numbers) and numbers[at] <= value + slack

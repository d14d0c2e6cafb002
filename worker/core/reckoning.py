"""What an honest answer may reckon from the numbers that it was told.

Sums, differences and products of two; sums and means of a run of numbers; shares and rates of two.
Among a few numbers almost every small one is some sum of two, so a result of one or two digits
counts only if its parts belong together: they stand under names with a word in common, have the
same unit, or one of them is in the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, combinations

from worker.core.compounds import is_alike
from worker.core.pools import DIMENSIONS, Pools
from worker.core.relations import EACH, SUM, WHOLE, WHOLES, stretches
from worker.core.results import ASKED, MONEY, PRICE, RECORD, Operand, Tags

RUN_MAX = 40
_DEDUCTED_MAX = 10
_TELLING = 10  # of two small differences, one always fits
_LASTING_MAX = 10

_TOTALS = frozenset({"total", "sum", "subtotal"})


class Reckoner(Pools):
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
        super().__init__(operands)
        self._times = frozenset(times)
        few = self._few
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

    def add_sums(self, sums: Iterable[Operand]) -> None:
        """Take the sums of fields: they need not be told as sums."""
        for each in sums:
            if abs(each.value) >= _TELLING:
                self.answers.add(each.value, each.tags)

    def add_wholes(self, wholes: Iterable[tuple[Sequence[float], float]]) -> None:
        """Take what follows from numbers that add up to a whole: shares, and what is left."""
        nothing: Tags = frozenset({"="})
        for parts, whole in wholes:
            self.sure.add(whole, nothing)
            self.answers.add(whole, nothing)
            for part in stretches(parts) if whole else ():
                self.shares.add(100 * part / whole, nothing)
                self.rests.add(100 - 100 * part / whole, nothing)
                for value in (part, whole - part):
                    self.sure.add(value, nothing)
                    self.gaps.add(value, nothing)

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
        self._relate(a, b, tags)
        is_kind = is_of_one_kind(a, b)
        results = self.sure if belong and is_kind else self.loose
        if not (_TOTALS & (a.tags ^ b.tags)):  # a part is not added to its total
            results.add(a.value + b.value, tags)
        results.add(a.value - b.value, tags)
        asked = ASKED in a.tags | b.tags
        is_telling = belong or abs(a.value - b.value) >= _TELLING
        if asked or (is_kind and is_telling and a.tags & b.tags):
            self.gaps.add(a.value - b.value, tags)
        (self.sure if asked else self.loose).add(a.value * b.value, tags)
        if asked:
            self.answers.add(a.value * b.value, tags)
        self._quotients(a, b, tags, belong=belong or asked)

    def _relate(self, a: Operand, b: Operand, tags: Tags) -> None:
        """What a whole and its part come to, or so much for each and so many."""
        if (WHOLE in a.tags) != (WHOLE in b.tags) and may_be_part(a, b):
            whole, part = (a, b) if WHOLE in a.tags else (b, a)
            if 0 <= part.value < whole.value:
                for pool in (self.sure, self.gaps, self.answers):
                    pool.add(whole.value - part.value, tags)
                self.rests.add(100 - 100 * part.value / whole.value, tags)
            if whole.value:
                self.shares.add(100 * part.value / whole.value, tags)
        if (EACH in a.tags) != (EACH in b.tags) and a.tags & b.tags:
            each, other = (a, b) if EACH in a.tags else (b, a)
            self.sure.add(each.value * other.value, tags)
            self.answers.add(each.value * other.value, tags)
            if not each.value or not is_of_one_kind(a, b, apart=EACH):
                return
            self.sure.add(other.value / each.value, tags)
            if each.period is not None:
                seconds = each.period * other.value / each.value
                for row, of in self.lasting.rows[:_LASTING_MAX]:
                    self.longer.add(seconds - row, of)
                self.lasting.add(seconds, tags)

    def _quotients(self, a: Operand, b: Operand, tags: Tags, *, belong: bool) -> None:
        for over, under in ((a, b), (b, a)):
            if not under.value:
                continue
            # Of what stands in one result, so much for each is nothing out of the way.
            is_near = belong or bool(a.tags & b.tags)
            if SUM in a.tags ^ b.tags:
                break  # of how many times a sum is its part nobody speaks
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
                if not (common or is_of_one_kind(first, each)):
                    break
                tags, common = tags | (each.tags - {ASKED}), common & each.tags
                self._stretch(totals[start + count] - totals[start], count, tags, common)
        if _is_one(common := frozenset.intersection(*(each.tags for each in run))):
            self._total(totals[-1], run, asked, tags, common)
        elif len(run) <= _DEDUCTED_MAX and all(is_of_one_kind(run[0], each) for each in run):
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


def _is_one(common: Tags) -> bool:
    """Whether numbers with these words in common are of one sort."""
    return any(tag != ASKED and not tag.startswith(RECORD) for tag in common)


def is_of_one_kind(a: Operand, b: Operand, *, apart: str = "") -> bool:
    """Whether two numbers may be a whole and its part: no minutes of so many beds."""
    kinds = (DIMENSIONS | {PRICE, EACH}) - {apart}
    return a.tags & kinds == b.tags & kinds


def may_be_part(a: Operand, b: Operand) -> bool:
    """Whether one may be a part of the other: beds_free is of beds_total, and waiting is not."""
    if not is_of_one_kind(a, b):
        return False
    words = [{t for t in each.tags if t.isascii() and t.isalpha()} - WHOLES for each in (a, b)]
    return not all(words) or not words[0].isdisjoint(words[1])


def has_two_digits(value: float) -> bool:
    """Whether it is no small or round number, so that a quotient of two is no accident."""
    return len(f"{abs(value):.10g}".replace(".", "").strip("0")) > 1


def _belong(a: Operand, b: Operand) -> bool:
    return any(tag != ASKED and not tag.startswith(RECORD) for tag in a.tags & b.tags)

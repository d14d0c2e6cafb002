"""What follows from three numbers or more of one record: worth and gain, totals of a cart, interest.

A person who reads `{"units": 312.458, "nav": 41.27, "cost": 11250}` says what it is worth and what
was gained. Such steps are taken only inside one record, or along two columns, and only between
numbers of about the same size: freely combined, three numbers give almost any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

_RECORD_MAX, _COLUMNS_MAX = 6, 6


def is_alike(a: float, b: float) -> bool:
    """Whether two numbers are of about the same size, so that one is compared with the other."""
    return a * b > 0 and 0.4 <= a / b <= 2.5


def amounts(record: Sequence[float]) -> Iterator[float]:
    """Gains: so many times the difference of two, and a product less what it cost."""
    few = [n for n in record if n][:_RECORD_MAX]
    for a, b in combinations(few, 2):
        for other in few:
            if other in (a, b):
                continue
            if is_alike(a, b):
                yield (a - b) * other
            if is_alike(a * b, other):
                yield a * b - other


def changes(record: Sequence[float]) -> Iterator[float]:
    """By how many percent one is more than another like it, or a product than what it cost."""
    few = [n for n in record if n][:_RECORD_MAX]
    for a, b in permutations(few, 2):
        if is_alike(a, b):
            yield 100 * (a - b) / b
            yield 100 * a / b
    for a, b in combinations(few, 2):
        for other in few:
            if other not in (a, b) and is_alike(a * b, other):
                yield 100 * (a * b - other) / other


def totals(columns: Sequence[Sequence[float]]) -> Iterator[float]:
    """The sum over all records of one field times another: what is in a cart."""
    for one, other in combinations(columns[:_COLUMNS_MAX], 2):
        if len(one) == len(other) > 1:
            yield sum(a * b for a, b in zip(one, other, strict=True))


def interest(
    sums: Sequence[float], shares: Sequence[float], years: Sequence[float]
) -> Iterator[float]:
    """Simple interest for so many years, and the sum with it."""
    for amount in sums[:_RECORD_MAX]:
        for share in shares[:3]:
            for n in years[:3]:
                yield amount * share * n / 100
                yield amount * (1 + share * n / 100)

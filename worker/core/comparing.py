"""Comparing what is said with what was told: numbers by nearness, texts whatever their blanks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def has(numbers: Sequence[float], value: float, tolerance: float) -> bool:
    """Whether a sorted list holds a number that is near enough."""
    slack = abs(tolerance) + 1e-9 * max(1.0, abs(value))
    at = bisect_left(numbers, value - slack)
    return at < len(numbers) and numbers[at] <= value + slack


def tight(text: str) -> str:
    """A text for comparing: iPhone15 is iPhone 15."""
    return "".join(text.split()).casefold()

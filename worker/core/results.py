"""What is reckoned with, and a pool of results that is asked by how near a value is.

A number to reckon with carries the words that say what it is a number of; so does a result, of all
of its parts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

PERCENT, PRICE = "%", "¥"
RECORD = "#"  # begins the name of the text in which a number stands
ASKED = "?"  # of a number in the question: it may be multiplied with whatever a tool tells

_MONEY_WORDS = (
    "price amount cost costs total spend spent fee pay paid gmv revenue "
    "sales value balance budget principal income bill usd cny eur gbp rent salary"
)
MONEY = frozenset(_MONEY_WORDS.split()) | {PRICE}

Tags = frozenset[str]
Fits = Callable[[Tags], bool]
_CROWD_MAX = 400
_NEAR_MAX = 64  # so many values that are near are asked whether they fit


def any_parts(_tags: Tags) -> bool:
    """Whatever the parts were."""
    return True


@dataclass(frozen=True, slots=True)
class Operand:
    """A number to reckon with: its value, and the words that say what it is a number of."""

    value: float
    tags: Tags = frozenset()
    period: float | None = None  # the seconds for which it is told: so much an hour

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

    def crowd(self, value: float) -> int:
        """How many different values there are between the half of this one and its double."""
        self._sort()
        low = bisect_left(self.rows, value / 2, key=lambda row: row[0])
        high = bisect_left(self.rows, value * 2, key=lambda row: row[0])
        if high - low > _CROWD_MAX:
            return _CROWD_MAX
        return len({round(near, 6) for near, _ in self.rows[low:high]})

    def _sort(self) -> None:
        if not self.is_sorted:
            self.rows.sort(key=lambda row: row[0])
            self.is_sorted = True

    def find(self, value: float, tolerance: float, fits: Fits = any_parts) -> Tags | None:
        """The words of a value that is near enough and fits, None if there is none."""
        self._sort()
        slack = tolerance + 1e-9 * max(1.0, abs(value))
        at = bisect_left(self.rows, value - slack, key=lambda row: row[0])
        for near, tags in islice(self.rows, at, at + _NEAR_MAX):
            if near > value + slack:
                return None
            if fits(tags):
                return tags
        return None

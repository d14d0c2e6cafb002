"""One figure of a text: what kind it is, what it is worth, and how exact it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a figure is."""

    NUMBER = "number"
    PERCENT = "percent"
    DURATION = "duration"
    DATE = "date"
    DAY = "day"  # by its name: 明天, next Friday
    TIME = "time"
    IDENTIFIER = "identifier"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a text, at `text[start:end]`.

    `values` are its readings, without sign (`1.234` has two); `quantum` is the worth of one unit of
    the last digit shown. `measure` is its dimension and the worth of one unit in it (of a duration:
    the seconds). `parts` are year, month and day of a date (None where not said; a quarter is a
    negative month), or hour, minute and second of a time.
    """

    kind: Kind
    text: str
    start: int
    end: int
    values: tuple[float, ...] = ()
    quantum: float = 1.0
    measure: tuple[str, float] | None = None
    scale: float = 1.0
    money: bool = False
    parts: tuple[int | None, ...] = ()

    @property
    def unit(self) -> float:
        """The worth of one unit in the smallest one of its dimension."""
        return self.measure[1] if self.measure else 1.0

    @property
    def is_rough(self) -> bool:
        """Whether it is said as one in so many."""
        return self.kind is Kind.PERCENT and self.text.lower().startswith("one in")


At = tuple[str, int, int]
Groups = dict[str, str]

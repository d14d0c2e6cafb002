"""The answer as a text in which figures stand: what is around each of them.

Looking around a figure costs the same wherever it stands: clauses and sentences are cut off after
some hundred characters, and neighbours are found by their place.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from worker.core import surroundings as near
from worker.core.figure import Figure
from worker.core.figureforms import FLAT

BEFORE = 14
_REACH_MAX = 300
_LINE_MAX = 2000  # of a row of a table


class Passage:
    """One answer, its figures in order."""

    def __init__(self, answer: str, asked: Sequence[Figure]) -> None:
        """Take an answer and all figures in it."""
        self.text = answer.translate(FLAT)
        self.asked = asked
        self._starts = [figure.start for figure in asked]
        table = near.TABLE_HEAD.search(self.text)
        self._heading = table[0] if table else ""

    def around(self, figure: Figure, ends: re.Pattern[str]) -> str:
        """The clause or the sentence in which the figure stands; of a table the heading, too."""
        start, end = self.span_around(figure, ends)
        text = self.text[start:end]
        if not self._heading:
            return text
        low = max(0, figure.start - _LINE_MAX)
        line = self.text.rfind("\n", low, figure.start) + 1
        is_row = self.text.startswith("|", line) and (line > 0 or low == 0)
        return self._heading + text if is_row else text

    def span_around(self, figure: Figure, ends: re.Pattern[str]) -> tuple[int, int]:
        """Where the clause or the sentence begins and ends."""
        start = max(0, figure.start - _REACH_MAX)
        for end in ends.finditer(self.text, start, figure.start):
            start = end.end()
        following = ends.search(self.text, figure.end, figure.end + _REACH_MAX)
        return start, following.start() if following else figure.end + _REACH_MAX

    def before(self, figure: Figure, count: int = BEFORE) -> str:
        """The characters before a figure."""
        return self.text[max(0, figure.start - count) : figure.start]

    def after(self, figure: Figure, count: int) -> str:
        """The characters after a figure."""
        return self.text[figure.end : figure.end + count]

    def between(self, start: int, end: int) -> Iterator[Figure]:
        """The figures that begin in a part of the text."""
        at = bisect_left(self._starts, start)
        while at < len(self.asked) and self._starts[at] < end:
            yield self.asked[at]
            at += 1

    def preceding(self, figure: Figure, reach: int) -> Iterator[Figure]:
        """The figures that end at most so many characters before this one, the nearest first."""
        at = bisect_left(self._starts, figure.start) - 1
        while at >= 0 and self.asked[at].end >= figure.start - reach:
            if self.asked[at].end <= figure.start:
                yield self.asked[at]
            at -= 1

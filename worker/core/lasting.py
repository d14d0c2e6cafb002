"""How long an answer says that something lasts: told, between two moments, or since one."""

from __future__ import annotations

from bisect import bisect_right

from worker.core import surroundings as near
from worker.core.comparing import has
from worker.core.exactness import tolerance_of
from worker.core.figure import Figure
from worker.core.known import Known
from worker.core.moments import DAY_SECONDS
from worker.core.passage import Passage

_LATER_AT_MOST = 1.25  # told 27 s, "30 seconds" is honest
_SHORTER, _LONGER = 0.6, 1.7  # told 150 seconds, two minutes and three are honest
_THE = ("the", "these", "all", "those", "这", "共")


class Lasting:
    """Judges the durations of one answer."""

    def __init__(self, passage: Passage, known: Known) -> None:
        self._passage, self._known = passage, known

    def is_known(self, figure: Figure) -> bool:
        """Whether a duration follows from what was told without reckoning with numbers."""
        spans, passage = self._known.spans, self._passage
        clause = passage.around(figure, near.CLAUSE_END)
        if near.AGAIN.search(clause):
            return True
        if figure.unit == DAY_SECONDS and figure.values[0] in spans.common_days:
            return True
        seconds, shown = figure.values[0] * figure.unit, figure.unit * figure.quantum
        if near.GAP.search(clause) and has(spans.gaps, seconds, shown / 2):
            return True
        is_counted = figure.unit >= DAY_SECONDS and figure.values[0] in self._known.lengths
        if is_counted and passage.before(figure).lower().rstrip().endswith(_THE):
            return True  # the three days of which something is told
        return any(self._is_span(figure, value * figure.unit) for value in figure.values)

    def _is_span(self, figure: Figure, seconds: float) -> bool:
        spans, known = self._known.spans, self._known
        slack = tolerance_of(figure, self._passage.text) * figure.unit
        if self._is_rounded(seconds, figure.unit * figure.quantum):
            return True
        if has(spans.told, seconds, slack):
            return True
        sentence = self._passage.around(figure, near.SENTENCE_END)
        if has(spans.since, seconds, slack) and near.SINCE.search(sentence):
            return True
        return any(each <= seconds <= each * _LATER_AT_MOST for each in known.waits)

    def _is_rounded(self, seconds: float, within: float) -> bool:
        """Whether a duration told is less than one unit of what is shown away, and no other one."""
        told = self._known.amounts.get("time", [])
        at = bisect_right(told, max(seconds - within, _SHORTER * seconds - 1e-9))
        return at < len(told) and told[at] < seconds + within and told[at] <= _LONGER * seconds

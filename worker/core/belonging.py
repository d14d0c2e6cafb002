"""Whether a figure belongs to what the answer says it is of.

A figure that was told may still be a lie: the price of another row, or a fall told as a rise. Only
plain cases are judged: a part of a sentence that names one row alone and compares nothing, with a
number that only other rows hold; a rise, where the number was told with a minus and no other way.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from worker.core.comparing import has
from worker.core.figure import Figure, Kind
from worker.core.rows import Row

_PART_END = re.compile(
    r"[。!?;,、|\uff01\uff1f\uff1b\uff0c\n()\uff08\uff09]"
    r"|[.](?=\s|$)|\b(?:and|while|whereas|but|then|followed by|with)\b|而|但|并"
)
_COMPARES = re.compile(
    r"比|差|(?<!最)[多少高低]|贵|便宜|平均|相|倍|超|距|到|至|占|之间|分别|后面|其次"
    r"|\b(?:than|vs|versus|from|to|between|both|together|total|average|sum|less|more|above|below|over|under|ahead"
    r"|behind|times|plus|minus|after|before|of|respectively|compared|beat|tops?|not|no|instead|lead|leads)\b",
    re.IGNORECASE,
)
_RISES = re.compile(
    r"上涨|上升|增长|涨幅|涨了|走高|\b(?:rose|rise[sn]?|gained|gains|climbed|up|higher|increased|grew)\b"
)
_FALLS = re.compile(
    r"下跌|下降|下滑|跌|降|减|低|回落|少|亏|收窄"
    r"|\b(?:fell|fall(?:s|en)?|drop\w*|down|lost|loss|lower|declin\w+|decreas\w+|slid|off|shed|less|below)\b"
)
_PLACE = re.compile(r"(?<=[\u3400-\u9fff]{2})(?:特别行政区|自治区|省|市|县|区)$")
_PART_MAX = 160


class Belonging:
    """Asks of figures that were told whether it was told of what the answer says."""

    def __init__(self, text: str, rows: Sequence[Row], signed: Collection[float]) -> None:
        """`rows` are the records told, `signed` all their numbers with their signs."""
        self._text = text
        named: dict[str, list[Row]] = {}
        for row in rows:
            short = {_PLACE.sub("", name) for name in row.names}
            for name in row.names | short:
                named.setdefault(name.casefold(), []).append(row)
        # What stands in every row, as a currency does, names none.
        self._named = {name: of for name, of in named.items() if len(of) == 1 and len(rows) > 1}
        self._rows = rows
        self._positive = sorted(n for n in signed if n > 0)
        self._negative = sorted(-n for n in signed if n < 0)

    def is_of_another(self, figure: Figure) -> bool:
        """Whether its part of the sentence names one row, and only other rows hold the number."""
        if not self._named or figure.kind in (Kind.DATE, Kind.DAY, Kind.TIME, Kind.IDENTIFIER):
            return False
        part = self._part(figure)
        if _COMPARES.search(part):
            return False
        row = self._row_in(part.casefold())
        if row is None:
            return False
        value = figure.values[0] / figure.scale if figure.scale != 1.0 else figure.values[0]
        ways = {*figure.values, value}
        if any(_near(way, row.numbers) for way in ways):
            return False
        return any(
            _near(way, other.numbers) for other in self._rows if other is not row for way in ways
        )

    def is_turned(self, figure: Figure) -> bool:
        """Whether it is told as a rise though it was told as a fall, or the other way round."""
        if figure.kind not in (Kind.PERCENT, Kind.NUMBER) or not figure.values:
            return False
        value, slack = figure.values[0], figure.quantum / 2
        if has(self._positive, value, slack) or not has(self._negative, value, slack):
            return False
        before = self._text[max(0, figure.start - 1) : figure.start]
        if before in "-−–+" and before:
            return before == "+"
        part = self._part(figure)
        return _RISES.search(part) is not None and _FALLS.search(part) is None

    def _part(self, figure: Figure) -> str:
        low = start = max(0, figure.start - _PART_MAX)
        for end in _PART_END.finditer(self._text, low, figure.start):
            start = end.end()
        following = _PART_END.search(self._text, figure.end, figure.end + _PART_MAX)
        return self._text[start : following.start() if following else figure.end + _PART_MAX]

    def _row_in(self, part: str) -> Row | None:
        """The only row that a part of a sentence names."""
        found = {name for name in self._named if _stands_in(name, part)}
        found -= {short for short in found for name in found if short != name and short in name}
        rows = {id(row): row for name in found for row in self._named[name]}
        return next(iter(rows.values())) if len(rows) == 1 else None


def _stands_in(name: str, part: str) -> bool:
    at = part.find(name)
    if at < 0:
        return False
    if not name.isascii():
        return True
    before, after = part[max(0, at - 1) : at], part[at + len(name) : at + len(name) + 1]
    return not (before.isascii() and before.isalnum()) and not (after.isascii() and after.isalnum())


def _near(value: float, numbers: frozenset[float]) -> bool:
    return any(abs(abs(n) - value) <= 1e-6 * max(1.0, value) for n in numbers)

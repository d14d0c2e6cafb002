"""Days and times of the day as people name them: 下周四, tomorrow, 晚上八点."""

from __future__ import annotations

import re

from worker.core.figure import Figure

_AM = re.compile(r"上午|早上|清晨|凌晨|[aA]\.?[mM]")
_PM = re.compile(r"下午|晚上|傍晚|今晚|[pP]\.?[mM]")
_WEEKDAYS = ("一1", "二2", "三3", "四4", "五5", "六6", "日天末7")
ENGLISH_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
RELATIVE = {"明": 1, "tomorrow": 1, "后天": 2, "大后天": 3, "今晚": 0, "tonight": 0}
RELATIVE |= {"昨": -1, "yesterday": -1, "last night": -1, "前天": -2}


def clock_of(figure: Figure, text: str) -> float | None:
    """The seconds of the day of a time; None where nothing says which half of the day is meant."""
    clock = plain_clock(figure)
    if figure.text.lower() in ("noon", "midday"):
        return 12 * 3600.0
    if clock >= 12 * 3600.0:
        return clock
    before = text[max(0, figure.start - 3) : figure.start]
    for around in (figure.text, "" if before.isascii() else before):
        if _AM.search(around):
            return clock
        if _PM.search(around):
            return clock + 12 * 3600.0
    return None


def plain_clock(figure: Figure) -> float:
    """The seconds of the day of a time, its hour taken as it is written."""
    return 3600.0 * int(figure.values[0]) + 60.0 * (figure.parts[1] or 0)


def week_of(word: str) -> int | None:
    """How many weeks ahead the week is that is named."""
    if word.startswith(("下周", "下个周", "下星期", "下个星期", "下礼拜", "下个礼拜", "next week")):
        return 1
    return -1 if word.startswith(("上周", "上个周", "上星期", "上个星期", "上礼拜")) else None


def weekday_of(word: str) -> int | None:
    """The day of the week that is named, 0 for Monday."""
    if word.endswith(("day", "days")) and word[:3] in ENGLISH_DAYS:
        return ENGLISH_DAYS.index(word[:3])
    named = re.search(r"(?:周|星期|礼拜)([一二三四五六日天])", word)
    if named is None:
        return None
    return next(i for i, names in enumerate(_WEEKDAYS) if named[1] in names)

"""Find the figures in a text: numbers, shares, durations, dates, days, times, identifiers.

Chinese and English, in the forms that people and models write: 1,234 · 1.2万 · 一千二百三十四 ·
百分之三 · ¥12.50 · 3.4M · two-thirds · 2026年12月2日 · Dec 2, 2026 · 下周五 · 10:30 · half past nine.
What they are worth is comparable whatever the form. Numbering at the start of a line is no figure,
nor are a single Chinese digit in running words (一些, 两个) and the digits inside an identifier
(600519.SS), which is one figure as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from worker.core.figure import At, Figure, Groups, Kind
from worker.core.figureforms import DATES, FLAT, HOURS, PATTERN, RANGE, TIMES, TOGETHER
from worker.core.measures import unit_of
from worker.core.numerals import (
    CHINESE_DIGITS,
    SCALES,
    english_number_of,
    last_unit_of,
    number_of,
    quantum_of,
    read,
    readings_of,
)
from worker.core.portions import half_of, share_of

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_QUARTERS = {"一": 1, "二": 2, "三": 3, "四": 4, "first": 1, "second": 2, "third": 3, "fourth": 4}
_HOURS = {"一": 15, "三": 45, "半": 30}
_SMALL_WORD = 12
_SAYS = re.compile(r"\b(?:by|are|is|was|were|have|has|had|scored|got)[ ]$", re.IGNORECASE)
COUNTERS = frozenset("个名位本辆间张台场架次")
_TWO_DIGITS = re.compile(r"[一二两三四五六七八九]{2}$")
_AFTER_PART = re.compile(r"[ ]?[A-Za-z%\u3400-\u9fff:/]")
_AFTER_A_SPAN = re.compile(r"[后内前之以多]|左右|的?时间")


def figures(text: str) -> list[Figure]:
    """Every figure of a text, in order. Linear in the length of the text."""
    flat = text.translate(FLAT)
    found: list[Figure] = []
    for match in PATTERN.finditer(flat):
        figure = _figure(match)
        if figure is None:
            continue
        between = flat[found[-1].end : figure.start] if found else None
        if between is not None and len(between) <= 8:
            if TOGETHER.fullmatch(between):
                figure = _minutes_after(found[-1], figure, flat)
            if TOGETHER.fullmatch(between) and _belongs(found[-1], figure):
                found[-1] = _joined(found[-1], figure, flat)
                continue
            if RANGE.fullmatch(between) and _is_range(found[-1], between, figure):
                found[-1] = _sharing(found[-1], figure)
            elif TIMES.fullmatch(between):
                _share_sides(found, figure, flat)
        found.append(figure)
    return found


def _is_range(first: Figure, between: str, second: Figure) -> bool:
    """Whether "and" stands in a range: 14 and 530 g are no two weights."""
    if not (first.values and second.values):
        return True
    if first.values[0] * second.scale > 10 * second.values[0]:
        return False  # from 1.7 billion in 2019 to 1.3 billion
    if between.strip() != "and":
        return True
    return first.values[0] * 10 >= second.values[0]


def _sharing(first: Figure, second: Figure) -> Figure:
    """In a range such as 1.2-1.5万 or 2-3 minutes the first number has the unit of the second."""
    if first.kind is not Kind.NUMBER or first.scale != 1.0 or not second.values or first.measure:
        return first
    if second.kind is Kind.TIME:
        return first
    return replace(
        first,
        kind=second.kind,
        measure=second.measure,
        money=first.money or second.money,
        values=tuple(value * second.scale for value in first.values),
        quantum=first.quantum * second.scale,
    )


def _share_sides(found: list[Figure], last: Figure, flat: str) -> None:
    """Of 45 x 30 x 20 cm all three are centimetres."""
    if last.measure is None or last.measure[0] != "length":
        return
    for at in range(len(found) - 1, max(-1, len(found) - 3), -1):
        following = found[at + 1].start if at + 1 < len(found) else last.start
        if not TIMES.fullmatch(flat[found[at].end : following]):
            return
        found[at] = _sharing(found[at], last)


def _minutes_after(first: Figure, second: Figure, flat: str) -> Figure:
    """After hours, 54 分 are minutes; alone they may be points."""
    is_hours = first.kind is Kind.DURATION and first.unit == 3600.0
    is_bare = second.kind is Kind.NUMBER and second.measure is None and second.text.isdigit()
    if first.kind is Kind.DURATION and first.unit in (60.0, 3600.0) and is_bare:
        is_last = not _AFTER_PART.match(flat, second.end) and flat[first.end : second.start] == " "
        if is_last and second.values[0] < 60:  # 6 minutes 40
            return replace(
                second, kind=Kind.DURATION, measure=unit_of("秒" if first.unit == 60.0 else "分")
            )
    after = flat[second.end : second.end + 2]
    if not (is_hours and second.kind is Kind.NUMBER and after.lstrip().startswith("分")):
        return second
    end = second.end + after.index("分") + 1
    return replace(second, kind=Kind.DURATION, measure=unit_of("分"), end=end)


def _belongs(first: Figure, second: Figure) -> bool:
    """Whether the second is the smaller part of the first: 7 hours 5 minutes, 16 dollars 50 cents."""
    if first.kind is Kind.DURATION and second.kind is Kind.DURATION:
        return second.unit < first.unit and len(first.values) == len(second.values) == 1
    is_cents = second.text.lower().endswith(("cents", "cent", "pence"))
    return first.money and is_cents and len(first.values) == 1


def _joined(first: Figure, second: Figure, flat: str) -> Figure:
    part = second.unit / first.unit if first.kind is Kind.DURATION else 0.01
    return replace(
        first,
        text=flat[first.start : second.end].strip(),
        end=second.end,
        values=(first.values[0] + second.values[0] * part,),
        quantum=second.quantum * part,
    )


def _figure(match: re.Match[str]) -> Figure | None:
    group = match.groupdict()
    at = (match[0].strip(), match.start(), match.end())
    if group["numbering"] or group["idiom"]:
        return None
    if group["url"] or group["word"] or group["phone"] or group["score"] or group["digits"]:
        has_digit = group["score"] or group["digits"] or any(c.isdigit() for c in at[0])
        return Figure(Kind.IDENTIFIER, *at) if has_digit else None
    if group["number"]:
        return _number(group, at)
    if group["chinese"]:
        if len(group["chinese"]) == 1 and match.string.startswith("第", max(0, match.start() - 1)):
            return None  # 第二天
        return _chinese(group, at, match.string[match.end() : match.end() + 4])
    if group["english"]:
        return _english(group, at, match.string[max(0, match.start() - 8) : match.start()])
    if group["day"]:
        return Figure(Kind.DAY, *at)
    date = next(_dates(group), None)
    if date is not None:
        return Figure(Kind.DATE, *at, parts=date)
    return share_of(group, at) or half_of(group, at) or _time(group, at)


def _number(group: Groups, at: At) -> Figure | None:
    digits = group["number"]
    if digits.isdigit() and digits.startswith("0") and len(digits) > 3:
        return Figure(Kind.IDENTIFIER, *at)  # a code such as 000001, not the number one
    has_sign = bool((group["sign"] or "").strip())
    more = bool(group["scale"]) and group["scale"].strip()[0] in "多余来"
    word = (group["scale"] or "").strip().lstrip("多余来") or (
        has_sign and group["small"]
    )  # $12m, but 12m is a length
    scale = SCALES[word.strip().lower()] if word else 1.0
    values = tuple(value * scale for value in readings_of(digits))
    quantum = quantum_of(digits) * scale
    if more:  # 1200多万
        quantum = 0.9 * scale * 10 ** max(0, len(digits) - len(digits.rstrip("0")))
        values = tuple(value + quantum / 1.8 for value in values)
    span = group["span"] or (group["small"] if not has_sign else None)
    if span == "G" and digits in ("2", "3", "4", "5", "6"):
        return None  # 5G is a network
    measure = unit_of(span.strip(" -").replace("° ", "°")) if span else None
    if span and measure is None:
        measure = _unit_in(span)
    kind = Kind.PERCENT if group["per"] else Kind.NUMBER
    if measure is not None and measure[0] == "time":
        kind = Kind.DURATION
    money = has_sign or bool(group["coin"])
    if not has_sign and (group["coin"] or "").strip().lower() in ("cent", "cents"):
        values, quantum = tuple(value / 100 for value in values), quantum / 100
    return Figure(kind, *at, values, quantum, measure, scale=scale, money=money)


def _unit_in(span: str) -> tuple[str, float] | None:
    """The unit of a span with a word more in it: business days, 个小时."""
    words = span.strip(" -").split()
    return unit_of(words[-1]) or unit_of(words[-1].removeprefix("个"))


def _chinese(group: Groups, at: At, after: str) -> Figure | None:
    word, tail = group["chinese"], (group["ctail"] or "").strip()
    if (group["cspan"] or "").strip() == "晚" and len(word) == 1:
        return None  # 两晚, as 两个 is
    span, more = (group["cspan"] or "").strip(), group["cmore"]
    plain = all(c in CHINESE_DIGITS for c in word)
    # 一些, 两个, 三四天, 十分: words, not figures. With a unit they are meant.
    if not (tail or span or more) and (len(word) == 1 or (plain and len(word) == 2)):
        return None
    if tail in COUNTERS and not (span or more) and word in ("零", "一", "二", "两"):
        return None  # 两个: words
    if word == "一" and not _is_meant(tail, span, after):
        return None
    if (
        plain
        and len(word) == 2
        and not tail.startswith(("元", "美", "块", "%"))
        and "点" not in word
    ):
        return None  # 三四天
    if not plain and "点" not in word and _TWO_DIGITS.search(word):
        word, at = word[:-1], (at[0][: at[0].rindex(word[-1])], at[1], at[2] - 1)  # 二十八 一晚
        span = tail = ""
    value, quantum = number_of(word)
    if more and "点" not in word:
        quantum = 0.9 * max(10.0 if word.endswith("十") else 1.0, last_unit_of(word))
        value += quantum / 1.8
        big = {"万": 1e4, "亿": 1e8}.get(group["cbig"] or "", 1.0)
        value, quantum = value * big, quantum * big
    if tail == "折":
        return Figure(Kind.PERCENT, *at, values=(10 * value,), quantum=quantum)
    if tail == "%":
        return Figure(Kind.PERCENT, *at, values=(value,), quantum=quantum)
    if group["cjiao"]:
        value += read(group["cjiao"])[0] / 10
        value += read(group["cfen"])[0] / 100 if group["cfen"] else 0.0
        quantum = 0.01 if group["cfen"] else 0.1
    measure = _unit_in(span) if span else None
    kind = Kind.DURATION if measure and measure[0] == "time" else Kind.NUMBER
    money = tail in ("元", "块") or tail.endswith(("币", "元", "金", "镑"))
    return Figure(kind, *at, values=(value,), quantum=quantum, measure=measure, money=money)


def _is_meant(tail: str, span: str, after: str) -> bool:
    """Whether 一 with a unit is a figure: 一小时 and 一块 are, 这一天 and 一层 are not."""
    if span.endswith(("小时", "钟头", "分钟", "秒", "秒钟")):
        return True
    if span == "米" and after[:1] in CHINESE_DIGITS:
        return bool(after)  # 一米二
    if span:
        return _AFTER_A_SPAN.match(after) is not None
    return tail in ("元", "块", "折", "倍", "%", "美元")


def _english(group: Groups, at: At, before: str) -> Figure | None:
    words, tail = group["english"], (group["etail"] or "").strip(" -").lower()
    value, span = english_number_of(words), (group["espan"] or "").strip(" -")
    if group["odd"]:
        return Figure(Kind.NUMBER, *at, values=(value + 5.0,), quantum=9.0)
    is_bare = not (tail or span or group["things"]) or (
        value == 1
        and span.lower() not in ("hour", "week", "month")
        and not tail.startswith(("d", "e", "y", "per"))
    )
    is_said = value > 2 and _SAYS.search(before) is not None  # there are eleven
    if value <= _SMALL_WORD and is_bare and not is_said and " and a half" not in words.lower():
        return None  # one of the two: words, as 两个 is
    if tail.startswith("per"):
        quantum = 0.1 if value % 1 else 1.0
        return Figure(Kind.PERCENT, *at, values=(value,), quantum=quantum)
    measure = (unit_of(span) or _unit_in(span)) if span else None
    kind = Kind.DURATION if measure and measure[0] == "time" else Kind.NUMBER
    money = tail.startswith(
        ("dollar", "yuan", "euro", "cent", "pence", "quid", "pound", "rupee", "yen")
    )
    quantum = 1.0
    if "half" in words.lower():
        quantum = max(0.2, 0.2 * 1000.0 ** (len(str(int(value))) // 4))
    elif " point " in words.lower():
        quantum = 10.0 ** -len(words.lower().partition(" point ")[2].split())
    return Figure(kind, *at, values=(value,), quantum=quantum, measure=measure, money=money)


def _dates(group: Groups) -> Iterator[tuple[int | None, ...]]:
    quarter = group["q1"] or group["q2"] or group["q3"]
    if quarter:
        year = group["yq1"] or group["yq2"]
        number = int(quarter) if quarter.isdigit() else _QUARTERS[quarter]
        yield (int(year) if year else None, -number, None)
    for form in DATES:
        said = tuple(group.get(f"{part}{form}") for part in "ymd")
        if any(said):
            yield tuple(None if word is None else _part(word) for word in said)


def _part(word: str) -> int:
    name = word[:3].lower()
    return _MONTHS.index(name) + 1 if name in _MONTHS else round(number_of(word)[0])


def _time(group: Groups, at: At) -> Figure:
    hour, minute = 0, 0
    if not group["noon"]:
        form = next(form for form in HOURS if group.get(f"H{form}"))
        hour, minute = _clock(group, form)
    # Twelve hours: 下午三点 is 15:00, and a wrong half of the day is no invented value. What is
    # said like a decimal may be one: 七点零五 is 7.05, too.
    second = int(group["S1"]) if group["S1"] else None
    values = (hour + minute / 100,)
    return Figure(Kind.TIME, *at, values=values, quantum=0.01, parts=(hour % 12, minute, second))


def _clock(group: Groups, form: int) -> tuple[int, int]:
    word = group[f"H{form}"].lower()
    hour = _hour(word)
    half = group.get(f"half{form}")
    minutes = group.get(f"M{form}")
    if half:
        return hour, _HOURS[half[0]]
    if not minutes:
        return hour, 0
    if form != 10:
        return hour, round(number_of(minutes)[0])
    minute = {"half": 30, "quarter": 15, "a quarter": 15}.get(minutes.lower())
    if minute is None:
        minute = int(minutes) if minutes.isdigit() else round(english_number_of(minutes))
    return (hour, minute) if group["to10"].lower() == "past" else ((hour or 12) - 1, 60 - minute)


def _hour(word: str) -> int:
    if word in ("noon", "midnight"):
        return 0
    if word[0].isascii() and not word[0].isdigit():
        return round(english_number_of(word))
    return round(number_of(word)[0])

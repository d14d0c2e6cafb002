"""Find the figures in a text: numbers, percentages, durations, dates, times, identifiers.

Chinese and English, in the forms that people and models write: 1,234 · 1.2万 · 一千二百三十四 ·
百分之三 · ¥12.50 · 3.4M · 2026年12月2日 · Dec 2, 2026 · 10:30. What they are worth is comparable
whatever the form. Numbering at the start of a line is no figure, nor are a single Chinese digit
in running words (一些, 两个) and the digits inside an identifier (600519.SS), which is one figure
as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from worker.core.numerals import (
    CHINESE_DIGITS,
    ENGLISH_UNITS,
    ENGLISH_WORDS,
    english_number_of,
    number_of,
)


class Kind(StrEnum):
    """What a figure is."""

    NUMBER = "number"
    PERCENT = "percent"
    DURATION = "duration"
    DATE = "date"
    TIME = "time"
    IDENTIFIER = "identifier"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a text, at `text[start:end]`.

    `values` are its readings, without sign (`1.234` has two); `quantum` is the worth of one unit of
    the last digit shown. `unit` is the seconds in one unit of a duration. `parts` are year, month
    and day of a date (None where not said), or hour, minute and second of a time.
    """

    kind: Kind
    text: str
    start: int
    end: int
    values: tuple[float, ...] = ()
    quantum: float = 1.0
    unit: float = 1.0
    scale: float = 1.0
    money: bool = False
    parts: tuple[int | None, ...] = ()


_WIDE = str.maketrans("０１２３４５６７８９％．￥：＋－～", "0123456789%.¥:+-~")
_SCALES = {
    "百万": 1e6,
    "千万": 1e7,
    "万亿": 1e12,
    "百": 1e2,
    "千": 1e3,
    "万": 1e4,
    "亿": 1e8,
    "hundred": 1e2,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "k": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "b": 1e9,
    "bn": 1e9,
    "t": 1e12,
}
_SECONDS = {"毫秒": 0.001, "秒": 1.0, "分": 60.0, "小时": 3600.0, "钟头": 3600.0, "天": 86400.0}
_SECONDS |= {"周": 604800.0, "星期": 604800.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SECONDS |= {"工作日": 86400.0, "d": 86400.0, "w": 604800.0}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_C = CHINESE_DIGITS
_DIGITS = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+"
    r"|[0-9]+,[0-9]{1,2}(?![0-9,])|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
)
_CHINESE = rf"[{_C}十][{_C}十百千万亿]{{0,30}}(?:点[{_C}]{{1,30}})?"
_MONTH = (
    r"(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|[Mm]ar(?:ch)?|[Aa]pr(?:il)?|May|[Jj]une?|[Jj]uly?"
    r"|[Aa]ug(?:ust)?|[Ss]ept?(?:ember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)\.?"
)
_CODES = r"USD|CNY|RMB|HKD|EUR|GBP|JPY|US|HK"
_SCALE = (
    r"(?P<scale>[ ]?(?:百万|千万|万亿|百|千|万|亿)|[ ]?(?:hundred|thousand|million|billion"
    r"|trillion)\b|(?:[kKMBT]|bn|mn)(?![A-Za-z]))?(?P<small>m(?![A-Za-z0-9]))?"
)
_PER = r"(?P<per>[ ]?(?:%|per[ ]?cent\b|percentage points?\b|个?百分点))?"
_SPAN = (
    r"(?P<span>[ -]?(?:毫秒|秒钟?|分钟|个?小时|个?钟头|天|个?工作日|个?星期|周(?!一|二|三|四|五|六|日|末)"
    r"|(?:milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|hours?|hrs?|h|(?:business[ ]|working[ ])?days?|weeks?)"
    r"(?![A-Za-z])))?"
)
_COIN = (
    rf"(?P<coin>[ ]?(?:人民币|美元|港元|欧元|日元|英镑|元|块|(?:{_CODES})(?![A-Za-z])"
    r"|dollars?\b|yuan\b|euros?\b|cents?\b))?"
)
_TAIL = _SCALE + _PER + _SPAN + _COIN
_ENGLISH = (
    rf"(?i:(?:{ENGLISH_WORDS})(?![A-Za-z])"
    rf"(?:[ -](?:and[ ])?(?:{ENGLISH_WORDS}|{ENGLISH_UNITS})(?![A-Za-z])){{0,12}})"
)
_UNITS = (
    rf"(?:[kKMBT]|bn|mn|ms|s|secs?|mins?|h|hrs?|d|x|km|kg|g|m|cm|mm|[KMGT]B|C|F|p|pts?|bps?"
    rf"|st|nd|rd|th|[ap]m|w|{_CODES})"
)
_GLUED = rf"(?:(?:{_CODES})?{_DIGITS}{_UNITS}?(?:-[A-Za-z]+)?)(?![A-Za-z0-9_]|[.:-][A-Za-z0-9])"

# What follows the range 10-12, but not the date 10-12.
_UNITED = r"[ ]?(?:[元块美万亿%个件股天秒分小度]|min|sec|hour|day|week|month|per|doll|[A-Z]{3}\b)"

_PATTERN = re.compile(
    rf"""
    (?P<numbering>^[ \t>#*•-]*(?:[0-9]{{1,2}}[.)、](?![0-9])|[((][0-9]{{1,2}}[))]))
  | (?P<idiom>(?:UTC|GMT)[+-][0-9]{{1,2}}(?::?[0-9]{{2}})?|24/7|7[x×]24(?:[ ]?小时)?
        |'[0-9]{{2}}(?![0-9A-Za-z']))
  | (?P<url>https?://[^\s<>()()"',。]+)
  | (?<![0-9])(?P<y1>[0-9]{{4}})[-/.](?P<m1>[0-9]{{1,2}})[-/.](?P<d1>[0-9]{{1,2}})(?![0-9])
        (?:T(?=[0-9]))?
  | (?<![0-9/])(?P<m5>[0-9]{{1,2}})/(?P<d5>[0-9]{{1,2}})/(?P<y5>[0-9]{{4}})(?![0-9])
  | (?P<y2>[0-9]{{4}}|[{_C}]{{4}})[ ]?年(?:[ ]?(?P<m2>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?月
        (?:[ ]?(?P<d2>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?[日号])?)?
  | (?P<m3>(?<![0-9.])[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?月
        (?:[ ]?(?P<d3>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?[日号])?
  | (?<![0-9.])(?P<d4>[0-9]{{1,2}})[ ]?[日号](?!线)
  | \b(?P<m6>{_MONTH})[ ](?P<d6>[0-9]{{1,2}})(?:st|nd|rd|th)?(?![0-9%]|:[0-9])(?:,?[ ](?P<y6>[0-9]{{4}}))?
  | \b(?P<d7>[0-9]{{1,2}})(?:st|nd|rd|th)?[ ](?:of[ ])?(?P<m7>{_MONTH})(?:,?[ ](?P<y7>[0-9]{{4}}))?
        (?![A-Za-z])
  | \b(?P<m8>{_MONTH})[ ](?P<y8>[0-9]{{4}})(?![0-9])
  | (?<![0-9.-])(?P<m9>0[1-9]|1[0-2])-(?P<d9>0[1-9]|[12][0-9]|3[01])(?![0-9.-]|{_UNITED})
  | (?<![0-9/.])(?P<m10>0?[1-9]|1[0-2])/(?P<d10>0[1-9]|[12][0-9]|3[01])(?![0-9/]|{_UNITED})
  | (?<![0-9])(?<![0-9]:)(?P<H1>[0-9]{{1,2}}):(?P<M1>[0-5][0-9])(?::(?P<S1>[0-5][0-9])(?:\.[0-9]+)?)?
        (?:[ ]?[aApP]\.?[mM]\b\.?|Z|[+-][0-9]{{2}}:[0-9]{{2}})?(?![0-9:])
  | (?<![0-9.])(?P<H2>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?[点时][ ]?
        (?P<M2>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?分(?!钟)
  | (?:(?<=[上下]午)|(?<=晚上)|(?<=早上)|(?<=凌晨)|(?<=中午))[ ]?
        (?P<H3>[0-9]{{1,2}}|[{_C}十]{{1,3}})[ ]?[点时](?P<half>半)?
  | (?<![0-9.:])(?P<H4>[0-9]{{1,2}})[ ]?(?:[aApP]\.?[mM]\b)
  | 百分之(?P<cper>{_CHINESE}|{_DIGITS})
  | (?P<phone>(?<![0-9.])[0-9]{{3,4}}(?:-[0-9]{{3,12}}){{2,8}}(?![0-9]))
  | (?P<word>(?<![A-Za-z0-9_])(?!{_GLUED})(?=[0-9_.:-]{{0,80}}[A-Za-z_])(?=[A-Za-z_.:-]{{0,80}}[0-9])
        [A-Za-z0-9_]+(?:[.:-][A-Za-z0-9_]+)*)
  | (?:(?P<sign>[¥$€£]|(?<![A-Za-z])(?:{_CODES})[ ]?\$?)[ ]?)?(?P<number>{_DIGITS}){_TAIL}
  | (?P<tenths>[{_C}0-9])成(?![功为立员果本交绩长不分人品])
  | \b(?P<english>{_ENGLISH})(?![A-Za-z])(?P<etail>[ -](?:dollar|yuan|euro|cent|pound|degree|per[ ]?cent)\w*)?
        (?P<espan>[ -](?:second|minute|hour|day|week)s?\b)?
  | (?P<chinese>{_CHINESE})(?P<ctail>[ ]?(?:%|人民币|美元|港元|欧元|日元|英镑|元|块|度|倍))?
        (?P<cspan>秒|分钟|个?小时|天)?
    """,
    re.VERBOSE | re.MULTILINE,
)
_SMALL_WORD = 12
_DATES = range(1, 11)
_RANGE = re.compile(r"\s*(?:[-–—~至到]|to|and)\s*")


def figures(text: str) -> list[Figure]:
    """Every figure of a text, in order. Linear in the length of the text."""
    flat = text.translate(_WIDE)
    found = [f for f in map(_figure, _PATTERN.finditer(flat)) if f is not None]
    for i in range(len(found) - 1):
        first, second = found[i], found[i + 1]
        if _RANGE.fullmatch(flat[first.end : second.start]):
            found[i] = _sharing(first, second)
    return found


def _sharing(first: Figure, second: Figure) -> Figure:
    """In a range such as 1.2-1.5万 or 2-3 minutes the first number has the unit of the second."""
    if first.kind is not Kind.NUMBER or first.scale != 1.0 or not second.values:
        return first
    return replace(
        first,
        kind=second.kind,
        unit=second.unit,
        money=first.money or second.money,
        values=tuple(value * second.scale for value in first.values),
        quantum=first.quantum * second.scale,
    )


def _figure(match: re.Match[str]) -> Figure | None:
    group = match.groupdict()
    at = (match[0].strip(), match.start(), match.end())
    if group["numbering"] or group["idiom"]:
        return None
    if group["url"] or group["word"] or group["phone"]:
        return Figure(Kind.IDENTIFIER, *at) if any(c.isdigit() for c in at[0]) else None
    if group["number"]:
        return _number(group, at)
    if group["cper"]:
        return _share(group["cper"], at)
    if group["english"]:
        return _english(group, at)
    if group["tenths"]:
        values = (10 * number_of(group["tenths"])[0],)
        return Figure(Kind.PERCENT, *at, values=values, quantum=10.0)
    if group["chinese"]:
        return _chinese(group, at)
    date = next(_dates(group), None)
    if date is not None:
        return Figure(Kind.DATE, *at, parts=date)
    return Figure(Kind.TIME, *at, parts=_time(group))


def _share(word: str, at: tuple[str, int, int]) -> Figure:
    if word[0].isascii():
        return Figure(Kind.PERCENT, *at, values=_readings(word), quantum=_quantum(word))
    value, quantum = number_of(word)
    return Figure(Kind.PERCENT, *at, values=(value,), quantum=quantum)


def _number(group: dict[str, str], at: tuple[str, int, int]) -> Figure | None:
    digits = group["number"]
    if digits.isdigit() and digits.startswith("0") and len(digits) > 3:
        return Figure(Kind.IDENTIFIER, *at)  # a code such as 000001, not the number one
    word = group["scale"] or (group["sign"] and group["small"])  # $12m, but 12m is a length
    scale = _SCALES[word.strip().lower()] if word else 1.0
    values = tuple(value * scale for value in _readings(digits))
    quantum = _quantum(digits) * scale
    kind, unit = Kind.NUMBER, 1.0
    if group["per"]:
        kind = Kind.PERCENT
    elif group["span"]:
        kind, unit = Kind.DURATION, _seconds(group["span"])
    money = bool((group["sign"] or "").strip() or group["coin"])
    return Figure(kind, *at, values, quantum, unit, scale=scale, money=money)


def _chinese(group: dict[str, str], at: tuple[str, int, int]) -> Figure | None:
    word, tail = group["chinese"], (group["ctail"] or "").strip()
    plain = all(c in CHINESE_DIGITS for c in word)
    # 一些, 两个, 三四天, 十分: words, not figures. With a unit of money they are meant.
    if not tail and (len(word) == 1 or (plain and len(word) == 2)):
        return None
    value, quantum = number_of(word)
    if tail == "%":
        return Figure(Kind.PERCENT, *at, values=(value,), quantum=quantum)
    if group["cspan"]:
        unit = _seconds(group["cspan"])
        return Figure(Kind.DURATION, *at, values=(value,), quantum=quantum, unit=unit)
    return Figure(Kind.NUMBER, *at, values=(value,), quantum=quantum, money=bool(tail))


def _english(group: dict[str, str], at: tuple[str, int, int]) -> Figure | None:
    words, tail = group["english"], (group["etail"] or "").strip(" -")
    value = english_number_of(words)
    if value <= _SMALL_WORD and not tail:
        return None  # one of the two: words, as 两个 is
    if tail.startswith("per"):
        return Figure(Kind.PERCENT, *at, values=(value,))
    if group["espan"]:
        return Figure(Kind.DURATION, *at, values=(value,), unit=_seconds(group["espan"]))
    return Figure(Kind.NUMBER, *at, values=(value,), money=bool(tail))


def _dates(group: dict[str, str]) -> Iterator[tuple[int | None, ...]]:
    for form in _DATES:
        said = tuple(group.get(f"{part}{form}") for part in "ymd")
        if any(said):
            yield tuple(None if word is None else _part(word) for word in said)


def _part(word: str) -> int:
    name = word[:3].lower()
    return _MONTHS.index(name) + 1 if name in _MONTHS else round(number_of(word)[0])


def _time(group: dict[str, str]) -> tuple[int | None, ...]:
    hour = next(group[f"H{form}"] for form in (1, 2, 3, 4) if group[f"H{form}"])
    minute = group["M1"] or group["M2"]
    shown = 30 if group["half"] else round(number_of(minute)[0]) if minute else 0
    # Twelve hours: 下午三点 is 15:00, and a wrong half of the day is no invented value.
    second = int(group["S1"]) if group["S1"] else None
    return (round(number_of(hour)[0]) % 12, shown, second)


def _readings(digits: str) -> tuple[float, ...]:
    """What the digits may mean: 1.234 is read both ways, as is 12,5."""
    readings = [float(digits.replace(",", ""))] if digits.count(".") <= 1 else []
    if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]+)?", digits):
        readings.append(float(digits.replace(".", "").replace(",", ".")))
    elif re.fullmatch(r"[0-9]+,[0-9]{1,2}", digits):
        readings = [float(digits.replace(",", "."))]
    if re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+", digits):
        readings = readings[-1:]
    return tuple(readings)


def _quantum(digits: str) -> float:
    mantissa, _, exponent = digits.lower().partition("e")
    mark = "," if re.fullmatch(r"[0-9.]+,[0-9]{1,2}|[0-9.]+\.[0-9.]*,[0-9]+", mantissa) else "."
    _, point, decimals = mantissa.rpartition(mark)
    quantum = 10.0 ** -len(decimals) if point else 1.0
    return float(quantum * 10.0 ** max(-300, min(300, int(exponent[:5] or 0))))


def _seconds(word: str) -> float:
    name = word.strip(" -").removeprefix("business ").removeprefix("working ").lstrip("个")
    if name.startswith(("ms", "millis")):
        return 0.001
    if name[0].isascii():
        return _SECONDS[name[0].lower()]
    return next(seconds for unit, seconds in _SECONDS.items() if name.startswith(unit))

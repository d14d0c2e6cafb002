"""What stands beside a number in a result tells what it is a number of: a field's name, or a unit.

`{"distance_km": 463.2}` is a distance, `{"growth": 18.3}` may be meant in percent, and of two numbers
whose fields share a word it can be told how much they differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from worker.core.figure import Figure, Kind
from worker.core.measures import UNITS
from worker.core.relations import period_of, roles_of
from worker.core.results import MONEY, PERCENT, PRICE, RECORD

_KEY = re.compile(r'"([^"\\{}\[\]]{1,60})"\s*:\s*"?[-+\u2212¥$€£ ]*$')
_KEY_OF_TEXT = re.compile(r'"([^"\\{}\[\]]{1,60})"\s*:\s*"[^"\\{}\[\],]{0,40}$')
_KEY_OF_LIST = re.compile(r'"([^"\\{}\[\]]{1,60})"\s*:\s*\[[^\[\]{}]*$')
_KEY_CHARS, _LIST_CHARS = 80, 400
_CAMEL = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[\u3400-\u9fff])(?=[A-Za-z])|(?<=[A-Za-z])(?=[\u3400-\u9fff])"
)
_NEXT_WORD = re.compile(r"[ -]?([\u3400-\u9fff]|[A-Za-z]{2,20})")
_NO_UNITS = frozenset("和与及或到至是的在为比,")
_NO_UNITS |= {"and", "or", "to", "in", "is", "of", "at", "on", "for", "the", "was", "are", "from"}

# min is the least, second the one after the first, and an hour may be one of the day.
_NO_UNIT_NAMES = frozenset(
    ["min", "sec", "second", "minute", "hour", "day", "week", "month", "year", "foot"]
)
_UNIT_WORDS = {
    name: unit
    for name, unit in UNITS.items()
    if name not in _NO_UNIT_NAMES and (len(name) > 1 or name in "sglhm")
} | {"c": UNITS["°c"], "f": UNITS["°f"]}
_SCALES = {"wan": 1e4, "yi": 1e8, "k": 1e3, "thousand": 1e3, "thousands": 1e3, "million": 1e6}
_SCALES |= {"millions": 1e6, "billion": 1e9, "cents": 0.01, "fen": 0.01}
_SCALES |= {"musd": 1e6, "meur": 1e6, "mcny": 1e6, "busd": 1e9}
_CHINESE_UNIT = re.compile(
    "(?:"
    + "|".join(
        sorted(
            (
                name
                for name in UNITS
                if not name.isascii() and (len(name) > 1 or name in "米克吨磅")
            ),
            key=len,
            reverse=True,
        )
    )
    + ")$"
)
_CHINESE_SCALE = re.compile(r"[万亿](?=元?$|方$|人$|吨$)")
_HINTS = dict.fromkeys(
    ["duration", "eta", "age", "term", "period", "elapsed", "delay", "wait", "interval", "time"],
    "time",
)
_HINTS |= dict.fromkeys(
    ["distance", "length", "height", "width", "depth", "altitude", "visibility"], "length"
)
_HINTS |= dict.fromkeys(["temp", "temperature", "high", "low", "feels"], "heat")
_HINTS |= {"weight": "mass", "mass": "mass", "speed": "speed", "wind": "speed", "size": "data"}
_HINTS |= {"energy": "energy", "volume": "volume", "capacity": "volume"}
_LASTING_WORDS = (
    "walk drive ride travel running cook prep lead response session length call play "
    "game trip journey flight train class lesson meeting video film match transfer layover talk read screen"
)
_LASTING = frozenset(_LASTING_WORDS.split())
_LEAST_OF = frozenset({"order", "qty", "quantity", "stock", "level", "rating", "count", "grade"})
_GOES_IN = frozenset({"check", "log", "sign", "built", "plug", "move", "opt", "drop", "checked"})
_OVER = frozenset({"dl", "l", "ml", "kg", "m3", "h", "s"})
_FOR_ONE = re.compile(r"[首每第单]$")  # 首小时 8 is a price
_MINUTES = UNITS["minutes"]
_NAMES = frozenset(["id", "no", "code", "number", "phone", "zip", "year", "version", "receipt"])
_OF_NAMES = re.compile(r"(?:[编单期型]号|号码|电话|手机|年份|邮编)$")
_NAMES_A_FIELD = re.compile(r'"\s*:')
_OF_MONEY = re.compile(r"(?:[额价费款钱薪]|(?<!规)格)[万亿]?元?$|元$|^元")
_SHARES = frozenset({"percent", "percentage", "pct"})
_GENERAL = frozenset(
    [
        "value",
        "reference",
        "limit",
        "target",
        "max",
        "min",
        "threshold",
        "goal",
        "total",
        "used",
        "included",
        "free",
        "available",
        "current",
        "previous",
        "before",
        "after",
    ]
)
_RATIOS = frozenset(
    [
        "rate",
        "ratio",
        "growth",
        "change",
        "yoy",
        "mom",
        "humidity",
        "probability",
        "chance",
        "share",
        "battery",
        "margin",
        "discount",
        "usage",
        "load",
        "progress",
        "completion",
        "churn",
        "return",
        "score",
        "yield",
        "cpu",
        "memory",
        "disk",
    ]
)


@dataclass(frozen=True, slots=True)
class Place:
    """What a number is of. `measure` is its dimension and the worth of a unit, if it has one."""

    tags: frozenset[str]
    measure: tuple[str, float] | None
    scale: float = 1.0
    is_share: bool = False
    may_be_share: bool = False
    is_bare: bool = False  # no unit stands beside it
    is_open: bool = False  # it has no unit, nor a name that says what it is a number of
    hint: str | None = None  # the dimension that its name lets one expect
    period: float | None = None  # the seconds for which it is told: use_l_per_hour
    is_name: bool = False  # 第 3 条, the id of a record, a year: told, but not to reckon with


def place_of(figure: Figure, text: str, number: int) -> Place:
    """Read what stands around a figure; `number` is that of the text among those taken."""
    key = _key_of(figure, text)
    words = _words(key) if key else []
    units = _unit_words(figure, text)
    tags = {*words, *units, *(word[-2:] for word in words if not word.isascii())} - _SHARES
    if not _GENERAL.isdisjoint(words):
        tags.add(f"~{number}")  # what it is compared with stands beside it
    tags.add(f"{RECORD}{number}")
    if any(_OF_MONEY.search(word) for word in words):
        tags.add(PRICE)
    is_share = figure.kind is Kind.PERCENT or not _SHARES.isdisjoint(words)
    if is_share:
        tags.add(PERCENT)
    measure = figure.measure or (_unit(words) if key else None)
    is_timed = measure is not None and measure[0] == "time"
    if is_timed:  # bill_days are no money
        tags = {f"{tag}'" if tag in MONEY else tag for tag in tags}
    if measure is not None:
        tags.add(measure[0])
    tags |= set(roles_of(words)) if words else set()
    is_bare = not (is_share or figure.money or figure.measure or is_timed)
    is_open = (
        is_bare
        and not units
        and all(w in _GENERAL or not w.isascii() or w.isdigit() for w in words)
    )
    return Place(
        frozenset(tags),
        measure,
        period=period_of(words) if words else None,
        scale=_scale(words),
        is_share=is_share,
        may_be_share=is_open or (is_bare and not (_RATIOS | _GENERAL).isdisjoint(words)),
        is_bare=is_bare,
        is_open=is_open,
        hint=None if measure else _hint(words),
        is_name=not _NAMES.isdisjoint(words)
        or any(_OF_NAMES.search(word) for word in words)
        or _is_name(figure, text),
    )


def _scale(words: list[str]) -> float:
    """What a name says that its number is to be multiplied with: gross_musd, 总价万."""
    for word in words:
        if word in _SCALES:
            return _SCALES[word]
        found = _CHINESE_SCALE.search(word)
        if found:
            return 1e4 if found[0] == "万" else 1e8
    return 1.0


def _hint(words: list[str]) -> str | None:
    if "per" in words and words[0] in _UNIT_WORDS:
        return _UNIT_WORDS[words[0]][0]  # kwh_per_day
    return next((_HINTS[word] for word in words if word in _HINTS), None)


def _is_name(figure: Figure, text: str) -> bool:
    """Whether it is an ordinal, or itself the name of a field."""
    before = text[max(0, figure.start - 2) : figure.start]
    return before.rstrip().endswith("第") or _NAMES_A_FIELD.match(text, figure.end) is not None


def _key_of(figure: Figure, text: str) -> str | None:
    """The name of the JSON field whose value the figure is, or is one of."""
    before = text[max(0, figure.start - _KEY_CHARS) : figure.start]
    found = _KEY.search(before) or _KEY_OF_TEXT.search(before)
    if found is None and ("," in before[-3:] or "[" in before[-3:]):
        found = _KEY_OF_LIST.search(text[max(0, figure.start - _LIST_CHARS) : figure.start])
    return found[1] if found else None


def _words(name: str) -> list[str]:
    """The words of the name of a field: distance_km and distanceKm are two."""
    return [word.lower() for word in re.split(r"[_\W]+", _CAMEL.sub("_", name)) if word]


def _unit(words: list[str]) -> tuple[str, float] | None:
    """The unit that a field names: minutes_by_car holds minutes, wind_kmh a speed."""
    if "per" in words[1:]:  # pace_s_per_km
        return _UNIT_WORDS.get(words[words.index("per") - 1])
    if words[0] == "per":
        return None
    if words[-1] == "min" and len(words) > 1 and not any(_has_a_least(w) for w in words[:-1]):
        return _MINUTES
    if len(words) > 2 and words[-1] in _OVER and words[-2] in _UNIT_WORDS:
        return _UNIT_WORDS[words[-2]]  # hemoglobin_g_dl
    if words[-1] == "in" and len(words) > 1 and words[-2] not in _GOES_IN:
        return UNITS["inch"]
    chinese = _CHINESE_UNIT.search(words[-1])
    if chinese and (len(words) > 1 or chinese.start() > 0 or len(chinese[0]) > 1):
        is_price = _FOR_ONE.search(words[-1], 0, chinese.start())
        return None if is_price else UNITS[chinese[0]]
    found = [
        _UNIT_WORDS[word]
        for at, word in enumerate(words)
        if word in _UNIT_WORDS and (len(word) > 1 or 0 < at == len(words) - 1)
    ]
    return found[-1] if len({dimension for dimension, _ in found}) == 1 else None


def _has_a_least(word: str) -> bool:
    """Whether a name with this word and "min" tells the least of something, and no minutes."""
    if word in _LASTING:
        return False
    is_measure = _HINTS.get(word, "time") != "time" or word in _UNIT_WORDS
    return is_measure or word in MONEY | _RATIOS | _LEAST_OF


def _unit_words(figure: Figure, text: str) -> list[str]:
    """What stands for the unit of a figure in running text."""
    if figure.measure is not None:
        return [figure.measure[0]]
    if figure.money:
        return [PRICE]
    if figure.text[-1:].isdigit():
        following = _NEXT_WORD.match(text, figure.end)
        word = following[1].lower() if following else ""
        return [word] if word and word not in _NO_UNITS else []
    return [figure.text.lstrip("0123456789.,+- ").lower()]

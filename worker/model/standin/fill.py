"""Arguments for a tool, taken from the question by the tool's schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from worker.core.texts import language_of
from worker.model.standin.choose import ORDER_NUMBER
from worker.model.standin.lexicon import (
    CITIES,
    COMPANIES,
    ENGLISH_CITIES,
    NOT_TICKERS,
    SPELLINGS,
)
from worker.model.standin.salient import find_given, find_quoted, find_salient

CALLS_MAX = 8
TEXT_CHARS_MAX = 300
URL = re.compile(r"https?://[^\s<>\"'，。；！？、）】」]+")
MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
ZONE = re.compile(r"\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?\b|\bUTC\b|\bGMT\b")
TICKER = re.compile(
    r"(?<![A-Za-z0-9.])(?:\d{4}\.HK|\d{6}(?:\.S[SZH])?|[A-Z]{1,5}(?:\.[A-Z]{1,2})?)(?![A-Za-z0-9])"
)
NUMBER = re.compile(r"(?<![A-Za-z0-9.])-?\d+(?:,\d{3})*(?:\.\d+)?(?![A-Za-z0-9]*[A-Za-z])")
MONEY = re.compile(
    r"(?:[¥￥$€£]\s?(\d+(?:\.\d+)?))|(?:(\d+(?:\.\d+)?)\s?(?:元|块|美元|欧元|USD|CNY|EUR))"
)
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


@dataclass(slots=True)
class Filled:
    """Sets of arguments, one for each call to make; or the parameters that nothing was found for."""

    sets: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def fill(function: dict[str, Any], question: str, known: dict[str, Any]) -> Filled:
    """Fill the parameters of a function.

    `known` are values that earlier results told, by name. Where the question names several of
    what the function takes one of, there is a set for each.
    """
    schema = function.get("parameters") or {}
    properties: dict[str, Any] = schema.get("properties") or {}
    required = set(schema.get("required") or ())
    fixed: dict[str, Any] = {}
    many: tuple[str, list[Any]] | None = None
    missing: list[str] = []
    for name, inner in properties.items():
        found = _given(name, inner, question) or _values(name, inner, question, name in required)
        if not found and required == {name} and _is_place(name, inner):
            salient = find_salient(question, function)
            found = [] if salient is None else [salient]
        if not found and name in required and name in known:
            found = _typed([known[name]], inner)
        if len(found) > 1 and many is None and _is_subject(name, inner):
            many = (name, found[:CALLS_MAX])
        elif found:
            fixed[name] = found[0]
        elif name in required:
            missing.append(name)
    if missing:
        return Filled(missing=missing)
    if many is None:
        return Filled([_in_order(fixed, properties)])
    name, values = many
    return Filled([_for_one(fixed, properties, name, value) for value in values])


def _for_one(
    fixed: dict[str, Any], properties: dict[str, Any], name: str, value: Any
) -> dict[str, Any]:
    one = {**fixed, name: value}
    for other, inner in properties.items():
        if other != name and inner.get("enum") and (own := _of_prefix(inner["enum"], str(value))):
            one[other] = own  # an order number that says which region it is from
    return _in_order(one, properties)


def _given(name: str, schema: dict[str, Any], text: str) -> list[Any]:
    value = find_given(name, text)
    if value is None:
        return []
    if schema.get("enum"):
        return [each for each in schema["enum"] if str(each) == value]
    if schema.get("type") not in ("string", "integer", "number"):
        return []
    typed = _typed([value], schema)
    return [each for each in typed if not isinstance(each, str) or _is_allowed(each, schema)]


def _is_place(name: str, schema: dict[str, Any]) -> bool:
    """Whether any word may do: a place may be one that the lexicon does not know."""
    known = _finder(name, schema)
    is_free = schema.get("type") == "string" and not schema.keys() & {"enum", "pattern"}
    return is_free and known is not None and known[0] is _find_cities


def _in_order(values: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in properties if name in values}


def _values(name: str, schema: dict[str, Any], text: str, required: bool) -> list[Any]:
    """Return the values that the text holds for a parameter, best first."""
    if schema.get("enum"):
        return _enum(schema["enum"], text, required)
    if "const" in schema:
        return [schema["const"]]
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return _numbers(name, schema, text)
    if kind == "boolean":
        return [False] if required and "default" not in schema else []
    if kind == "array":
        found = _values(name, schema.get("items") or {}, text, required)
        return [found] if found else []
    if kind == "object":
        return [{}] if required else []
    found = _strings(name, schema, text, required)
    return [value for value in found if _is_allowed(value, schema)]


def _enum(values: list[Any], text: str, required: bool) -> list[Any]:
    said = [
        value
        for value in values
        if re.search(SPELLINGS.get(str(value), rf"\b{re.escape(str(value))}\b"), text, re.I)
    ]
    if said:
        return said[:1]
    number = ORDER_NUMBER.search(text)
    own = _of_prefix(values, number.group()) if number else None
    if own is not None:
        return [own]
    return values[:1] if required and len(values) == 1 else []


def _of_prefix(values: list[Any], text: str) -> Any:
    return next((value for value in values if value and text.startswith(str(value))), None)


def _numbers(name: str, schema: dict[str, Any], text: str) -> list[Any]:
    bare = ORDER_NUMBER.sub(" ", URL.sub(" ", DATE.sub(" ", text)))
    money = [first or second for first, second in MONEY.findall(bare)]
    plain = [found.replace(",", "") for found in NUMBER.findall(bare)]
    found = money or plain if re.search(r"amount|price|money|金额", name, re.I) else plain
    values = _typed(found, schema)
    # Several number parameters (a, b) take the numbers in their order.
    place = ord(name) - ord("a") if len(name) == 1 and "a" <= name <= "e" else 0
    if name in ("y", "second", "right"):
        place = 1
    return values[place : place + 1]


def _typed(values: list[Any], schema: dict[str, Any]) -> list[Any]:
    kind = schema.get("type")
    if kind not in ("integer", "number"):
        return [value if kind != "string" else str(value) for value in values]
    typed: list[Any] = []
    for value in values:
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if number.is_integer():
            typed.append(int(number))
        elif kind == "number":
            typed.append(number)
    return typed


def _is_allowed(value: str, schema: dict[str, Any]) -> bool:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**6):
        return False
    return "pattern" not in schema or re.search(schema["pattern"], value) is not None


# What a parameter is about, by its name, else by its description: the first that matches. Each
# finder returns all it finds; those marked as a subject may be asked about several times at once.
Finder = Callable[[str], list[str]]


def _find_urls(text: str) -> list[str]:
    return _unique(URL.findall(text))


def _find_mails(text: str) -> list[str]:
    return _unique(MAIL.findall(text))


def _find_zones(text: str) -> list[str]:
    return _unique([*ZONE.findall(text), *(zone for zone, _ in _cities(text))])


def _find_cities(text: str) -> list[str]:
    return _unique([name for _, name in _cities(text)])


def _find_orders(text: str) -> list[str]:
    return _unique(ORDER_NUMBER.findall(URL.sub(" ", text)))


def _find_tickers(text: str) -> list[str]:
    lowered = text.lower()
    named = [(lowered.find(name), symbol) for name, symbol in COMPANIES.items() if name in lowered]
    bare = ORDER_NUMBER.sub(lambda found: " " * len(found.group()), text)
    written = [(found.start(), found.group()) for found in TICKER.finditer(bare)]
    return _unique([one for _, one in sorted(named + written) if one not in NOT_TICKERS])


def _find_dates(text: str) -> list[str]:
    return _unique(DATE.findall(text))


FINDERS: tuple[tuple[re.Pattern[str], Finder, bool], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), finder, subject)
    for pattern, finder, subject in (
        (r"url|\blink|\buri|网址|链接", _find_urls, True),
        (r"e?-?mail|邮箱|recipient", _find_mails, False),
        (r"time_?zone|\btz\b|时区|zone", _find_zones, True),
        (r"order.?(?:id|no|number)|订单号", _find_orders, True),
        (r"symbol|ticker|股票|\bstock", _find_tickers, True),
        (r"city|location|place|城市|地点", _find_cities, True),
        (r"\bdate|日期|\bday\b", _find_dates, False),
    )
)


def _finder(name: str, schema: dict[str, Any]) -> tuple[Finder, bool, bool] | None:
    """Return the finder, whether it finds subjects, and whether it was the name that told."""
    for text, by_name in ((name, True), (str(schema.get("description") or ""), False)):
        for pattern, finder, subject in FINDERS:
            if pattern.search(text):
                return finder, subject, by_name
    return None


def _is_subject(name: str, schema: dict[str, Any]) -> bool:
    found = _finder(name, schema)
    return found is not None and found[1]


def _strings(name: str, schema: dict[str, Any], text: str, required: bool) -> list[str]:
    known, quoted = _finder(name, schema), find_quoted(text)
    if known is not None:
        finder, _, by_name = known
        found = finder(text)
        if not found and finder in (_find_cities, _find_orders):
            found = quoted[:1]
        if not found and finder is _find_zones and (required or language_of(text) == "zh"):
            return ["Asia/Shanghai" if language_of(text) == "zh" else "UTC"]
        if found or by_name:
            return found
    if quoted:
        return quoted[:1]
    if not required:
        return []
    if "pattern" in schema:
        return re.findall(r"[\w.-]+", text)
    return [text.strip()[:TEXT_CHARS_MAX]]


def _cities(text: str) -> list[tuple[str, str]]:
    lowered = text.lower()
    found = [(text.find(name), city) for name, city in CITIES.items() if name in text]
    found += [
        (lowered.find(name), city) for name, city in ENGLISH_CITIES.items() if name in lowered
    ]
    return [city for _, city in sorted(found)]


def _unique(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values))

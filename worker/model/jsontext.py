"""Read and write JSON as it occurs between us and a server.

Two readers, because two kinds of text come in. A body or a stream event is read fast and then as
patiently as possible. Arguments decide what runs, so they are read strictly: no value twice under
one key, no NaN, nothing that would not survive being written again.
"""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

MAX_DEPTH = 64  # of arguments; orjson writes at most 254 levels, a journal wraps some around them
INT_MIN, INT_MAX = -(2**63), 2**64 - 1  # what orjson can write without loss


class NotStrict(Exception):
    """The text is JSON in form, but its meaning is not certain; it must not be repaired."""


def decode(data: bytes | str) -> Any:
    """Decode a body or the data of one stream event. Raises ValueError when it is not JSON.

    Lone surrogates may remain in the result (two halves may come in two stream events): scrub what
    is kept.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return _PATIENT.decode(text.strip().lstrip("\ufeff"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encode(value: Any) -> bytes:
    """Encode a value as compact UTF-8 JSON, without lone surrogates.

    Raises ValueError for what has no JSON form: NaN, a circle, nesting beyond the stack.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        text = json.dumps(
            scrub(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return text.encode()


def travels(value: Any) -> bool:
    """Tell whether a value can be sent and stored as it is."""
    try:
        # Wrapped, since a request and a journal put some levels around it.
        orjson.dumps([[[[[[[[value]]]]]]]])
    except TypeError:
        return False
    return True


def scrub(value: Any) -> Any:
    """Replace lone surrogates in all text of a value by U+FFFD; halves that meet become one.

    Costs one encoding when the value is clean, which is nearly always: then it is returned as is.
    """
    try:
        if isinstance(value, str):
            value.encode()
        else:
            orjson.dumps(value)
    except (UnicodeEncodeError, TypeError):
        return _scrub(value)
    return value


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        # UTF-16 is where surrogates live: pairs join there, and what is left alone is an error.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(item) for item in value]
    return value


def depth_exceeds(value: Any, limit: int) -> bool:
    """Tell whether containers nest deeper than `limit`. Needs no stack of its own."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            item
            for box in level
            if isinstance(box, dict | list)
            for item in (box.values() if isinstance(box, dict) else box)
        ]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def read_strictly(text: str) -> Any:
    """Decode one JSON value in which every value counts.

    Raises ValueError when the text is not JSON (raw newlines inside text are let through), and
    NotStrict when it is but says something twice, or something that no JSON can say.
    """
    return _STRICT.decode(text)


def read_first(text: str, start: int = 0) -> tuple[Any, int]:
    """Decode the JSON value that begins at `start` as strictly; return it and where it ends."""
    while start < len(text) and text[start] in " \t\r\n":
        start += 1
    return _STRICT.raw_decode(text, start)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen and not same(seen[key], value):
                raise NotStrict(f"the field {key[:60]!r} appears twice with different values")
            seen[key] = value
    return found


def same(one: Any, other: Any) -> bool:
    """Compare two JSON values; unlike ==, 1, 1.0 and true are three values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _constant(name: str) -> Any:
    raise NotStrict(f"{name} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotStrict(f"the number {text[:40]} is too large")
    return value


def _int(text: str) -> int:
    if len(text) > 20 or not INT_MIN <= int(text) <= INT_MAX:
        raise NotStrict(f"the number {text[:40]} is too large")
    return int(text)


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


# No part of a reply is lost because some number in it has no JSON form: that number is.
_PATIENT = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_float=_finite)
_STRICT = json.JSONDecoder(
    strict=False,
    object_pairs_hook=_object,
    parse_constant=_constant,
    parse_float=_float,
    parse_int=_int,
)

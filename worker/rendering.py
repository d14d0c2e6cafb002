"""Any Python value as text, by what it says of itself; what has no text says that.

Foreign values are hostile by accident: reprs that raise, structures that contain themselves,
numbers with a million digits, half a surrogate pair. Nothing in here raises for any of them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any

import orjson

DEPTH_MAX = 32  # deeper than any result that means something
ITEMS_MAX = 10_000  # per result; beyond that the text would be cut anyway
DIGITS_MAX = 4_000  # Python refuses to print more

_BINARY = "(binary result, {count} bytes, not shown)"
_UNPRINTABLE = "(a value of type {kind} that cannot be shown)"
_TOO_DEEP = "(nested too deep)"
_CYCLE = "(contains itself)"

# Control characters other than tab and newline, and half surrogates: no server wants them.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_META_CHARSET = re.compile(rb"""<meta[^<>]{1,200}charset\s{0,9}=\s{0,9}["']?([\w-]{1,40})""", re.I)
_BOMS = (b"\xff\xfe", b"\xfe\xff")


def rendered(value: Any) -> str:
    """Write a value as text: text as it is, everything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Enum):
        return _safely(lambda: str.__str__(value), value)
    if isinstance(value, bool) or (isinstance(value, float) and type(value) is float):
        return json.dumps(value)
    try:
        # The fast road; orjson refuses everything odd instead of guessing.
        dumped = orjson.dumps(value).decode()
    except (TypeError, ValueError, RecursionError):
        dumped = "null"
    if dumped[0] == '"':  # an enum, a date: text, and text has no quotes around it
        return str(orjson.loads(dumped))
    if "null" not in dumped:  # which may be a NaN, and "no number" is not "nothing"
        return dumped
    plain = _Plain().of(value, 0)
    if isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


class _Plain:
    """Turns anything into JSON values, with a limit on depth and on the number of items."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._items = 0

    def of(self, value: Any, depth: int) -> Any:
        """Return the JSON value that stands for `value`."""
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if kind is str:
            return value
        if kind is int:
            return _number(value)
        if kind is float:
            return value if value - value == 0 else str(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return decoded(bytes(value))
        self._items += 1
        if depth >= DEPTH_MAX or self._items > ITEMS_MAX:
            return _TOO_DEEP if depth >= DEPTH_MAX else "…"
        if id(value) in self._open:
            return _CYCLE
        self._open.add(id(value))
        try:
            return self._container(value, depth + 1)
        except Exception:  # a foreign object whose fields, items or repr raise
            return _UNPRINTABLE.format(kind=kind.__name__)
        finally:
            self._open.discard(id(value))

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.of(value.value, depth)
        if isinstance(value, Mapping):
            pairs = list(value.items())[:ITEMS_MAX]
            return {_key(key): self.of(item, depth) for key, item in pairs}
        if isinstance(value, (list, tuple, Set)):
            return [self.of(item, depth) for item in list(value)[:ITEMS_MAX]]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return {f.name: self.of(getattr(value, f.name), depth) for f in fields}
        if hasattr(type(value), "model_dump"):
            return self.of(value.model_dump(), depth)
        if isinstance(value, (str, int, float)):
            return self.of(_builtin(value), depth)
        if hasattr(value, "isoformat"):
            return str(value.isoformat())
        if _has_no_text(type(value)):
            return _UNPRINTABLE.format(kind=type(value).__name__)  # only an address in memory
        return str(value)


def _has_no_text(kind: type[Any]) -> bool:
    """Say whether str() would only tell an address in memory."""
    return not {kind.__str__, kind.__repr__} - {object.__str__, object.__repr__}


def _builtin(value: Any) -> Any:
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    return value


def _number(value: int) -> int | str:
    """Numbers that Python refuses to print stay a statement of their size."""
    digits = int(value.bit_length() * 0.30103) + 1
    return value if digits <= DIGITS_MAX else f"(a number of about {digits} digits)"


def _key(key: Any) -> str:
    return key if type(key) is str else _safely(lambda: str(key), key)


def _safely(make: Any, value: Any) -> str:
    try:
        made = make()
    except Exception:  # a foreign __str__ or __repr__ may raise anything
        return _UNPRINTABLE.format(kind=type(value).__name__)
    return made if isinstance(made, str) else ""


def cleaned(text: str) -> str:
    """Mend surrogate pairs, replace lone halves, drop control characters, unify line ends."""
    if text.isascii() and text.isprintable():
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)


def decoded(raw: bytes) -> str:
    """Take text as text if it says how it is written; all else is binary and never shown raw."""
    text = own_words(raw)
    if text is None:
        return _BINARY.format(count=len(raw))
    if "\x00" in text or len(_CONTROL.findall(text[:4096])) > len(text[:4096]) // 10:
        return _BINARY.format(count=len(raw))
    return text


def own_words(raw: bytes) -> str | None:
    """Decode by what the bytes say of themselves: a byte order mark, UTF-8, or a page's meta tag.

    None when they say nothing.
    """
    try:
        if raw.startswith(_BOMS):
            return raw.decode("utf-16")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    declared = _META_CHARSET.search(raw[:2048]) if raw.lstrip()[:1] == b"<" else None
    try:
        return raw.decode(declared[1].decode("ascii"), "replace") if declared else None
    except (LookupError, UnicodeError):
        return None

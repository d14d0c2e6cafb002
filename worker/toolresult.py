"""From whatever a tool returned to text that a model can read: non-empty, bounded, honest.

Foreign values are hostile by accident: reprs that raise, structures that contain themselves,
numbers with a million digits, half a surrogate pair. Nothing in here may raise for any of them,
with one exception: an HTTP response that reports an error is an error, not a result.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson
from selectolax.lexbor import LexborHTMLParser

from worker.core.errors import AttemptFailed
from worker.core.texts import RESULT_CUT

NO_OUTPUT = "(no output)"
DEPTH_MAX = 32  # deeper than any result that means something
ITEMS_MAX = 10_000  # per result; beyond that the text would be cut anyway
HTML_CHARS_MAX = 1_000_000  # at worst some 100 ms; what follows would be cut anyway
DIGITS_MAX = 4_000  # Python refuses to print more
EXCERPT_CHARS = 500

_BINARY = "(binary result, {count} bytes, not shown)"
_UNPRINTABLE = "(a value of type {kind} that cannot be shown)"
_TOO_DEEP = "(nested too deep)"
_CYCLE = "(contains itself)"

# Control characters other than tab and newline, and half surrogates: no server wants them.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_HTML_PAGE = re.compile(
    r"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html|head)\b", re.I
)
_HIDDEN = "script, style, noscript, template, svg, iframe, head, nav, [hidden], [aria-hidden=true]"
_BREAK = "\x1e"  # a control character: `_clean` has removed any that were there before
_BLOCK_TAG = re.compile(
    r"(?=</?(?:p|div|section|article|header|footer|main|h[1-6]|li|pre|blockquote|dt|dd|"
    r"figcaption|ul|ol|br|hr|form|option)\b|<table\b)|(?<=</table>)",
    re.I,
)
# Text between cells would be moved out of the table, so the marks of a row go into its cells.
_ROW_END = re.compile(r"(?=</t[dh]\s*>\s*</tr\b)", re.I)
_CELL_END = re.compile(r"(?=</t[dh]\b)", re.I)
_PREFORMATTED = re.compile(r"<pre\b.*?</pre>", re.I | re.S)
_NOTHING = frozenset({"", "[]", "{}", "null", '""'})


@dataclass(frozen=True, slots=True)
class NormalisedResult:
    """Text for the model. `result_bytes` is the size before cutting; `empty` tells that there was
    no information in it, though the tool worked."""

    content: str
    result_bytes: int
    truncated: bool = False
    empty: bool = False


def normalise_result(value: Any, *, max_chars: int, language: str = "en") -> NormalisedResult:
    """Turn a tool's value into text.

    Raises AttemptFailed for a response object (httpx and its like) with a status of 400 or more.
    """
    if _is_response(value):
        value = _body_of(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = _decode(bytes(value))
    text = value if type(value) is str else _render(value)
    text = _clean(text)
    if _HTML_PAGE.match(text):
        text = page_text(text)
    stripped = text.strip()
    size = len(text.encode("utf-8"))
    if stripped in _NOTHING:
        return NormalisedResult(stripped or NO_OUTPUT, size, empty=True)
    if len(text) <= max_chars:
        return NormalisedResult(text, size)
    return NormalisedResult(cut(text, max_chars=max_chars, language=language), size, True)


def cut(text: str, *, max_chars: int, language: str = "en") -> str:
    """Keep the head (three quarters) and the tail, and say between them how much is missing."""
    if len(text) <= max_chars:
        return text
    pattern = RESULT_CUT.get(language, RESULT_CUT["en"])
    room = max_chars - len(pattern.format(count=len(text)))
    if room < 8:  # no room for a marker; a limit this small is only met in tests
        return text[: max(1, max_chars)]
    head = room * 3 // 4
    tail = room - head
    return text[:head] + pattern.format(count=len(text) - room) + text[-tail:]


def page_text(html: str) -> str:
    """Reduce an HTML page to its title and what a reader would see, a line for each block."""
    # Marked in the source and not in the tree: on a page of 2 MB that is ten times as fast.
    html = _PREFORMATTED.sub(lambda m: m[0].replace("\n", _BREAK), html[:HTML_CHARS_MAX])
    html = _CELL_END.sub(" | ", _ROW_END.sub(_BREAK, _BLOCK_TAG.sub(_BREAK, html)))
    tree = LexborHTMLParser(html)
    found = tree.css_first("title")
    title = _one_line(found.text()) if found else ""
    for node in tree.css(_HIDDEN):
        node.decompose()
    root = tree.body or tree.root
    text = root.text() if root is not None else ""
    lines = (_one_line(line).strip("| ") for line in text.split(_BREAK))
    body = "\n".join(filter(None, lines))
    return "\n\n".join(filter(None, (title, body)))


def _one_line(text: str) -> str:
    return " ".join(text.replace(_BREAK, " ").split())


# --- response objects ---------------------------------------------------------------------------


def _is_response(value: Any) -> bool:
    if not type(value).__name__.endswith("Response"):
        return False
    try:
        return isinstance(value.status_code, int) and hasattr(value, "headers")
    except Exception:  # not a response that we know
        return False


def _body_of(response: Any) -> Any:
    """Return the body; an error status is raised so that breaker and retry see it."""
    status = response.status_code
    try:
        content = response.content
    except Exception as error:  # httpx: ResponseNotRead, a stream that nobody read
        raise AttemptFailed(
            f"the response was not read ({type(error).__name__})", retryable=False
        ) from error
    if status >= 400:
        excerpt = cut(_clean(_text_of(content)).strip(), max_chars=EXCERPT_CHARS)
        kind = "http_5xx" if status >= 500 else "http_4xx"
        raise AttemptFailed(
            f"HTTP {status}: {excerpt}" if excerpt else f"HTTP {status}",
            kind="rate_limited" if status == 429 else kind,
            status_code=status,
            retry_after_seconds=_retry_after(response),
        )
    kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
    textual = kind.startswith("text/") or kind.endswith(("json", "xml")) or not kind
    if not textual or not isinstance(content, bytes):
        return content
    try:
        return response.text
    except Exception:  # an encoding that does not exist
        return content


def _text_of(content: Any) -> str:
    if isinstance(content, bytes):
        return _decode(content)
    return content if isinstance(content, str) else ""


def _retry_after(response: Any) -> float | None:
    text = str(response.headers.get("retry-after", "")).strip()
    return float(text) if text.isascii() and text.isdigit() else None


def _decode(raw: bytes) -> str:
    """Take UTF-8 text as text; anything else is binary and never shown raw."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _BINARY.format(count=len(raw))
    if "\x00" in text or len(_CONTROL.findall(text[:4096])) > len(text[:4096]) // 10:
        return _BINARY.format(count=len(raw))
    return text


# --- values -------------------------------------------------------------------------------------


def _render(value: Any) -> str:
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
            return _decode(bytes(value))
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


def _clean(text: str) -> str:
    """Mend surrogate pairs, replace lone halves, drop control characters, unify line ends."""
    if text.isascii() and text.isprintable():
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)

"""From whatever a tool returned to text that a model can read: non-empty, bounded, honest.

Foreign values are hostile by accident: reprs that raise, structures that contain themselves,
numbers with a million digits, half a surrogate pair. Nothing in here may raise for any of them,
with one exception: what reports an error is an error, not a result. That is a response with such
a status, a redirect that nobody followed, and the HTML page of an error or a login, whatever its
status. Any other page is told from data, unless the tool says that it returns pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from worker.core.errors import AttemptFailed
from worker.core.texts import HTML_PAGE, NO_OUTPUT, shortened
from worker.rendering import cleaned, decoded, own_words, rendered
from worker.webpage import HTML_CHARS_MAX, is_page, page_of

EXCERPT_CHARS = 500
PAGES_MAX = 20  # within one result; more are told but not read
TITLE_CHARS = 100

_MAY_HOLD_PAGE = re.compile(r"<(?:!doctype\s|html\b|head\b|body\b|title\b)", re.I)
_NOTHING = frozenset({"", "[]", "{}", "null", '""'})
_SMALL_CHARS = 1000  # of an envelope around nothing
_FOUND = re.compile(
    r"results?|items|data|rows|records|hits|list|documents|docs|matches|entries|结果|数据|列表",
    re.I,
)
_COUNT = re.compile(r"(?:total|count|num|hits|found)(?:_?\w+)?|总数|数量", re.I)
_STATE = re.compile(r"code|status|success|ok|msg|message|errors?", re.I)
_ASKED = re.compile(r"page(?:_?\w+)?|size|limit|offset|query|q", re.I)
_WELL = ("", "ok", "success", "成功", "0", "200", "none", "null", "true")


@dataclass(frozen=True, slots=True)
class NormalisedResult:
    """Text for the model. `result_bytes` is the size before cutting; `empty` tells that there was
    no information in it, though the tool worked."""

    content: str
    result_bytes: int
    truncated: bool = False
    empty: bool = False


def normalise_result(
    value: Any, *, max_chars: int, language: str = "en", pages: bool = False
) -> NormalisedResult:
    """Turn a tool's value into text. `pages`: the tool returns web pages on purpose.

    Raises AttemptFailed for a response object (httpx and its like) with a status of 300 or more,
    and for an HTML page that reports an error or asks for a login.
    """
    is_html = False
    if _is_response(value):
        is_html = _kind_of(value) in ("text/html", "application/xhtml+xml")
        value = _body_of(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = decoded(bytes(value))
    text = value if type(value) is str else rendered(value)
    text = cleaned(text)
    if is_html or is_page(text):
        text = _page_text(text, language) if not pages else page_of(text).text
    elif _MAY_HOLD_PAGE.search(text):
        text = _with_pages_told(text, language)
    stripped = text.strip()
    size = len(text.encode("utf-8"))
    if stripped in _NOTHING or _holds_nothing(stripped):
        return NormalisedResult(stripped or NO_OUTPUT, size, empty=True)
    if len(text) <= max_chars:
        return NormalisedResult(text, size)
    return NormalisedResult(shortened(text, max_chars=max_chars, language=language), size, True)


def _holds_nothing(text: str) -> bool:
    """Tell whether JSON says that nothing was found: an empty list by a usual name, and no more."""
    if text[:1] != "{" or len(text) > _SMALL_CHARS or not ("[]" in text or "null" in text):
        return False
    value = _loaded(text)
    if not isinstance(value, dict):
        return False
    found = [each for name, each in value.items() if _FOUND.fullmatch(name)]
    return any(each is None or each == [] for each in found) and all(
        _says_no_more(name, each) for name, each in value.items()
    )


def _says_no_more(name: str, value: Any) -> bool:
    if value is None or value == [] or value == {}:
        return bool(_FOUND.fullmatch(name) or _STATE.fullmatch(name) or _ASKED.fullmatch(name))
    if isinstance(value, bool):
        return value and bool(_STATE.fullmatch(name))
    if _COUNT.fullmatch(name):
        return bool(value == 0)
    if _STATE.fullmatch(name):
        return value in (0, 200) or str(value).lower() in _WELL
    return bool(_ASKED.fullmatch(name)) and isinstance(value, int | str)


# --- pages --------------------------------------------------------------------------------------


def _page_text(html: str, language: str) -> str:
    """Tell a page from data: an error or a login is raised, JSON in a page's clothes is JSON."""
    page = page_of(html)
    status = page.status
    if status is not None:
        title = page.title or page.body.partition("\n")[0]
        raise AttemptFailed(
            f"an HTML page came instead of data: {title[:TITLE_CHARS]}",
            kind=_failure_kind(status),
            status_code=status,
        )
    if page.raw[:1] in ("{", "[") and _loaded(page.raw) is not None:
        return page.raw
    return _told(page.text, language) if page.text else ""


def _told(text: str, language: str) -> str:
    return HTML_PAGE.get(language, HTML_PAGE["en"]).format(text=text)


def _with_pages_told(text: str, language: str) -> str:
    """Reduce the pages that are values within JSON text."""
    value = _loaded(text) if text.lstrip()[:1] in ("{", "[") else None
    if value is None:
        return text
    told = _Within(language)
    try:
        value = told.of(value)
        return orjson.dumps(value).decode() if told.pages else text
    except (RecursionError, orjson.JSONEncodeError):  # deeper than Python, or than orjson, goes
        return text


def _loaded(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


class _Within:
    """Walks JSON values and reduces the pages among them, for as long as it is worth it."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._chars = 0
        self.pages = 0

    def of(self, value: Any) -> Any:
        """Return the value with its pages reduced."""
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if not isinstance(value, str) or not is_page(value):
            return value
        self.pages += 1
        self._chars += len(value)
        if self.pages > PAGES_MAX or self._chars > HTML_CHARS_MAX:
            return _told("…", self._language)
        return _told(page_of(value).text, self._language)


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
    if status >= 300:
        excerpt = shortened(_excerpt(cleaned(_text_of(content))), max_chars=EXCERPT_CHARS)
        if status < 400:
            excerpt = "a redirect, which is not followed"
        raise AttemptFailed(
            f"HTTP {status}: {excerpt}" if excerpt else f"HTTP {status}",
            kind=_failure_kind(status),
            status_code=status,
            retry_after_seconds=_retry_after(response),
        )
    kind = _kind_of(response)
    textual = kind.startswith("text/") or kind.endswith(("json", "xml")) or not kind
    if not textual or not isinstance(content, bytes):
        return content
    if "charset" not in str(response.headers.get("content-type", "")).lower():
        text = own_words(content)
        if text is not None:
            return text
    try:
        return response.text
    except Exception:  # an encoding that does not exist
        return content


def _failure_kind(status: int) -> str:
    if status == 429:
        return "rate_limited"
    return "http_5xx" if status >= 500 else "http_4xx"


def _kind_of(response: Any) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _excerpt(text: str) -> str:
    return page_of(text).text if is_page(text) else text.strip()


def _text_of(content: Any) -> str:
    if isinstance(content, bytes):
        return decoded(content)
    return content if isinstance(content, str) else ""


def _retry_after(response: Any) -> float | None:
    text = str(response.headers.get("retry-after", "")).strip()
    return float(text) if text.isascii() and text.isdigit() else None

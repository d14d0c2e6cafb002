"""When may we ask again: what a refusal says about it, in headers and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_PART = r"(\d+(?:\.\d+)?)\s*(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h)(?![a-z])"
_DURATION = re.compile(_PART)
_IN_WORDS = re.compile(
    r"(?:try again|retry|wait|retry[- ]?delay['\":]*|retry[- ]?after['\":]*)"
    rf"[^.\d]{{0,30}}?\s['\"]?((?:{_PART}\s*)+)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?\Z")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEAR_SECONDS = 366 * 86_400.0
_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")


def retry_after_seconds(
    status: int, headers: Mapping[str, str], message: str, *, now: float
) -> float | None:
    """Tell how many seconds the server asks us to wait; None when it does not say.

    `headers` answers lower-case names; `now` is the wall clock, for dates. What makes no sense
    (negative, a word, a date in the past) counts as not said. The reset headers and the words are
    read only from a 429: elsewhere they describe a limit that was not reached.
    """
    asked = _header_wait(headers, now)
    if asked is None and status == 429:
        asked = in_words(message)
        if asked is None:
            asked = _reset_wait(headers, now)
    return asked


def in_words(message: str) -> float | None:
    """Find a wait in an error text, as in "Please try again in 1m2.5s"."""
    found = _IN_WORDS.search(message)
    return seconds_of(found.group(1)) if found else None


def seconds_of(text: str) -> float | None:
    """Read a duration: plain seconds, or parts such as 400ms, 1.2s, 6m0s."""
    text = text.strip().lower()
    if _NUMBER.match(text):
        return float(text)
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text).strip():
        return None
    return sum(float(number) * _unit(unit) for number, unit in parts)


def _unit(unit: str) -> float:
    return _UNITS["ms" if unit.startswith(("ms", "mill")) else unit[0]]


def _header_wait(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _plain(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    if given is None:
        return None
    seconds = _plain(given)
    return seconds if seconds is not None else _until(given, now)


def _plain(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if 0 <= value < _YEAR_SECONDS * 100 else None


def _until(text: str, now: float) -> float | None:
    try:
        seconds = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return seconds if 0 <= seconds < _YEAR_SECONDS * 100 else None


def _reset_wait(headers: Mapping[str, str], now: float) -> float | None:
    """The longest wait of the limits that are used up; without counts, the shortest of all."""
    used_up: list[float] = []
    known: list[float] = []
    for prefix in ("x-ratelimit-", "anthropic-ratelimit-"):
        for kind in ("", *_KINDS):
            name = f"reset-{kind}" if kind else "reset"
            wait = _reset(headers.get(prefix + name), now)
            if wait is None:
                continue
            known.append(wait)
            left = headers.get(prefix + (f"remaining-{kind}" if kind else "remaining"))
            if left is not None and left.strip() == "0":
                used_up.append(wait)
    if used_up:
        return max(used_up)
    return min(known) if known else None


def _reset(text: str | None, now: float) -> float | None:
    if text is None:
        return None
    value = seconds_of(text)
    if value is None:
        return None
    if value > 1e11:  # milliseconds since the epoch
        value = value / 1000 - now
    elif value > 1e9:  # seconds since the epoch
        value -= now
    return value if 0 <= value < _YEAR_SECONDS else None

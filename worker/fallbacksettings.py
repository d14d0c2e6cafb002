"""Which models stand in for the first one, and for which causes.

An entry of MODEL_FALLBACKS is the name of a model, then where it is asked, if elsewhere, then the
causes for which it is used, if not the usual ones:

    gpt-4o-mini, qwen-long@https://dashscope.example/v1[context_overflow], spare[error+rate_limit]

What does not fit into a line stands in a section of the entry's name: `[fallbacks.spare]` in the
file, LOOPWORKER_FALLBACKS__SPARE__API_KEY in the environment (letters and digits of the name, the
rest as `_`).
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, Field

from worker.core.causes import CAUSES, USUAL
from worker.core.errors import ConfigError
from worker.section import Key, Line, Seconds, Section, listed
from worker.shownurl import shown_url

_ROUTE = "/chat/completions"
_ACCOUNT = re.compile(r"//[^/]*@")
_AT = re.compile(r"@(?=https?://)")
_CAUSES = re.compile(r"\[([\w+\s]*)\]\Z")
_NOT_IN_A_SLUG = re.compile(r"[^a-z0-9]+")
_LIST, _DETAILS = "LOOPWORKER_MODEL_FALLBACKS", "LOOPWORKER_FALLBACKS__{name}"


def _words(value: Any) -> Any:
    """Accept `error,rate_limit` and `error+rate_limit` as well as a list."""
    return listed(value.replace("+", ",") if isinstance(value, str) else value)


class FallbackSettings(Section):
    """Details of one entry of MODEL_FALLBACKS; what is left out is as for the first model."""

    api_key: Key | None = Field(
        None, description="Its key; API_KEY goes only to the server of MODEL_URL."
    )
    attempts: int | None = Field(None, ge=1, le=20)
    causes: Annotated[tuple[str, ...] | None, BeforeValidator(_words)] = Field(
        None, description="When it is used."
    )
    max_output_tokens: int | None = Field(None, ge=1, le=10_000_000)
    model: Line | None = Field(None, min_length=1, description="Its name at its server.")
    read_timeout: Seconds | None = Field(None, gt=0, le=3600)
    stream: bool | None = None
    timeout: Seconds | None = Field(None, gt=0, le=7200)
    url: Line | None = Field(None, min_length=1, description="Its server; that of MODEL_URL.")


@dataclass(frozen=True, slots=True)
class FallbackModel:
    """One stand-in, read: `name` is how signals call it, `api_key` None for a server without."""

    name: str
    model: str
    url: str
    api_key: str | None = field(repr=False)
    causes: frozenset[str]
    details: FallbackSettings


@dataclass(frozen=True, slots=True)
class First:
    """What the stand-ins inherit from the first model."""

    model: str
    url: str | None
    api_key: str | None = field(repr=False)


def slug(name: str) -> str:
    """The name as the environment can spell it: lower case, letters, digits and `_`."""
    return _NOT_IN_A_SLUG.sub("_", name.lower()).strip("_")


def read_fallbacks(
    entries: Sequence[str], sections: Mapping[str, FallbackSettings], first: First
) -> tuple[FallbackModel, ...]:
    """Read the entries in their order. Raises ConfigError that names the entry and the setting."""
    known = {slug(name): details for name, details in sections.items()}
    read = [_read(entry, known, first) for entry in entries]
    for name in sections:
        if slug(name) not in {slug(_taken_apart(entry)[0]) for entry in entries}:
            raise ConfigError(f"{_details(name)}: no entry of {_LIST} has this name")
    asked = [(first.url, first.model), *((each.url, each.model) for each in read)]
    for at, each in enumerate(asked):
        if each in asked[:at]:
            entry = entries[at - 1]
            raise ConfigError(
                f"{_LIST}: {shown_url(entry)!r} is a model that stands in the chain already"
            )
    return tuple(_told_apart(read))


def _taken_apart(entry: str) -> tuple[str, str | None, list[str] | None]:
    """Split an entry into name, URL and causes."""
    found = _CAUSES.search(entry)
    causes = None if found is None else _words(found[1])
    rest = entry[: found.start()] if found else entry
    name, *url = _AT.split(rest.strip())
    is_torn = any(mark in name for mark in "[]") or name.endswith("@")
    if not name.strip() or is_torn or len(url) > 1:
        raise ConfigError(
            f"{_LIST}: {shown_url(entry)!r} is no entry; write model, model@https://server/v1 or"
            " model[cause+cause]"
        )
    return name.strip(), url[0].strip() if url else None, causes


def _read(entry: str, sections: Mapping[str, FallbackSettings], first: First) -> FallbackModel:
    name, url, causes = _taken_apart(entry)
    details = sections.get(slug(name), FallbackSettings())
    for told, where in ((url, details.url), (causes, details.causes)):
        if told is not None and where is not None:
            raise ConfigError(
                f"{_LIST}: {shown_url(entry)!r} and {_details(name)} say the same thing twice"
            )
    own = url or details.url
    url = own or first.url
    if url is None:
        raise ConfigError(f"{_LIST}: {shown_url(entry)!r} has no server; set LOOPWORKER_MODEL_URL")
    parts = check_url(url, what=f"{_LIST}: {shown_url(entry)!r}")
    if own and (parts.username or parts.password):
        raise ConfigError(f"{_LIST}: put the key into {_details(name)}__API_KEY, not into the URL")
    key = details.api_key.get_secret_value() if details.api_key else None
    if key is None and first.url is not None and _origin(url) == _origin(first.url):
        key = first.api_key  # a key is for the server that it was given for
    wanted = causes if causes is not None else details.causes
    return FallbackModel(name, details.model or name, url, key, _causes(entry, wanted), details)


def _causes(entry: str, words: Iterable[str] | None) -> frozenset[str]:
    if words is None:
        return USUAL
    wanted = frozenset(words)
    for word in sorted(wanted - set(CAUSES)):
        close = difflib.get_close_matches(word, CAUSES, n=1)
        meant = f"; did you mean {close[0]}?" if close else f"; causes: {', '.join(CAUSES)}"
        raise ConfigError(f"{_LIST}: {shown_url(entry)!r}: no such cause: {word}{meant}")
    if not wanted:
        raise ConfigError(
            f"{_LIST}: {shown_url(entry)!r} names no cause; causes: {', '.join(CAUSES)}"
        )
    return wanted


def http_parts(url: str) -> SplitResult | None:
    """Take a URL apart at which an HTTP server can be; None for any other text."""
    with contextlib.suppress(ValueError):  # a bracket that nothing closes, a port that is none
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    return None


def check_url(url: str, *, what: str) -> SplitResult:
    """Take the URL of a model server apart. Raises ConfigError that says what is no such URL."""
    parts = http_parts(url)
    if parts is not None:
        if parts.path.rstrip("/").endswith(_ROUTE):
            raise ConfigError(f"{what}: leave {_ROUTE} out; it is put after the base URL")
        return parts
    shown = _ACCOUNT.sub("//", url)[:80]  # without a password
    raise ConfigError(f"{what}: {shown!r} is not an http(s) URL such as https://api.openai.com/v1")


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()


def _details(name: str) -> str:
    return _DETAILS.format(name=slug(name).upper() or "NAME")


def _told_apart(models: list[FallbackModel]) -> Iterable[FallbackModel]:
    """Give each a name of its own: where two servers have the same model, with the host."""
    names = [each.name for each in models]
    for each in models:
        if names.count(each.name) > 1:
            each = replace(each, name=f"{each.name}@{urlsplit(each.url).netloc}")
        yield each

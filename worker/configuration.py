"""Find the settings, say where each came from, and refuse what is wrong in plain words."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from worker.checks import check
from worker.core.errors import ConfigError
from worker.fallbacksettings import slug
from worker.section import Section
from worker.settingnames import (
    NAMED,
    PREFIX,
    can_be_unset,
    explain,
    place_of_named,
    places,
    variable_of,
)
from worker.settings import Settings
from worker.shownurl import HIDDEN, shown_url

# Read by the shipped example tools: not settings of the worker itself.
TOOL_VARIABLES = {
    "LOOPWORKER_ORDERS_DB": "SQLite file of get_order_detail and submit_refund.",
    "LOOPWORKER_QUOTE_URL": "What get_stock_price asks; without it, it gives its stub.",
    "LOOPWORKER_QUOTE_URL_2": "What get_stock_price asks when the first has failed.",
    "LOOPWORKER_RENDER_URL": "The service of render_report; without it, it gives its stub.",
}
OTHER_NAMES = frozenset({"LOOPWORKER_CONFIG", *TOOL_VARIABLES})
_FALLBACKS = {"model_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY", "model": "OPENAI_MODEL"}
FILE_BYTES_MAX = 1_048_576
_DEPTH_MAX = 8  # deeper than any section, and than a file may make us go
_SECRET_FLAG = re.compile(
    r"(--?[\w-]*(?:key|token|secret|password|auth)[\w-]*=?)(.*)", re.IGNORECASE | re.DOTALL
)
_TOO_CLOSE = 0.85  # similarity above which an unknown name is taken for a typing error


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective setting, for people. `source`: default, environment NAME, or file PATH.

    `unit` is `s` for seconds, else empty.
    """

    name: str
    value: Any
    source: str
    default: Any
    description: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, where each came from, and the LOOPWORKER_ names that mean nothing here."""

    settings: Settings
    sources: Mapping[tuple[str, ...], str]
    ignored: tuple[str, ...] = ()


def load(environ: Mapping[str, str] | None = None, *, file: Path | None = None) -> Loaded:
    """Read settings from the environment and the file. Raises ConfigError naming the setting."""
    environ = os.environ if environ is None else environ
    sources: dict[tuple[str, ...], str] = {}
    values = _read_file(environ, file, sources)
    ignored = _read_environment(environ, values, sources)
    for name, variable in _FALLBACKS.items():
        if (name,) not in sources and environ.get(variable):
            values[name] = environ[variable]
            sources[(name,)] = f"environment {variable}"
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error, sources)) from None
    check(settings)
    return Loaded(settings, sources, ignored)


def effective(loaded: Loaded) -> Iterator[Setting]:
    """Tell every setting with its value, source and default; secrets are masked."""
    yield from _walk(loaded.settings, Settings(), (), loaded.sources)


def tool_variables(environ: Mapping[str, str] | None = None) -> Iterator[Setting]:
    """Tell the variables that the example tools read by themselves, in the form of settings."""
    environ = os.environ if environ is None else environ
    for name, description in TOOL_VARIABLES.items():
        source = f"environment {name}" if environ.get(name) else "default"
        yield Setting(name, masked(environ.get(name) or None), source, None, description)


@contextlib.contextmanager
def named(setting: str) -> Iterator[None]:
    """Let an error say which setting it is about; adapters are told no names of settings."""
    try:
        yield
    except ConfigError as error:
        text, full = str(error), f"{PREFIX}{setting}"
        if full in text:
            raise
        raise type(error)(f"{full}: {text.removeprefix(f'{setting}: ')}") from error


def _read_file(
    environ: Mapping[str, str], file: Path | None, sources: dict[tuple[str, ...], str]
) -> dict[str, Any]:
    asked = environ.get("LOOPWORKER_CONFIG")
    named = file or (Path(asked) if asked else None)
    path = named or Path("loopworker.toml")
    # A folder there, or a link to nothing, is a mistake: containers make the one of a missing file.
    if named is None and not os.path.lexists(path):
        return {}
    try:
        with path.open("rb") as opened:
            raw = opened.read(FILE_BYTES_MAX + 1)
        if len(raw) > FILE_BYTES_MAX:
            raise ConfigError(f"{path}: more than {FILE_BYTES_MAX} bytes; is it the right file?")
        values = tomllib.loads(raw.decode("utf-8-sig"))  # some editors begin with a mark
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from error
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply for a file of settings") from None
    _spell_names(values)
    for place in _leaves(values, ()):
        sources[place] = f"file {path}"
    return values


def _spell_names(values: dict[str, Any]) -> None:
    """Spell the names of fallbacks as the environment does, so that both add to one section."""
    named = values.get("fallbacks")
    if not isinstance(named, dict):
        return
    values["fallbacks"] = {slug(name): section for name, section in named.items()}
    if len(values["fallbacks"]) < len(named):
        raise ConfigError("fallbacks: two sections have the same name but for its punctuation")


def _leaves(values: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, dict) and len(place) < _DEPTH_MAX:
            yield from _leaves(value, (*place, name))
        else:
            yield (*place, name)


def _read_environment(
    environ: Mapping[str, str], values: dict[str, Any], sources: dict[tuple[str, ...], str]
) -> tuple[str, ...]:
    known = {variable_of(place): place for place in places()}
    ignored = []
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in OTHER_NAMES:
            continue
        place = known.get(variable) or place_of_named(variable)
        if place is None:
            _refuse_typing_error(variable, known)
            ignored.append(variable)
            continue
        # An empty variable means "not set": compose files cannot leave one out.
        _put(values, place, None if text == "" and can_be_unset(place) else text, sources)
        sources[place] = f"environment {variable}"
    return tuple(ignored)


def _refuse_typing_error(variable: str, known: Mapping[str, tuple[str, ...]]) -> None:
    # Platforms put names of their own beside ours (LOOPWORKER_PORT of a Kubernetes service), so an
    # unknown name alone is no error. One that almost is a setting surely is.
    close = difflib.get_close_matches(variable, [*known, *OTHER_NAMES], n=1, cutoff=_TOO_CLOSE)
    if close:
        raise ConfigError(f"{variable}: no such setting; did you mean {close[0]}?")


def _put(
    values: dict[str, Any],
    place: tuple[str, ...],
    value: Any,
    sources: Mapping[tuple[str, ...], str],
) -> None:
    for depth, name in enumerate(place[:-1], 1):
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            section = ".".join(place[:depth])
            raise ConfigError(
                f"{variable_of(place[:depth])} ({sources[place[:depth]]}): is a section; write"
                f" [{section}] in the file, its settings below"
            )
        values = inner
    values[place[-1]] = value


def _walk(
    model: BaseModel,
    default: BaseModel,
    place: tuple[str, ...],
    sources: Mapping[tuple[str, ...], str],
) -> Iterator[Setting]:
    for name, info in type(model).model_fields.items():
        value, usual = getattr(model, name), getattr(default, name, None)
        here = (*place, name)
        if isinstance(value, Section):
            yield from _walk(value, usual or type(value)(), here, sources)
        elif name in NAMED:
            for key, entry in value.items():
                yield from _walk(entry, type(entry)(), (*here, key), sources)
        else:
            yield Setting(
                variable_of(here),
                masked(value),
                sources.get(here) or _source_within(here, sources),
                masked(usual),
                info.description or "",
                "s" if "_seconds" in f"{info.annotation}{info.metadata}" else "",
            )


def _source_within(place: tuple[str, ...], sources: Mapping[tuple[str, ...], str]) -> str:
    """Where a table came from of which only entries were named."""
    return next((s for p, s in sources.items() if p[: len(place)] == place), "default")


def masked(value: Any) -> Any:
    """The value as it may be shown: secrets, and passwords within URLs, are hidden."""
    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, str):
        return shown_url(value)
    if isinstance(value, dict):
        return {key: masked(entry) for key, entry in value.items()}
    return list(_masked_words(value)) if isinstance(value, tuple) else value


def _masked_words(words: tuple[Any, ...]) -> Iterator[Any]:
    """Hide what follows `--token` or stands behind `--token=`, as programs are given secrets."""
    follows = False
    for word in words:
        flag = _SECRET_FLAG.match(word) if isinstance(word, str) else None
        if follows:
            yield HIDDEN
        elif flag:
            yield flag[1] + (HIDDEN if flag[2] else "")
        else:
            yield masked(word)
        follows = not follows and flag is not None and not flag[1].endswith("=")

"""Find the settings, say where each came from, and refuse what is wrong in plain words."""

from __future__ import annotations

import contextlib
import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from worker.checks import check
from worker.core.errors import ConfigError
from worker.guardsettings import GuardOverride
from worker.handoffsettings import HandoffRule
from worker.section import Section
from worker.settings import Settings

PREFIX = "LOOPWORKER_"
# Read by the shipped example tools: not settings of the worker itself.
TOOL_VARIABLES = {
    "LOOPWORKER_ORDERS_DB": "SQLite file of get_order_detail and submit_refund.",
    "LOOPWORKER_QUOTE_URL": "What get_stock_price asks; without it, it gives its stub.",
    "LOOPWORKER_QUOTE_URL_2": "What get_stock_price asks when the first has failed.",
}
OTHER_NAMES = frozenset({"LOOPWORKER_CONFIG", *TOOL_VARIABLES})
_FALLBACKS = {"model_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY", "model": "OPENAI_MODEL"}
# Sections of sections: LOOPWORKER_GUARDS__QUOTE__FAIL_MAX.
_NAMED: Mapping[str, type[Section]] = {"guards": GuardOverride, "handoff": HandoffRule}
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
        raise ConfigError(_explain(error, sources)) from None
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
    named = file or (Path(environ["LOOPWORKER_CONFIG"]) if "LOOPWORKER_CONFIG" in environ else None)
    path = named or Path("loopworker.toml")
    if named is None and not path.is_file():
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from error
    for place in _leaves(values, ()):
        sources[place] = f"file {path}"
    return values


def _leaves(values: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*place, name))
        else:
            yield (*place, name)


def _read_environment(
    environ: Mapping[str, str], values: dict[str, Any], sources: dict[tuple[str, ...], str]
) -> tuple[str, ...]:
    known = {_variable(place): place for place in _places(Settings, ())}
    ignored = []
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in OTHER_NAMES:
            continue
        place = known.get(variable) or _named_place(variable)
        if place is None:
            _refuse_typing_error(variable, known)
            ignored.append(variable)
            continue
        _put(values, place, _from_text(place, text))
        sources[place] = f"environment {variable}"
    return tuple(ignored)


def _refuse_typing_error(variable: str, known: Mapping[str, tuple[str, ...]]) -> None:
    # Platforms put names of their own beside ours (LOOPWORKER_PORT of a Kubernetes service), so an
    # unknown name alone is no error. One that almost is a setting surely is.
    close = difflib.get_close_matches(variable, [*known, *OTHER_NAMES], n=1, cutoff=_TOO_CLOSE)
    if close:
        raise ConfigError(f"{variable}: no such setting; did you mean {close[0]}?")


def _named_place(variable: str) -> tuple[str, ...] | None:
    parts = variable.removeprefix(PREFIX).lower().split("__")
    return tuple(parts) if len(parts) == 3 and parts[0] in _NAMED else None


def _places(model: type[BaseModel], place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield from _places(info.annotation, (*place, name))
        elif name not in _NAMED:
            yield (*place, name)


def _variable(place: tuple[str, ...]) -> str:
    return PREFIX + "__".join(place).upper()


def _from_text(place: tuple[str, ...], text: str) -> Any:
    if place in _LISTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    # An empty variable means "not set": compose files cannot leave one out.
    return None if text == "" and place in _NONE_ALLOWED else text


_LISTS = {
    ("loop", "pollers"),
    ("model_fallbacks",),
    ("outbound", "allow_hosts"),
    ("outbound", "trace_hosts"),
}
_NONE_ALLOWED = {
    ("api_key",),
    ("http_token",),
    ("max_output_tokens",),
    ("model",),
    ("model_url",),
    ("store_url",),
    ("system_prompt",),
    ("guard", "limit"),
    ("guard", "queue_max"),
    ("loop", "cost_max"),
    ("loop", "tokens_max"),
    ("worker", "loop_stuck_seconds"),
}


def _put(values: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for name in place[:-1]:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{name}: is a section, and the file gives it a value")
        values = inner
    values[place[-1]] = value


def _explain(error: ValidationError, sources: Mapping[tuple[str, ...], str]) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        place = tuple(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            where = next((s for p, s in sources.items() if p[: len(place)] == place), "")
            where = f" ({where})" if where.startswith("file") else ""
            lines.append(f"{_variable(place)}{where}: no such setting{_meant(place)}")
            continue
        source = sources.get(place, "")
        where = f" ({source})" if source.startswith("file") else ""
        secret = isinstance(problem.get("input"), SecretStr) or place[-1] in ("api_key",)
        shown = "" if secret or problem["type"] == "missing" else f", got {problem['input']!r:.80}"
        wanted = _wanted(place)
        wrong = f"must be {wanted}" if wanted else problem["msg"].removeprefix("Value error, ")
        lines.append(f"{_variable(place)}{where}: {wrong}{shown}")
    return "\n".join(lines)


def _meant(place: tuple[str, ...]) -> str:
    """Guess which setting a wrong name was meant to be."""
    if place[0] in _NAMED and len(place) == 3:
        known = {_variable((*place[:2], name)) for name in _NAMED[place[0]].model_fields}
    else:
        known = {_variable(each) for each in _places(Settings, ())}
        known |= {_variable(each[:-1]) for each in _places(Settings, ()) if len(each) > 1}
    close = difflib.get_close_matches(_variable(place), sorted(known), n=1)
    return f"; did you mean {close[0]}?" if close else " (loopworker config lists them)"


def _wanted(place: tuple[str, ...]) -> str | None:
    """Say in plain words what a setting takes; None where that is left to pydantic."""
    field = _field(place)
    kind = str(field.annotation) if field is not None else ""
    if field is None or "tuple" in kind or ("str" in kind.lower() and "Literal" not in kind):
        return None
    for choice in (field.annotation, *get_args(field.annotation)):  # or a choice or None
        if get_origin(choice) is Literal:
            return "one of " + ", ".join(map(str, get_args(choice)))
    if "bool" in kind:
        return "true or false"
    whole = "float" not in kind
    seconds = "_seconds" in f"{kind}{field.metadata}"
    noun = "a whole number" if whole else "a time (90, 90s, 1.5m, 2h)" if seconds else "a number"
    return noun + _between(field.metadata, "s" if seconds else "")


def _between(bounds: list[Any], unit: str) -> str:
    low = next((f"from {b.ge:g}" for b in bounds if hasattr(b, "ge")), None)
    low = low or next((f"above {b.gt:g}" for b in bounds if hasattr(b, "gt")), None)
    high = next((f"to {b.le}" for b in bounds if hasattr(b, "le")), None)
    if low is None:
        return ""
    joined = low if high is None else f"{low} {'' if low.startswith('from') else 'and up '}{high}"
    return f" {joined} {unit}".rstrip()


def _field(place: tuple[str, ...]) -> FieldInfo | None:
    if place[0] in _NAMED:
        return _NAMED[place[0]].model_fields.get(place[-1]) if len(place) == 3 else None
    model: type[BaseModel] = Settings
    for name in place[:-1]:
        inner = model.model_fields[name].annotation if name in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return None
        model = inner
    field = model.model_fields.get(place[-1])
    is_section = field is not None and isinstance(field.default_factory, type)
    return None if is_section else field


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
        elif isinstance(value, dict):
            for key, entry in value.items():
                yield from _walk(entry, type(entry)(), (*here, key), sources)
        else:
            yield Setting(
                _variable(here),
                masked(value),
                sources.get(here, "default"),
                masked(usual),
                info.description or "",
                "s" if "_seconds" in f"{info.annotation}{info.metadata}" else "",
            )


def masked(value: Any) -> Any:
    """The value as it may be shown: secrets, and passwords within URLs, are hidden."""
    if isinstance(value, SecretStr):
        return "********"
    if isinstance(value, str) and "://" in value and "@" in value:
        scheme, _, rest = value.partition("://")
        account, _, host = rest.rpartition("@")
        return f"{scheme}://{account.partition(':')[0]}:********@{host}"
    return list(value) if isinstance(value, tuple) else value

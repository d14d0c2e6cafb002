"""How settings are called, and what is said of one that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from worker.fallbacksettings import FallbackSettings
from worker.guardsettings import GuardOverride
from worker.handoffsettings import HandoffRule
from worker.mcpsettings import McpServerSettings
from worker.section import Section
from worker.settings import Settings

PREFIX = "LOOPWORKER_"
# Groups whose sections have names of their own.
NAMED: Mapping[str, type[Section]] = {
    "fallbacks": FallbackSettings,
    "guards": GuardOverride,
    "handoff": HandoffRule,
    "mcp": McpServerSettings,
}
# Tables in those, and how the end of a variable is spelt there: LOOPWORKER_MCP__GIT__ENV__TOKEN.
_TABLES: Mapping[tuple[str, str], Callable[[str], str]] = {
    ("mcp", "env"): str,
    ("mcp", "headers"): lambda name: name.replace("_", "-"),
}
_KEY = "[key]"  # how pydantic marks that the name of a section is wrong, not its contents
_NAMES = "write a letter, then at most 31 letters, digits, - and _"
_NAME_CHARS_MAX = 80  # of one that somebody made up
_PLAIN = {  # what pydantic says of these is about Python
    "dict_type": "is a group of sections; write [GROUP.NAME] in the file, its settings below",
    "model_type": "is a section; write [SECTION] in the file, its settings below",
    "string_too_short": "must not be empty",
    "string_type": "must be a text",
    "tuple_type": "must be a list of texts",
}


def places() -> Iterator[tuple[str, ...]]:
    """The place of every setting but those in sections that have names."""
    yield from _places_in(Settings, ())


def _places_in(model: type[BaseModel], place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield from _places_in(info.annotation, (*place, name))
        elif name not in NAMED:
            yield (*place, name)


def variable_of(place: tuple[str, ...]) -> str:
    """Name the environment variable of a setting."""
    return PREFIX + "__".join(place).upper()


def place_of_named(variable: str) -> tuple[str, ...] | None:
    """The place of a variable in a group whose sections have names: LOOPWORKER_GUARDS__QUOTE__…"""
    spelt = variable.removeprefix(PREFIX).split("__", maxsplit=3)
    parts = tuple(part.lower() for part in spelt[:3])
    if len(parts) < 3 or parts[0] not in NAMED:
        return None
    if len(spelt) == 3:
        return parts
    spell = _TABLES.get((parts[0], parts[2]))
    return (*parts, spell(spelt[3])) if spell is not None else None


def can_be_unset(place: tuple[str, ...]) -> bool:
    """Whether a setting may have no value at all."""
    field = _field(place)
    return field is not None and type(None) in get_args(field.annotation)


def is_secret(place: tuple[str, ...]) -> bool:
    """Whether the value of a setting is shown to nobody, not even where it is wrong."""
    field = next((f for n in range(len(place), 0, -1) if (f := _field(place[:n]))), None)
    return field is not None and "Secret" in str(field.annotation)


def explain(error: ValidationError, sources: Mapping[tuple[str, ...], str]) -> str:
    """Say what is wrong with each setting, one line each; values of secrets are not shown."""
    lines = []
    for problem in error.errors(include_url=False):
        place = tuple(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            where = next((s for p, s in sources.items() if p[: len(place)] == place), "")
            where = f" ({where})" if where.startswith("file") else ""
            lines.append(f"{variable_of(place)}{where}: no such setting{_meant(place)}")
            continue
        if place[-1] == _KEY:
            lines.append(f"{_shortened(place[:-1])}: is no name; {_NAMES}")
            continue
        source = sources.get(place, "")
        where = f" ({source})" if source.startswith("file") else ""
        secret = is_secret(place)
        shown = "" if secret or problem["type"] == "missing" else f", got {problem['input']!r:.80}"
        wanted = _wanted(place)
        plain = _PLAIN.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
        wrong = f"must be {wanted}" if wanted else plain
        shown = "" if wrong.startswith(repr(problem["input"])) else shown
        lines.append(f"{variable_of(place)}{where}: {wrong}{shown}")
    return "\n".join(lines)


def _shortened(place: tuple[str, ...]) -> str:
    name = variable_of(place)
    return name if len(name) <= _NAME_CHARS_MAX else f"{name[:_NAME_CHARS_MAX]}…"


def _meant(place: tuple[str, ...]) -> str:
    """Guess which setting a wrong name was meant to be."""
    if place[0] in NAMED and len(place) == 3:
        known = {variable_of((*place[:2], name)) for name in NAMED[place[0]].model_fields}
    else:
        known = {variable_of(each) for each in places()}
        known |= {variable_of(each[:-1]) for each in places() if len(each) > 1}
    close = difflib.get_close_matches(variable_of(place), sorted(known), n=1)
    return f"; did you mean {close[0]}?" if close else " (loopworker config lists them)"


def _wanted(place: tuple[str, ...]) -> str | None:
    """Say in plain words what a setting takes; None where that is left to pydantic."""
    field = _field(place)
    kind = str(field.annotation) if field is not None else ""
    if (
        field is None
        or "tuple" in kind
        or "dict" in kind
        or ("str" in kind.lower() and "Literal" not in kind)
    ):
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
    if place[0] in NAMED:
        return NAMED[place[0]].model_fields.get(place[-1]) if len(place) == 3 else None
    model: type[BaseModel] = Settings
    for name in place[:-1]:
        inner = model.model_fields[name].annotation if name in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return None
        model = inner
    field = model.model_fields.get(place[-1])
    is_section = field is not None and isinstance(field.default_factory, type)
    return None if is_section else field

"""Writes down what others build upon: `python -m tests.surface.listing` renews the lists.

One file for each surface. They change on purpose only: in the commit that changes the surface.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.surface import gapstable, settingstable

FOLDER = Path(__file__).parent


def public_api() -> Iterator[str]:
    """What `from worker import …` gives: signatures, fields, public methods."""
    import worker

    for name in sorted(worker.__all__):
        yield from described(f"worker.{name}", getattr(worker, name))


def ports() -> Iterator[str]:
    """What an engine of queues or stores has to offer."""
    from worker.queues import port as queues
    from worker.store import port as store

    for module in (queues, store):
        found = inspect.getmembers(module, inspect.isclass)
        for name, value in found:
            if value.__module__ == module.__name__:
                yield from described(f"{module.__name__}.{name}", value)


def signals() -> Iterator[str]:
    """Every signal that a listener may be told, with its fields."""
    from worker.telemetry import signals as vocabulary

    found = inspect.getmembers(vocabulary, dataclasses.is_dataclass)
    for name, value in sorted(found, key=lambda pair: pair[1].__module__):
        yield f"{name}({', '.join(fields_of(value))})"


def settings() -> Iterator[str]:
    """Every setting under its name: type, bounds, default, and what it is for."""
    from worker.settings import Settings

    yield from sorted(schema_lines(Settings.model_json_schema()))


def schema_lines(schema: dict[str, Any]) -> Iterator[str]:
    """The fields of every section."""
    sections = {"": schema, **schema.get("$defs", {})}
    for section, described_by in sections.items():
        for name, field in described_by.get("properties", {}).items():
            about = field.get("description", "")
            rest = {k: v for k, v in field.items() if k not in ("description", "title")}
            yield f"{section or 'Settings'}.{name} {rest} {about}"


def commands() -> Iterator[str]:
    """What each command takes, and what its help teaches; the layout is left to Python."""
    from worker.cli import COMMANDS, OVERVIEW

    yield OVERVIEW
    for name, command in COMMANDS.items():
        module = importlib.import_module(f"worker.cli.{command.module}")
        parser = argparse.ArgumentParser(prog=name, add_help=False)
        getattr(module, f"configure_{name}")(parser)
        yield f"== {name} · {command.group} · {command.summary}\n{parser.description}"
        for action in parser._actions:
            spelled = "|".join(action.option_strings) or action.dest
            more = {
                "metavar": action.metavar,
                "nargs": action.nargs,
                "choices": action.choices and list(action.choices),
                "default": action.default,
            }
            told = " ".join(f"{key}={value}" for key, value in more.items() if value is not None)
            yield f"  {spelled} {told} · {action.help or ''}".rstrip()
        yield f"{parser.epilog or ''}\n"


def routes() -> Iterator[str]:
    """The routes of the API and the pages of the admin listener."""
    from tests.web.house import House
    from worker.web import admin
    from worker.web.api import routes_of

    for route in routes_of(House().parts):
        yield f"api {','.join(sorted(route.methods - {'HEAD'}))} {route.path}"
    for path in sorted(admin.PAGES):
        yield f"admin GET {path}"


SURFACES: dict[str, Callable[[], Iterator[str]]] = {
    "command_line": commands,
    "http_routes": routes,
    "ports": ports,
    "public_api": public_api,
    "settings": settings,
    "signals": signals,
}


def described(name: str, value: Any) -> Iterator[str]:
    """A class with its fields and public methods, or a function with its signature."""
    if not inspect.isclass(value):
        yield f"{name}{signature_of(value)}"
        return
    parents = ", ".join(parent.__name__ for parent in value.__bases__ if parent is not object)
    yield f"class {name}({parents})"
    if dataclasses.is_dataclass(value):
        yield from (f"  {field}" for field in fields_of(value))
    elif "__init__" in vars(value):
        yield f"  __init__{signature_of(value.__init__)}"
    for method, function in sorted(vars(value).items()):
        if method.startswith("_"):
            continue
        if isinstance(function, property):
            yield f"  {method}: property"
        elif inspect.isfunction(function):
            word = "async " if inspect.iscoroutinefunction(function) else ""
            yield f"  {word}{method}{signature_of(function)}"


def fields_of(value: Any) -> list[str]:
    """The fields of a dataclass with their types and defaults."""
    lines = []
    for field in dataclasses.fields(value):
        default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
        if field.default_factory is not dataclasses.MISSING:
            default = f" = {field.default_factory.__name__}()"
        lines.append(f"{field.name}: {field.type}{default}")
    return lines


def signature_of(function: Any) -> str:
    """The signature as it is written."""
    return str(inspect.signature(function)).replace("'", "")


def text_of_surface(name: str) -> str:
    """The list of one surface as it stands in the code."""
    return re.sub(r"<function (.+?) at 0x\w+>", r"\1", "\n".join(SURFACES[name]()) + "\n")


def main() -> None:
    """Write every list anew."""
    for name in SURFACES:
        (FOLDER / f"{name}.txt").write_text(text_of_surface(name), "utf-8")
    settingstable.PAGE.write_text(settingstable.page(), "utf-8")
    gapstable.PAGE.write_text(gapstable.page(), "utf-8")


if __name__ == "__main__":
    main()

"""Find the tools: packages, folders, files and entry points, every one of them or a clear error."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import logging
import os
import pkgutil
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from worker.core.errors import ConfigError
from worker.registry import Registry, Tool
from worker.toolkit.rules import FunctionRule

ENTRY_POINTS = "loopworker.tools"
SETTING = "LOOPWORKER_TOOLS"
_WANTED = (Tool, FunctionRule)
SLOW_SECONDS = 10.0  # an import that takes longer is told of: it may never end


def load_registry(where: str | Iterable[str] = "tools", *, entry_points: bool = True) -> Registry:
    """Load every tool and hand-off rule of the places named, and of packages that offer some.

    `where` is the setting: packages, folders or files, separated by commas or the path separator.
    Raises ConfigError, without a traceback, for a place that does not exist, a file that cannot be
    imported (with file, line and cause) and two tools of one name.
    """
    registry = Registry()
    for place in split_places(where) if isinstance(where, str) else where:
        for module in modules_of(place):
            for found in tools_in(module):
                registry.add(found)
    if entry_points:
        for found in _entry_point_tools():
            registry.add(found)
    return registry


def bare_places(where: str) -> list[str]:
    """Name the places of the setting that hold no tool: most often an `@tool` is missing there."""
    return [
        place
        for place in split_places(where)
        if not any(True for module in modules_of(place) for _ in tools_in(module))
    ]


def unmet_needs(registry: Registry) -> Iterator[tuple[str, str]]:
    """Yield tool and variable where a file's `NEEDS` lists an environment variable not set."""
    for tool in registry:
        module = sys.modules.get(tool.function.__module__)
        for name in getattr(module, "NEEDS", ()):
            if not os.environ.get(name):
                yield tool.name, name


def split_places(text: str) -> list[str]:
    """Split the setting; a path that exists as a whole, or a URL by mistake, is never split."""
    places: list[str] = []
    for part in text.split(","):
        part = part.strip()
        if os.path.exists(part) or "://" in part:
            places.append(part)
        else:
            places += [piece.strip() for piece in part.split(os.pathsep)]
    return list(dict.fromkeys(filter(None, places)))


def modules_of(place: str) -> Iterator[ModuleType]:
    """Import the modules of a package, folder or file; names that begin with `_` are skipped."""
    path = Path(place).expanduser()
    if path.is_file():
        yield _import_file(path.resolve())
    elif path.is_dir() and not _is_package_folder(place, path):
        yield from _import_folder(path.resolve())
    elif re.fullmatch(r"\w+(\.\w+)*", place) and _find_spec(place):
        yield from _walk(_import(place, place))
    else:
        raise ConfigError(f"{SETTING}: {place!r} is no file, no folder and no package")


def tools_in(module: ModuleType) -> Iterator[Tool | FunctionRule]:
    """Yield the tools and rules of a module: its own names, and those in a list called TOOLS."""
    file = getattr(module, "__file__", None) or module.__name__
    for value in list(vars(module).values()):
        if _is_wanted(value):
            yield value
    listed = getattr(module, "TOOLS", ())
    if not isinstance(listed, (list, tuple)):
        raise ConfigError(f"{file}: TOOLS must be a list of tools, not {type(listed).__name__}")
    for number, value in enumerate(listed):
        if not _is_wanted(value):
            raise ConfigError(f"{file}: TOOLS[{number}] is no tool; is its @tool missing?")
        yield value


def _is_wanted(value: Any) -> bool:
    # By its type: `isinstance` asks foreign objects for their class, and proxies may raise at that.
    return issubclass(type(value), _WANTED)


# --- importing ----------------------------------------------------------------------------------


def _is_package_folder(place: str, path: Path) -> bool:
    """Say whether the folder is the package of that name, which must be imported only once."""
    if not place.isidentifier():
        return False
    spec = _find_spec(place)
    homes = spec.submodule_search_locations if spec else None
    return any(Path(home).resolve() == path.resolve() for home in homes or ())


def _find_spec(name: str) -> Any:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):  # the parent is missing, or is no package
        return None


def _import_file(path: Path) -> ModuleType:
    return _load(f"{_folder_module(path.parent).__name__}.{path.stem}", path)


def _import_folder(folder: Path) -> Iterator[ModuleType]:
    package = _folder_module(folder)
    init = folder / "__init__.py"
    if init.exists() and not getattr(package, "__file__", None):
        _load(package.__name__, init, package=folder)
    yield from _walk(sys.modules[package.__name__])


def _folder_module(folder: Path) -> ModuleType:
    """Give the folder a package of its own, so that its files can import one another (`from .`)."""
    digest = importlib.util.source_hash(os.fsencode(folder)).hex()
    name = f"loopworker_tools_{digest}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return sys.modules[name]


def _walk(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    if not hasattr(package, "__path__"):
        return
    for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda item: item.name):
        if found.name.startswith("_"):
            continue
        name = f"{package.__name__}.{found.name}"
        spec = found.module_finder.find_spec(name)  # type: ignore[call-arg]
        module = _import(name, spec.origin if spec and spec.origin else name)
        yield from _walk(module) if found.ispkg else (module,)


def _load(name: str, path: Path, *, package: Path | None = None) -> ModuleType:
    """Import a file under a name; the same file is imported once."""
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    homes = [str(package)] if package else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=homes)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{SETTING}: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _clear_errors(str(path)):
            spec.loader.exec_module(module)
    except ConfigError:
        sys.modules.pop(name, None)
        raise
    return module


def _import(name: str, file: str) -> ModuleType:
    with _clear_errors(file):
        return importlib.import_module(name)


@contextlib.contextmanager
def _clear_errors(file: str) -> Iterator[None]:
    """Turn whatever an import raises into a ConfigError with file, line and cause.

    What the file prints goes to stderr: stdout belongs to answers, JSON and log lines.
    """
    try:
        with _watched(file), _staying(), contextlib.redirect_stdout(sys.stderr):
            yield
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # All of them: a tool file that calls sys.exit() must not end the worker in silence.
        cause = f"{type(error).__name__}: {_text_of(error)}".removesuffix(": ")
        raise ConfigError(f"{_place_of(error, file)}: cannot be imported: {cause}") from error


@contextlib.contextmanager
def _watched(file: str) -> Iterator[None]:
    """Tell of an import that does not end; nothing can end it from here."""
    told = f"{file}: still being imported after {SLOW_SECONDS:g} s; what does it do at import?"
    timer = threading.Timer(SLOW_SECONDS, logging.getLogger("loopworker").warning, [told])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _staying() -> Iterator[None]:
    """Come back to the working folder: `sqlite:///file.db` must mean one file to every command."""
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        here = ""
    try:
        yield
    finally:
        if here:
            os.chdir(here)


def _text_of(error: BaseException) -> str:
    """The first line of what it says; the traceback module stands a `__str__` that raises."""
    if isinstance(error, SyntaxError):
        return str(error).partition("\n")[0]
    said = "".join(traceback.format_exception_only(error)).partition(": ")[2]
    return said.strip().partition("\n")[0]


def _place_of(error: BaseException, file: str) -> str:
    """Find the line to look at: of a syntax error its own, else the deepest in the file."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file]
    foreign = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    for frame in reversed(own or foreign[-1:]):
        return f"{frame.filename}:{frame.lineno}"
    return file


def _entry_point_tools() -> Iterator[Tool | FunctionRule]:
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        with _clear_errors(f"entry point {entry.name} = {entry.value}"):
            value = entry.load()
        if isinstance(value, ModuleType):
            for module in _walk(value):
                yield from tools_in(module)
            continue
        for found in value if isinstance(value, (list, tuple)) else [value]:
            if not _is_wanted(found):
                raise ConfigError(f"entry point {entry.name} = {entry.value}: is no tool")
            yield found

"""The repository as the tidy tests see it: files, syntax trees, imports."""

from __future__ import annotations

import ast
import functools
import gc
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("worker", "tools")

# A room may be more than one file: these modules live in the room of their neighbour.
ROOM_OF = {
    "assembly": "app",
    "checks": "settings",
    "configuration": "settings",
    "endpoints": "app",
    "observability": "app",
    "settingnames": "settings",
}


@functools.cache
def repository_files() -> tuple[Path, ...]:
    """Return every file that is tracked or would be: relative paths, in order."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # a source archive, or no git here
        paths = {
            path.relative_to(ROOT)
            for path in ROOT.rglob("*")
            if path.is_file() and not is_by_product(path.relative_to(ROOT))
        }
    else:
        names = {name for name in listed.decode().split("\0") if name}
        paths = {Path(name) for name in names if (ROOT / name).is_file()}
    return tuple(sorted(paths))


def is_by_product(path: Path) -> bool:
    """Say whether a file was made by tools: environments, caches, bytecode."""
    hidden = [part for part in path.parts if part.startswith(".") and part != ".ci"]
    return bool(hidden[:1] and hidden[0] not in (".gitignore", ".dockerignore")) or (
        "__pycache__" in path.parts
    )


def python_files(*folders: str) -> list[Path]:
    """Return the Python files below the given top-level folders; all of them without any."""
    return [
        path
        for path in repository_files()
        if path.suffix == ".py" and (not folders or path.parts[0] in folders)
    ]


@functools.cache
def text_of(path: Path) -> str:
    """Return a file's text; bytes that are not UTF-8 are replaced."""
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return a file's syntax tree.

    The collector rests meanwhile: to look for garbage among new nodes takes longer than to parse.
    """
    gc.disable()
    try:
        return ast.parse(text_of(path), filename=str(path))
    finally:
        gc.enable()


def part_of(path: Path) -> str:
    """Return the room a file belongs to: a package of worker, a module beside them, or `tools`."""
    if path.parts[0] != "worker":
        return path.parts[0]
    name = path.parts[1] if len(path.parts) > 2 else path.stem
    return ROOM_OF.get(name, name)


def module_of(path: Path) -> str:
    """Return a file's dotted name."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True, kw_only=True)
class Import:
    """One imported name: where, what, and whether importing the file alone would follow it."""

    path: Path
    line: int
    name: str
    at_start: bool

    def __str__(self) -> str:
        """Show the place as an editor would open it."""
        return f"{self.path}:{self.line}: imports {self.name}"


def imports_of(path: Path) -> list[Import]:
    """Return all imports of a file: absolute, relative, lazy, and for type checkers only."""
    return list(_imports(path, tree_of(path).body, at_start=True))


def _imports(path: Path, body: list[ast.stmt], *, at_start: bool) -> Iterator[Import]:
    for node in body:
        for name in _names(path, node):
            yield Import(path=path, line=node.lineno, name=name, at_start=at_start)
        lazy = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or _is_for_types(node)
        yield from _imports(path, _statements_in(node), at_start=at_start and not lazy)


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree: to walk it takes longer than to look at them."""
    return tuple(ast.walk(tree_of(path)))


def forget() -> None:
    """Let the trees go: a million nodes would slow the collector down for all that comes after."""
    for kept in (text_of, tree_of, nodes_of, functions_of):
        kept.cache_clear()


def _statements_in(node: ast.AST) -> list[ast.stmt]:
    """Return the statements directly below a node; below expressions there are none."""
    found: list[ast.stmt] = []
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        found += block if isinstance(block, list) else []  # a lambda's body is an expression
    for name in ("handlers", "cases"):
        found += [inner for block in getattr(node, name, ()) for inner in block.body]
    return found


def _names(path: Path, node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        package = path.parent.parts[: len(path.parent.parts) - node.level + 1]
        base = ".".join((*package, *([node.module] if node.module else [])))
    return [f"{base}.{alias.name}" for alias in node.names]


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function or method, nested ones included."""

    path: Path
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: str

    @property
    def name(self) -> str:
        """Return the name with its class."""
        return f"{self.owner}.{self.node.name}" if self.owner else self.node.name

    @property
    def length(self) -> int:
        """Count the lines from `def` to the last one, docstring included."""
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1


@functools.cache
def functions_of(path: Path) -> tuple[Function, ...]:
    """Return all functions of a file, however deep."""
    return tuple(_functions(path, tree_of(path), ""))


def _functions(path: Path, parent: ast.AST, owner: str) -> Iterator[Function]:
    for node in _statements_in(parent):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Function(path=path, node=node, owner=owner)
            yield from _functions(path, node, node.name)
        else:
            yield from _functions(
                path, node, node.name if isinstance(node, ast.ClassDef) else owner
            )

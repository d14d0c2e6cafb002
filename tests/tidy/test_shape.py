"""Lengths, charters, docstrings and names."""

from __future__ import annotations

import ast
import statistics
import sys
from pathlib import Path

from tests.tidy.sources import (
    PACKAGES,
    functions_of,
    nodes_of,
    part_of,
    python_files,
    text_of,
    tree_of,
)

FUNCTION_LINES_MAX = 60
FUNCTION_LINES_P90_MAX = 30
FILE_LINES_MAX = 400

# Words that name no thing, and so collect everything.
VAGUE_NAMES = {"base", "common", "helpers", "manager", "misc", "util", "utils"}


def all_functions():
    """Every function of the repository; not at import, which every process of a test run does."""
    return [function for path in python_files() for function in functions_of(path)]


def test_functions_are_short():
    """A function fits a screen."""
    long = [
        f"{function.path}:{function.node.lineno}: {function.name} has {function.length} lines"
        for function in all_functions()
        if function.length > FUNCTION_LINES_MAX
    ]

    assert long == []


def test_most_functions_are_very_short():
    """Nine in ten functions of the worker stay under half a screen."""
    lengths = [
        function.length for function in all_functions() if function.path.parts[0] in PACKAGES
    ]
    ninth = statistics.quantiles(lengths, n=10)[-1] if len(lengths) > 10 else 0

    assert ninth <= FUNCTION_LINES_P90_MAX


def test_files_are_short():
    """A file is read in one sitting."""
    lengths = {path: len(text_of(path).splitlines()) for path in python_files()}
    long = [f"{path}: {count} lines" for path, count in lengths.items() if count > FILE_LINES_MAX]

    assert long == []


def test_every_module_has_a_charter():
    """The first sentence of a file says what it is for, and ends."""
    without = [
        str(path)
        for path in python_files()
        if not (ast.get_docstring(tree_of(path)) or "")
        .split("\n\n")[0]
        .rstrip()
        .endswith((".", ":", "?"))
    ]

    assert without == []


def test_public_things_have_docstrings():
    """What a reader may call or inherit says what its signature cannot."""
    contract = protocol_methods()
    without = [
        f"{path}:{node.lineno}: {node.name}"
        for path in python_files(*PACKAGES)
        for node in public_things(path, contract)
        if not ast.get_docstring(node)
    ]

    assert without == []


def test_every_test_says_what_it_expects():
    """The name of a test is the situation, its docstring the expectation."""
    without = [
        f"{function.path}:{function.node.lineno}: {function.name}"
        for function in all_functions()
        if function.path.parts[0] == "tests"
        and function.path.name.startswith("test_")
        and function.node.name.startswith("test_")
        and not ast.get_docstring(function.node)
    ]

    assert without == []


def test_no_folder_of_ours_shadows_the_standard_library():
    """A folder on the import path hides no standard module from a file run beside it."""
    names = {
        part
        for path in python_files(*PACKAGES, "tests", "deploy", "dashboards")
        for part in path.parts[:-1]
    }

    assert names & set(sys.stdlib_module_names) == set()


def test_no_test_file_shadows_the_standard_library():
    """Test files and scripts, which are run by path, keep clear of standard names."""
    shadows = [
        str(path)
        for path in python_files("tests", "tools", "scripts", "deploy")
        if path.stem in sys.stdlib_module_names and path.stem != "__init__"
    ]

    assert shadows == []


def test_no_module_has_a_vague_name():
    """A module is named after the one thing in it."""
    vague = [str(path) for path in python_files(*PACKAGES) if path.stem in VAGUE_NAMES]

    assert vague == []


def test_tests_are_no_package():
    """Below tests there is no __init__.py: files are imported by their path."""
    inits = [str(path) for path in python_files("tests") if path.name == "__init__.py"]

    assert inits == []


def protocol_methods() -> set[str]:
    """Return the methods of our ports: an adapter's own need no second docstring."""
    return {
        method.name
        for path in python_files("worker")
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
        and any("Protocol" in ast.unparse(base) for base in node.bases)
        for method in node.body
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def public_things(path: Path, contract: set[str]) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the public functions, classes and methods of a file that owe a docstring."""
    found = []
    for node in tree_of(path).body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if node.name.startswith("_") or is_overload(node):
            continue
        found.append(node)
        if isinstance(node, ast.ClassDef):
            is_port = any("Protocol" in ast.unparse(base) for base in node.bases)
            found += [
                method
                for method in node.body
                if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
                and not method.name.startswith("_")
                and not is_overload(method)
                and (is_port or method.name not in contract)
            ]
    return [node for node in found if part_of(path) != "tools" or not is_private_file(path)]


def is_private_file(path: Path) -> bool:
    """Say whether a tool file is hidden from discovery."""
    return path.stem.startswith("_") and path.stem != "__init__"


def is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Say whether this only repeats a signature, or sets what a property already explains."""
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    return any(mark.endswith(("overload", ".setter", ".deleter")) for mark in marks)

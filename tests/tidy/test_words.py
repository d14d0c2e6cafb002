"""Calls, phrases and places that do not belong in the repository."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.sources import PACKAGES, nodes_of, python_files, repository_files, text_of

# The borders where anything may arrive. Each says what would be lost without it.
MAY_CATCH_ALL = {
    "worker/mcp/connection.py": "a server may fail in any way, and is tried again",
    # A tool's attempt: code, callbacks and values that others wrote.
    "worker/guard/fallback.py": "an alternative, or a store of last values, may raise anything",
    "worker/guard/guard.py": "the attempt itself",
    "worker/guard/threads.py": "the attempt of a sync tool, in its thread",
    "worker/guard/verdict.py": "a user's classifier, or an error whose attributes raise",
    "worker/rendering.py": "a foreign value may raise anything when it is looked at",
    "worker/running/handoffs.py": "a rule of a tool file may raise anything",
    "worker/running/observe.py": "a tool's error whose text raises costs one call, not the run",
    "worker/sqlitefile.py": "what a caller's transaction raises is that caller's answer",
    "worker/toolresult.py": "a foreign response may raise anything when it is looked at",
    # A telemetry listener: it can never hurt the caller.
    "worker/telemetry/lines.py": "a foreign value whose text raises costs no log line",
    "worker/telemetry/metrics.py": "a reader that raises; the other values are worth a scrape",
    "worker/telemetry/tracing.py": "an exporter may raise anything at shutdown, too",
    "worker/telemetry/outbox.py": "an exporter may raise anything; its thread lives on",
    "worker/telemetry/redact.py": "a foreign repr may do anything",
    "worker/telemetry/tell.py": "a listener may raise anything",
    "worker/web/faults.py": "a route that raises costs one request and prints no traceback",
    "worker/web/admin.py": "a collector that raises must not look like a dead worker",
    # Consumer work: one broken task must not stop the others.
    "worker/consuming/consumer.py": "the others go on",
    "worker/consuming/delivery.py": "a bug costs one delivery",
    "worker/consuming/housekeeping.py": "a row that nobody can read: tasks are worked at without it",
    # The end of the process.
    "worker/cli/__init__.py": "a person reads one line and an exit code, not a traceback",
}

# Where even a BaseException ends. Nobody's cancellation can arrive there.
MAY_SWALLOW_ALL = {
    "worker/discovery.py": "a tool file may raise anything at import; no task has begun",
    "worker/guard/threads.py": "a thread's work answers to its future, whatever a driver raises",
}

# Joined from halves, so that this file does not contain what it forbids.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
MACHINE_PATH = re.compile(
    r"(?<![\w.$}])/("
    + "|".join(("wo" + "rk/", "ro" + "ot/", "ho" + "me/", "opt/whe" + "els"))
    + ")"
)
REGISTRY_HOST = re.compile(
    "|".join(
        re.escape(left + right)
        for left, right in (
            ("pypi", ".org"),
            ("pythonhosted", ".org"),
            ("deb.debian", ".org"),
            ("security.debian", ".org"),
            ("registry.npmjs", ".org"),
            ("registry.yarnpkg", ".com"),
        )
    )
)


def test_nothing_is_spawned_and_forgotten():
    """Every awaited thing belongs to somebody who waits for it."""
    spawned = [
        f"{path}:{node.lineno}"
        for path in python_files(*PACKAGES)
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("ensure_future")
    ]

    assert spawned == []


def test_no_cancel_is_lost_in_a_wait():
    """Before Python 3.12 this call swallows a cancel that comes together with its result."""
    waits = [
        f"{path}:{node.lineno}"
        for path in python_files(*PACKAGES)
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.wait_for"
    ]

    assert waits == []


def test_cancellation_always_passes():
    """A handler that would catch a cancellation hands it on: its last word is a bare raise."""
    greedy = [
        f"{path}:{handler.lineno}"
        for path in python_files(*PACKAGES)
        for handler in handlers(path)
        if (handler.type is None or "BaseException" in names_in(handler.type))
        and not hands_on(handler)
        and str(path) not in MAY_SWALLOW_ALL
    ]

    assert greedy == []


def test_everything_is_caught_only_at_named_borders():
    """`except Exception` stands only where foreign code may raise anything."""
    elsewhere = [
        f"{path}:{handler.lineno}"
        for path in python_files(*PACKAGES)
        for handler in handlers(path)
        if handler.type is not None
        and "Exception" in names_in(handler.type)
        and not hands_on(handler)
        and str(path) not in MAY_CATCH_ALL
    ]

    assert elsewhere == []


def test_every_border_still_exists():
    """The list of borders names no file that is gone or catches less today."""
    stale = [
        name
        for name in MAY_CATCH_ALL
        if Path(name) in repository_files()
        and not any("Exception" in names_in(found.type) for found in handlers(Path(name)))
    ]

    stale += [
        name
        for name in MAY_SWALLOW_ALL
        if Path(name) in repository_files()
        and not any("BaseException" in names_in(found.type) for found in handlers(Path(name)))
    ]

    assert stale == []


def test_nothing_is_left_for_later():
    """Work that is not done is an issue, not a comment."""
    assert lines_with(UNFINISHED) == []


def test_no_path_of_one_machine():
    """No file depends on, or tells of, the machine it was written on."""
    assert lines_with(MACHINE_PATH) == []


def test_no_registry_is_named():
    """Where packages come from is the machine's business: its mirror must be able to serve us."""
    assert lines_with(REGISTRY_HOST) == []


def handlers(path: Path) -> list[ast.ExceptHandler]:
    """Return the exception handlers of a file."""
    return [node for node in nodes_of(path) if isinstance(node, ast.ExceptHandler)]


def hands_on(handler: ast.ExceptHandler) -> bool:
    """Say whether whatever the handler caught goes on its way afterwards."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def names_in(node: ast.expr | None) -> set[str]:
    """Return the exception names that a handler lists."""
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)} if node else set()


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Return the lines of the repository's text files that match."""
    found = []
    for path in repository_files():
        if path.suffix in (".png", ".db", ".gz", ".zip") or path.name == "LICENSE":
            continue
        if pattern.search(text_of(path)) is None:  # as nearly always, and no line is looked at
            continue
        for number, line in enumerate(text_of(path).splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{path}:{number}: {line.strip()[:100]}")
    return found

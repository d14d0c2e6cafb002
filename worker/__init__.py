"""The public API, and nothing else."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.app import Worker
    from worker.core.errors import NotConfigured, ToolError
    from worker.core.task import Result, Task
    from worker.registry import tool
    from worker.settings import Settings
    from worker.toolcontext import ToolContext
    from worker.toolkit.job import Job
    from worker.toolkit.rules import handoff_rule

__all__ = [
    "Job",
    "NotConfigured",
    "Result",
    "Settings",
    "Task",
    "ToolContext",
    "ToolError",
    "Worker",
    "handoff_rule",
    "tool",
]

# Loaded on first use: a tool file that wants `tool` must not pay for the whole worker.
_HOMES = {
    "Job": "worker.toolkit.job",
    "NotConfigured": "worker.core.errors",
    "Result": "worker.core.task",
    "Settings": "worker.settings",
    "Task": "worker.core.task",
    "ToolContext": "worker.toolcontext",
    "ToolError": "worker.core.errors",
    "Worker": "worker.app",
    "handoff_rule": "worker.toolkit.rules",
    "tool": "worker.registry",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home the first time somebody asks for it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'worker' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what a user may import."""
    return sorted({*globals(), *__all__})

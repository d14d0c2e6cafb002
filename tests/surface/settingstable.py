"""Writes docs/settings.md, what every setting is for; `python -m tests.surface.listing` renews it."""

from __future__ import annotations

from pathlib import Path

from worker.configuration import Setting, effective, load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
HEAD = """\
# Settings

Each is an environment variable, or a line in `loopworker.toml`: `LOOPWORKER_CONCURRENCY` is `concurrency = 32` there, and
`LOOPWORKER_GUARD__TIMEOUT_SECONDS` is `timeout_seconds = 3` under `[guard]`. Times are seconds; 90s, 1.5m and 2h are read as well.
`loopworker config` prints what holds now and where it came from; `loopworker doctor` checks it.

What stands under `GUARD` holds for every dependency, and may be set for one: `LOOPWORKER_GUARDS__QUOTE__FAIL_MAX=3`.
"""


def page() -> str:
    """The page: a table for each group."""
    groups: dict[str, list[str]] = {}
    for setting in effective(load({})):
        group, is_nested, _ = setting.name.removeprefix("LOOPWORKER_").partition("__")
        groups.setdefault(group if is_nested else "", []).append(_row(setting))
    parts = [HEAD]
    for group, rows in sorted(groups.items()):
        title = f"## `{group}`" if group else "## The worker, its model and its tools"
        parts.append(
            "\n".join([title, "", "| setting | default | what it is |", "|---|---|---|", *rows, ""])
        )
    return "\n".join(parts)


def _row(setting: Setting) -> str:
    told = setting.description.replace("|", "\\|")
    return f"| `{setting.name}` | {_default(setting)} | {told} |"


def _default(setting: Setting) -> str:
    value = setting.default
    if value is None or value in ([], "", {}):
        return ""
    if isinstance(value, list):
        value = ",".join(map(str, value))
    text = f"{value:g} {setting.unit}".rstrip() if isinstance(value, float) else str(value)
    return f"`{text}`"

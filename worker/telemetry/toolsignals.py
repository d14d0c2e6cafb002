"""Signals about what the author of a tool file has to mend; import them from `signals.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolUndeclared:
    """A tool smells of writing and does not say so; it runs as a write until it does."""

    tool_name: str
    line_to_add: str


@dataclass(frozen=True, slots=True)
class StateDropped:
    """What a call left in the state of its sequential group could not be kept."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class RuleBroken:
    """A hand-off rule of a tool file raised, or took too long; the run goes on without it.

    `source` is what it was to look at: answer, or tool:NAME.
    """

    rule: str
    source: str
    error_type: str  # the class of what it raised
    error: str


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """An MCP server can be asked (`ready`), or not (`away`, with the reason)."""

    server: str
    state: str
    reason: str
    about: str  # what the server calls itself
    tools: int


@dataclass(frozen=True, slots=True)
class ToolLeftOut:
    """A tool that an MCP server lists is not offered."""

    server: str
    tool_name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServerSaid:
    """A line of an MCP server on its standard error, or on its output where it is no message."""

    server: str
    stream: str  # stderr or stdout
    line: str

"""MCP servers for commands: connected while a command looks, and gone afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from worker.cli.exits import UNREACHABLE, USAGE
from worker.cli.finding import Finding
from worker.cli.output import one_line, print_table, tell

if TYPE_CHECKING:
    from worker.mcp.servers import ServerState
    from worker.registry import Registry
    from worker.settings import Settings

_WORDS_CHARS_MAX = 300
PATIENCE_SECONDS = 1000.0  # each server's CONNECT_SECONDS end the waiting before


@contextlib.asynccontextmanager
async def connected(
    settings: Settings, registry: Registry, *, only: Iterable[str] | None = None
) -> AsyncIterator[list[ServerState]]:
    """Have the tools of the servers, or of `only` those, in the registry while the block runs.

    Each server has its CONNECT_SECONDS to list its tools. Raises ConfigError where the SDK is missing.
    Cancelled: connections are closed, processes ended.
    """
    if not settings.mcp:
        yield []
        return
    from worker.mcp.servers import McpServers
    from worker.observability import own_version, redactor_of

    masked = partial(redactor_of(settings).text, limit=_WORDS_CHARS_MAX)
    servers = McpServers(
        settings,
        registry,
        tell=lambda _: None,
        version=own_version(),
        only=only,
    )
    try:
        await servers.start(wait_seconds=PATIENCE_SECONDS)
        yield [replace(one, last_words=masked(one.last_words)) for one in servers.states()]
    finally:
        await servers.close()


def servers_of(settings: Settings, tool: str) -> list[str]:
    """The server that a tool's name belongs to, if any."""
    server = tool.partition(".")[0]
    return [server] if "." in tool and server in settings.mcp else []


def look(settings: Settings, registry: Registry, *, only: Iterable[str]) -> list[ServerState]:
    """Connect, put what the servers list into the registry, and leave them again."""

    async def seen() -> list[ServerState]:
        async with connected(settings, registry, only=only) as states:
            return states

    return asyncio.run(seen()) if settings.mcp else []


def print_servers(states: Iterable[ServerState]) -> None:
    """Print a table of the servers."""
    rows = [(s.name, s.state, str(len(s.tools)), s.about or "-") for s in states]
    print()
    print_table(("MCP SERVER", "STATE", "TOOLS", "ABOUT"), rows)


def tell_troubles(states: Iterable[ServerState]) -> None:
    """Say on stderr which servers are away, and what is left out of the others."""
    for state in states:
        if state.state != "ready":
            tell(f"loopworker: MCP server {state.name} is away: {_why_away(state)}")
        for name, reason in state.left_out:
            tell(f"loopworker: {state.name}.{one_line(f'{name} is left out: {reason}')}")


async def check_servers(settings: Settings) -> list[Finding]:
    """One finding for each server, for `doctor`."""
    from worker.core.errors import ConfigError
    from worker.registry import Registry

    if not settings.mcp:
        return []
    try:
        async with connected(settings, Registry()) as states:
            return [_finding(state) for state in states]
    except ConfigError as error:
        return [Finding("mcp", str(error), USAGE)]


def _finding(state: ServerState) -> Finding:
    if state.state != "ready":
        return Finding("mcp", f"{state.name}: {_why_away(state)}", UNREACHABLE)
    names = ", ".join(name.partition(".")[2] for name in state.tools) or "none"
    text = f"{state.name}: {state.about}, {len(state.tools)} tools: {names}"
    if state.left_out:
        out = "; ".join(f"{name}: {reason}" for name, reason in state.left_out[:5])
        text += f"; {len(state.left_out)} left out ({out})"
    return Finding("mcp", text)


def _why_away(state: ServerState) -> str:
    """The reason, and what a program has said itself, which a closed connection does not tell."""
    said = f"; it said: {state.last_words}" if state.last_words else ""
    return one_line(f"{state.reason}{said}")

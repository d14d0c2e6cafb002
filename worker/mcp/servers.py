"""All MCP servers of a worker: started with it, their tools in its registry, ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import random as random_module
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from worker.core.errors import ConfigError
from worker.guard.policy import GuardPolicy
from worker.mcp.connection import Connection, Pace, Told
from worker.mcp.leash import Leash
from worker.mcp.offer import Judge
from worker.mcp.port import Connect, Hooks, Listed, Session
from worker.mcpsettings import McpServerSettings, dependency_of, setting_of
from worker.registry import Registry, line_to_add
from worker.settings import Settings
from worker.telemetry.signals import ServerChanged, ServerSaid, ToolLeftOut, ToolUndeclared

LINES_MAX = 20  # of what a server says in ten seconds
LINES_SECONDS = 10.0
NAMES_MAX = 10  # of tools in one line of the log


@dataclass(frozen=True, slots=True)
class ServerState:
    """One server, for people. `state` is starting, ready or away; `reason` tells why it is away."""

    name: str
    state: str
    reason: str
    about: str
    tools: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    last_words: str = ""  # the last line on its standard error, where it is away


class McpServers:
    """Connects to every server of the settings and keeps the registry as they list their tools."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        *,
        tell: Callable[[Any], None],
        version: str,
        known: Callable[[Iterable[str]], None] = lambda _: None,
        only: Iterable[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random_module.random,
        connect: Callable[[str], Connect] | None = None,
    ) -> None:
        """Take the servers of the settings; nothing is started yet, and later `only` those named.

        `known` hears of the names of tools, for the metrics. Raises ConfigError where the SDK is
        not installed, or a tool of the registry has a name or a dependency of a server.
        """
        if settings.mcp and connect is None:
            _require_sdk()
        wanted = set(settings.mcp if only is None else only)
        self._registry, self._tell, self._known = registry, tell, known
        self._leash = Leash()
        self._running: asyncio.Task[None] | None = None
        self.servers: dict[str, _Server] = {}
        for name, said in settings.mcp.items():
            server = _Server(self, name, said)
            _check_names(registry, name)
            reach = connect(name) if connect else _connector(settings, name, version)
            server.connection = Connection(
                name, reach, server.told(), pace=server.pace, clock=clock, random=random
            )
            registry.expect(f"{name}.", server.judge.stand_in)
            if name in wanted:
                self.servers[name] = server

    def __repr__(self) -> str:
        return f"McpServers({', '.join(repr(s.connection) for s in self.servers.values())})"

    async def start(self, *, wait_seconds: float | None = None) -> None:
        """Begin to connect, and wait for the first lists, as long as the settings say.

        Comes back without an error whatever the servers do. Cancelled: `close` is still to be
        called.
        """
        if not self.servers:
            return
        self._running = asyncio.create_task(self._run(), name="mcp")
        await asyncio.gather(*(server.first(wait_seconds) for server in self.servers.values()))

    async def close(self) -> None:
        """End all sessions and processes; bounded. Cancelled: processes are killed."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled() and running.exception() is not None:
                raise running.exception() or AssertionError
        await asyncio.to_thread(self._leash.close)

    def states(self) -> list[ServerState]:
        """Each server as it stands."""
        return [server.state() for server in self.servers.values()]

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, server in self.servers.items():
                group.create_task(server.connection.run(), name=f"mcp:{name}")

    def _took(self, server: _Server) -> None:
        """Put the tools of a server into the registry in place of those of its last list."""
        taken = self._registry.replace(f"{server.name}.", server.offered)
        self._known([tool.name for tool in server.offered])
        for name in taken:
            server.left_out.append((name, "another tool has this name"))
        # Each thing once: a server may list the same every second.
        for name, reason in server.left_out:
            if (name, reason) not in server.told_left_out:
                self._tell(ToolLeftOut(server.name, name, reason))
        server.told_left_out = set(server.left_out)
        undeclared = [tool for tool in server.offered if not tool.effect_declared]
        fresh = [tool for tool in undeclared if tool.name not in server.told_undeclared]
        if fresh:
            names = ", ".join(tool.name for tool in fresh[:NAMES_MAX])
            more = f" and {len(fresh) - NAMES_MAX} more" if len(fresh) > NAMES_MAX else ""
            self._tell(ToolUndeclared(names + more, line_to_add(fresh[0])))
        server.told_undeclared = {tool.name for tool in undeclared}


class _Server:
    """What belongs to one server beside its connection."""

    connection: Connection

    def __init__(self, all_servers: McpServers, name: str, settings: McpServerSettings) -> None:
        self.name, self.settings = name, settings
        self.judge = Judge(name, settings, self._call)
        self.offered: tuple[Any, ...] = ()
        self.left_out: list[tuple[str, str]] = []
        self.told_left_out: set[tuple[str, str]] = set()
        self.told_undeclared: set[str] = set()
        self._malformed: list[tuple[str, str]] = []
        self._all = all_servers
        self._lines = _Lines(self._say, clock=time.monotonic)
        self._last_words = ""

    @property
    def pace(self) -> Pace:
        """The times of the settings."""
        said = self.settings
        return Pace(said.connect_seconds, said.restart_seconds, said.restart_seconds_max)

    def told(self) -> Told:
        """Who hears of the connection: the registry, the log, the leash."""
        return Told(
            listed=self._listed,
            changed=self._changed,
            leave_out=lambda name, fault: self._malformed.append((name, fault)),
            said=self._said,
            garbage=lambda line: self._lines.take("stdout", line),
            started=self._all._leash.hold,
            stopped=self._all._leash.release,
        )

    async def first(self, wait_seconds: float | None) -> None:
        """Wait for the end of the first attempt, or for the time to pass."""
        limit = self.settings.wait_seconds if wait_seconds is None else wait_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self.connection.settled.wait()

    def state(self) -> ServerState:
        """How it stands, for people."""
        seen = self.connection
        names = tuple(tool.name for tool in self.offered)
        return ServerState(
            *(self.name, seen.state, seen.reason, seen.about, names, tuple(self.left_out)),
            last_words=self._last_words if seen.state == "away" else "",
        )

    def _said(self, line: str) -> None:
        self._last_words = line.strip() or self._last_words
        self._lines.take("stderr", line)

    async def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        return await self.connection.call(name, arguments)

    async def _listed(self, listed: list[Listed]) -> None:
        malformed, self._malformed = self._malformed, []
        offer = await asyncio.to_thread(self.judge.offer, listed)
        self.offered = offer.tools
        self.left_out = [*malformed, *offer.left_out]
        self._all._took(self)

    def _changed(self, state: str, reason: str) -> None:
        tell, connection = self._all._tell, self.connection
        tell(ServerChanged(self.name, state, reason, connection.about, len(self.offered)))

    def _say(self, stream: str, line: str) -> None:
        self._all._tell(ServerSaid(self.name, stream, line))


class _Lines:
    """What a server writes beside its messages, up to a number of lines."""

    def __init__(self, say: Callable[[str, str], None], *, clock: Callable[[], float]) -> None:
        self._say, self._clock = say, clock
        self._began, self._count = -LINES_SECONDS, 0

    def take(self, stream: str, line: str) -> None:
        """Pass a line on; of too many, the rest is left out."""
        if not line.strip():
            return
        now = self._clock()
        if now - self._began >= LINES_SECONDS:
            self._began, self._count = now, 0
        self._count += 1
        if self._count <= LINES_MAX:
            self._say(stream, line)


def mcp_policies(settings: Settings, base: GuardPolicy) -> dict[str, GuardPolicy]:
    """The guard policy of each server: the default, the server's limit, then GUARDS__MCP_NAME."""
    policies = {}
    for name, server in settings.mcp.items():
        said: dict[str, Any] = {} if server.limit is None else {"limit": server.limit}
        override = settings.guards.get(dependency_of(name))
        if override is not None:
            told = override.model_dump(exclude_none=True)
            said |= {key: value for key, value in told.items() if hasattr(base, key)}
        policies[dependency_of(name)] = replace(base, **said)
    return policies


def _require_sdk() -> None:
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("httpx2") is None:
        raise ConfigError(
            "LOOPWORKER_MCP: MCP servers need the official SDK, which is not installed;"
            " pip install 'loopworker[mcp]'"
        )


def _check_names(registry: Registry, server: str) -> None:
    for tool in registry:
        if tool.name.startswith(f"{server}."):
            raise ConfigError(
                f"{setting_of(server)}: {tool.source_file}:{tool.source_line} defines the tool"
                f" {tool.name!r}, and names that begin with {server}. are those of this server"
            )
        if tool.dependency == dependency_of(server):
            raise ConfigError(
                f"{setting_of(server)}: the tool {tool.name!r} has the dependency"
                f" {tool.dependency!r}, which is the guard of this server; name another"
            )


def _connector(settings: Settings, name: str, version: str) -> Connect:
    server = settings.mcp[name]

    def connect(hooks: Hooks) -> AbstractAsyncContextManager[Session]:
        return _connected(settings, server, version, hooks)

    return connect


@contextlib.asynccontextmanager
async def _connected(
    settings: Settings, server: McpServerSettings, version: str, hooks: Hooks
) -> AsyncIterator[Session]:
    # The SDK takes half a second to import, which nobody waits for who has no servers; in a
    # thread, so that a worker which is at work does not stand still meanwhile.
    await asyncio.to_thread(importlib.import_module, "worker.mcp.session")
    from worker.mcp.session import open_session

    where = _place(settings, server, version)
    async with open_session(
        where, hooks, version=version, tools_max=server.tools_max * 2
    ) as session:
        yield session


def _place(settings: Settings, server: McpServerSettings, version: str) -> Any:
    if server.command is not None:
        from worker.mcp.child import Launch

        return Launch(
            server.command,
            server.args,
            {name: value.get_secret_value() for name, value in server.env.items()},
            server.cwd,
            server.message_bytes_max,
        )
    from worker.mcp.streamable import Address

    assert server.url is not None
    timeout = server.timeout_seconds or settings.guard.timeout_seconds
    return Address(
        server.url,
        {name: value.get_secret_value() for name, value in server.headers.items()},
        server.message_bytes_max,
        traced=urlsplit(server.url).hostname in settings.outbound.trace_hosts,
        proxies=settings.outbound.proxies_from_environment,
        agent=f"loopworker/{version}",
        silence_seconds=max(timeout, server.connect_seconds) + 1.0,
    )

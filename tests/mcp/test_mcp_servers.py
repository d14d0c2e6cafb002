"""The servers of a worker: they never hold up its start, and their tools come and go."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from typing import Any

import pytest

from tests.mcp.fakes import ECHO, FakeServer, until
from worker.configuration import load
from worker.core.errors import ConfigError
from worker.mcp.faults import LaunchFailed
from worker.mcp.port import Listed
from worker.mcp.servers import McpServers, _Lines, _place
from worker.registry import Registry, tool
from worker.telemetry.signals import ServerChanged, ServerSaid, ToolLeftOut, ToolUndeclared

OBJECT = {"type": "object"}
REMOTE = {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1/"}}}


class Site:
    """Servers with fakes behind them, and what they told."""

    def __init__(self, fakes: dict[str, FakeServer], **settings: str) -> None:
        said = {f"LOOPWORKER_MCP__{name.upper()}__COMMAND": "x" for name in fakes}
        said |= {f"LOOPWORKER_MCP__{name}": text for name, text in settings.items()}
        self.registry = Registry()
        self.told: list[Any] = []
        self.known: list[str] = []
        self.servers = McpServers(
            load(said).settings,
            self.registry,
            tell=self.told.append,
            version="1",
            known=self.known.extend,
            connect=lambda name: fakes[name].connect,
        )

    def of(self, kind: type) -> list[Any]:
        """The signals of one kind."""
        return [signal for signal in self.told if isinstance(signal, kind)]

    async def __aenter__(self) -> Site:
        await self.servers.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.servers.close()


async def test_the_tools_of_all_servers_are_there_after_the_start():
    """In the registry, in the metrics, and in the log."""
    fakes = {"a": FakeServer(), "b": FakeServer(ECHO, Listed("say", "", OBJECT))}
    async with Site(fakes, B__EFFECTS="*=read") as site:
        assert set(site.registry.names) == {"a.echo", "b.echo", "b.say"}
        assert set(site.known) == set(site.registry.names)
        assert {(s.server, s.state, s.tools) for s in site.of(ServerChanged)} == {
            ("a", "ready", 1),
            ("b", "ready", 2),
        }
        (undeclared,) = site.of(ToolUndeclared)
        assert undeclared.tool_name == "a.echo"
        assert await site.registry.get("b.say").call({"text": "hi"}, None) == "hi"
    assert all(fake.closed.is_set() for fake in fakes.values())


async def test_dead_and_hanging_servers_do_not_hold_up_the_start():
    """One fails at once, one never answers: the worker starts, without their tools."""
    dead, hanging, well = FakeServer(), FakeServer(), FakeServer()
    dead.refuses = LaunchFailed("not installed")
    hanging.hangs_at_start = True
    fakes = {"dead": dead, "hanging": hanging, "well": well}
    async with Site(fakes, HANGING__WAIT_SECONDS="0.01", DEAD__STUB="closed") as site:
        states = {state.name: (state.state, state.reason) for state in site.servers.states()}
        assert states == {
            "dead": ("away", "not installed"),
            "hanging": ("starting", ""),
            "well": ("ready", ""),
        }
        assert site.registry.names == ("well.echo",)
        assert site.registry.get("dead.anything").stub == "closed"


async def test_a_server_that_comes_later_brings_its_tools():
    """The worker has started without it."""
    late = FakeServer()
    late.refuses = LaunchFailed("not yet")
    async with Site({"late": late}, LATE__RESTART_SECONDS="0.001") as site:
        assert site.registry.names == ()
        late.refuses = None
        await until(lambda: site.registry.names == ("late.echo",))


async def test_the_tools_of_a_server_that_dies_stay_known():
    """They degrade as any tool does; a task that names one is still taken."""
    fake = FakeServer()
    async with Site({"a": fake}) as site:
        fake.die()
        await until(lambda: site.servers.states()[0].state == "away")
        assert site.registry.names == ("a.echo",)


async def test_changed_tools_are_offered_and_told_once():
    """What is left out is said when it is new, not at each list."""
    fake = FakeServer(ECHO, Listed("bad", "", REMOTE))
    async with Site({"a": fake}) as site:
        server = site.servers.servers["a"]
        await server._listed([ECHO, Listed("bad", "", REMOTE), Listed("new", "", OBJECT)])
        assert site.registry.names == ("a.echo", "a.new")
        assert [s.tool_name for s in site.of(ToolLeftOut)] == ["bad"]
        assert [s.tool_name for s in site.of(ToolUndeclared)] == ["a.echo", "a.new"]


async def test_a_tool_of_no_form_is_told_as_left_out():
    """The one that the SDK would have stumbled over."""
    fake = FakeServer()
    async with Site({"a": fake}) as site:
        fake.hooks.leave_out("odd", "its schema is missing")
        await site.servers.servers["a"]._listed([ECHO])
        assert site.servers.states()[0].left_out == (("odd", "its schema is missing"),)


def test_what_a_server_says_is_bounded():
    """Twenty lines in ten seconds and no more, then twenty again; blank ones never."""
    said: list[tuple[str, str]] = []
    now = 5.0
    lines = _Lines(lambda stream, line: said.append((stream, line)), clock=lambda: now)
    lines.take("stdout", "  ")
    for number in range(30):
        lines.take("stderr", f"line {number}")
    assert said == [("stderr", f"line {number}") for number in range(20)]
    now += 9.9
    lines.take("stderr", "still too many")
    assert len(said) == 20
    now += 0.1
    for number in range(30):
        lines.take("stdout", f"more {number}")
    assert said[20:] == [("stdout", f"more {number}") for number in range(20)]


async def test_what_a_server_says_is_told():
    """On its standard error, and on its output beside the messages."""
    fake = FakeServer()
    async with Site({"a": fake}) as site:
        assert fake.hooks is not None
        fake.hooks.said("help")
        fake.hooks.garbage("noise")
        told = [(each.server, each.stream, each.line) for each in site.of(ServerSaid)]
        assert told == [("a", "stderr", "help"), ("a", "stdout", "noise")]


def test_only_the_servers_asked_for_are_started():
    """The tools of the others are known to be theirs all the same."""
    settings = load({f"LOOPWORKER_MCP__{name}__COMMAND": "x" for name in "AB"}).settings
    registry = Registry()
    servers = McpServers(settings, registry, tell=print, version="1", only=["b"])
    assert list(servers.servers) == ["b"]
    assert registry.get("a.anything").dependency == "mcp_a"


def test_an_answer_over_http_may_take_as_long_as_a_call():
    """The guard's limit comes first; a connection is not held for long after it."""
    said = {"URL": "http://localhost/mcp", "TIMEOUT_SECONDS": "50", "CONNECT_SECONDS": "20"}
    load_of = {f"LOOPWORKER_MCP__A__{name}": text for name, text in said.items()}
    settings = load(load_of).settings
    assert _place(settings, settings.mcp["a"], "1").silence_seconds == 51.0
    settings = load(load_of | {"LOOPWORKER_MCP__A__CONNECT_SECONDS": "70"}).settings
    assert _place(settings, settings.mcp["a"], "1").silence_seconds == 71.0


def test_a_tool_file_cannot_take_the_name_or_the_guard_of_a_server():
    """Both would be mixed up; the file and the setting are named."""
    settings = load({"LOOPWORKER_MCP__A__COMMAND": "x"}).settings

    @tool(name="a.echo")
    def one() -> str:
        """One."""
        return ""

    @tool(dependency="mcp_a")
    def two() -> str:
        """Two."""
        return ""

    for each, message in ((one, "names that begin with a."), (two, "is the guard of this server")):
        with pytest.raises(ConfigError, match=message):
            McpServers(settings, Registry([each]), tell=print, version="1")


def test_without_the_sdk_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    """The extra is named; nothing is imported to find out."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "mcp" else real(name)
    )
    settings = load({"LOOPWORKER_MCP__A__COMMAND": "x"}).settings
    with pytest.raises(ConfigError, match=r"pip install 'loopworker\[mcp\]'"):
        McpServers(settings, Registry(), tell=print, version="1")


async def test_cancelling_a_start_leaves_nothing():
    """A worker that is told to stop while it waits for its servers ends them."""
    fake = FakeServer()
    fake.hangs_at_start = True
    site = Site({"a": fake}, A__WAIT_SECONDS="60")
    starting = asyncio.create_task(site.servers.start())
    await until(lambda: fake.opened)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    await site.servers.close()
    assert site.servers._running is None

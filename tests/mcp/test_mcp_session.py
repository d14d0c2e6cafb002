"""A session with a server of the official SDK, in this process: both ends are real but the pipe."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.memory import create_client_server_memory_streams

from worker.core.errors import AttemptFailed, ToolError
from worker.mcp import session as session_module
from worker.mcp.child import Launch
from worker.mcp.port import Hooks
from worker.mcp.session import open_session

OBJECT: dict[str, Any] = {"type": "object"}


class Peer:
    """A server of the SDK; `left_out`, `changes` and `ends` are what its client heard."""

    def __init__(self) -> None:
        self.pages = [["a", "b"], ["c"]]
        self.cancelled = asyncio.Event()
        self.called = asyncio.Event()
        self.left_out: list[tuple[str, str]] = []
        self.changes = self.ends = 0
        self.server = Server("peer", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        page = int(params.cursor) if params is not None and params.cursor else 0
        tools = [types.Tool(name=name, input_schema=OBJECT) for name in self.pages[page]]
        following = str(page + 1) if page + 1 < len(self.pages) else None
        return types.ListToolsResult(tools=tools, next_cursor=following)

    async def _call(self, context: Any, params: Any) -> types.CallToolResult:
        match params.name:
            case "slow":
                self.called.set()
                try:
                    await anyio.sleep(3600)
                finally:
                    self.cancelled.set()
            case "raise":
                raise RuntimeError("broken inside")
            case "change":
                await context.session.send_tool_list_changed()
            case "structured":
                return types.CallToolResult(content=[], structured_content={"n": 1})
        text = f"{params.name} {params.arguments}"
        return types.CallToolResult(content=[types.TextContent(text=text)])

    def _changed(self) -> None:
        self.changes += 1

    def _ended(self) -> None:
        self.ends += 1

    @contextlib.asynccontextmanager
    async def session(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
        """Connect to it as to a child."""

        @contextlib.asynccontextmanager
        async def child(launch: Any, hooks: Any) -> AsyncIterator[Any]:
            async with (
                create_client_server_memory_streams() as (ours, theirs),
                anyio.create_task_group() as group,
            ):
                options = self.server.create_initialization_options(
                    NotificationOptions(tools_changed=True)
                )
                group.start_soon(self.server.run, *theirs, options)
                yield ours
                group.cancel_scope.cancel()

        monkeypatch.setattr(session_module, "child", child)
        hooks = Hooks(
            heard=lambda: None,
            ended=self._ended,
            changed=self._changed,
            leave_out=lambda name, fault: self.left_out.append((name, fault)),
            said=lambda line: None,
            garbage=lambda line: None,
        )
        async with open_session(Launch("x"), hooks, version="1", tools_max=100) as session:
            yield session


async def test_all_pages_are_listed_and_tools_called(monkeypatch: pytest.MonkeyPatch):
    """The whole way through the official SDK."""
    async with Peer().session(monkeypatch) as session:
        assert [tool.name for tool in await session.list_tools()] == ["a", "b", "c"]
        assert await session.call("a", {"x": 1}) == "a {'x': 1}"
        assert await session.call("structured", {}) == {"n": 1}
        assert await session.is_alive()
        assert session.about.startswith("peer")


async def test_pages_without_an_end_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """A cursor that comes again, or more tools than anybody takes, end the listing."""
    peer = Peer()

    async def for_ever(context: Any, params: Any) -> types.ListToolsResult:
        tools = [types.Tool(name="a", input_schema=OBJECT)]
        return types.ListToolsResult(tools=tools, next_cursor="again")

    peer.server.add_request_handler("tools/list", types.PaginatedRequestParams, for_ever)
    async with peer.session(monkeypatch) as session:
        assert len(await session.list_tools()) == 2


async def test_a_cancelled_call_is_cancelled_at_the_server(monkeypatch: pytest.MonkeyPatch):
    """A time limit reaches whoever does the work."""
    peer = Peer()
    async with peer.session(monkeypatch) as session:
        calling = asyncio.create_task(session.call("slow", {}))
        await peer.called.wait()
        calling.cancel()
        await asyncio.wait([calling])
        assert calling.cancelled()
        async with asyncio.timeout(5):
            await peer.cancelled.wait()


async def test_changed_tools_are_heard_of(monkeypatch: pytest.MonkeyPatch):
    """The notification arrives."""
    peer = Peer()
    async with peer.session(monkeypatch) as session:
        await session.call("change", {})
        async with asyncio.timeout(5):
            while not peer.changes:  # noqa: ASYNC110
                await asyncio.sleep(0)


async def test_errors_come_in_the_words_of_the_guard(monkeypatch: pytest.MonkeyPatch):
    """Nothing of the SDK's own leaves the session."""
    async with Peer().session(monkeypatch) as session:
        with pytest.raises((AttemptFailed, ToolError)):
            await session.call("raise", {})


async def test_the_end_of_a_server_is_heard_of(monkeypatch: pytest.MonkeyPatch):
    """Calls after it fail as a lost connection."""
    peer = Peer()
    async with peer.session(monkeypatch) as session:
        await session.client._dispatcher._read_stream.aclose()
        with pytest.raises(AttemptFailed) as hit:
            await session.call("a", {})
        assert hit.value.kind == "connection"
        assert not await session.is_alive()

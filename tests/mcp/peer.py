"""A server of the official SDK in the process of the test: both ends are real but the pipe."""

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

    async def opened(self, ours: Any) -> None:
        """What happens on the streams to it before the client has them."""

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
                await self.opened(ours)
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

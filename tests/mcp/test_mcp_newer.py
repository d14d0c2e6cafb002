"""A session with a server of the official SDK that speaks the protocol of 2026 and no older one."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.message import SessionMessage
from mcp_types.version import LATEST_MODERN_VERSION

from tests.mcp.fakes import until
from tests.mcp.peer import Peer

OPENING = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "before us", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


class NewerPeer(Peer):
    """It refuses the handshake, for the first request of a connection decides the protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self.bus)
        self.hear(self.listening)

    def hear(self, handler: Any) -> None:
        """Answer whoever asks to hear of changes."""
        kind = types.SubscriptionsListenRequestParams
        self.server.add_request_handler("subscriptions/listen", kind, handler)

    async def opened(self, ours: Any) -> None:
        """Ask in the newer way before the client does."""
        incoming, outgoing = ours
        asked = types.JSONRPCRequest(jsonrpc="2.0", id=0, method="server/discover", params=OPENING)
        await outgoing.send(SessionMessage(asked))
        answer = await incoming.receive()
        assert LATEST_MODERN_VERSION in answer.message.result["supportedVersions"]


async def test_tools_of_a_server_without_the_handshake_are_listed_and_called(
    monkeypatch: pytest.MonkeyPatch,
):
    """It is asked in its own way: all pages, results, and whether it lives."""
    async with NewerPeer().session(monkeypatch) as session:
        assert session.about.endswith(f"protocol {LATEST_MODERN_VERSION}")
        assert [tool.name for tool in await session.list_tools()] == ["a", "b", "c"]
        assert await session.call("a", {"x": 1}) == "a {'x': 1}"
        assert await session.call("structured", {}) == {"n": 1}
        assert await session.is_alive()


async def test_it_is_asked_to_tell_of_changes(monkeypatch: pytest.MonkeyPatch):
    """Such a server tells nobody who has not asked; each change is heard of."""
    peer = NewerPeer()
    async with peer.session(monkeypatch):
        await until(lambda: peer.bus._listeners)
        for count in (1, 2):
            await peer.bus.publish(ToolsListChanged())
            await until(lambda count=count: peer.changes == count)
    assert not peer.bus._listeners


async def test_one_that_stops_telling_of_changes_goes_on_working(monkeypatch: pytest.MonkeyPatch):
    """It is a server whose tools do not change."""
    peer = NewerPeer()
    async with peer.session(monkeypatch) as session:
        await until(lambda: peer.bus._listeners)
        peer.listening.close()
        await until(lambda: not peer.bus._listeners)
        assert await session.call("a", {}) == "a {}"


async def test_one_that_tells_of_no_changes_works_as_well(monkeypatch: pytest.MonkeyPatch):
    """That it refuses to is no fault of the session."""
    peer, asked = NewerPeer(), []

    async def refuse(context: Any, params: Any) -> Any:
        asked.append(params)
        raise MCPError(types.METHOD_NOT_FOUND, "no such thing")

    peer.hear(refuse)
    async with peer.session(monkeypatch) as session:
        await until(lambda: asked)
        assert await session.call("a", {}) == "a {}"
    assert peer.changes == 0

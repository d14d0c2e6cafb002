"""A session with a server of the official SDK, in this process: both ends are real but the pipe."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from tests.mcp.fakes import until
from tests.mcp.peer import OBJECT, Peer
from worker.core.errors import AttemptFailed, ToolError
from worker.mcp.faults import CONNECTION_CLOSED, HTTP_FAILED, REQUEST_TIMEOUT
from worker.mcp.session import Session


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
        await until(lambda: peer.changes)


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


@pytest.mark.parametrize("code", [CONNECTION_CLOSED, REQUEST_TIMEOUT, HTTP_FAILED])
async def test_a_handshake_that_nobody_answers_is_not_tried_in_the_newer_way(code: int):
    """Only a server that has refused it may know another one."""

    class Client:
        """A client whose handshake fails; it knows no other."""

        async def initialize(self) -> None:
            raise MCPError(code, "no answer", {"kind": "timeout"})

    with pytest.raises(AttemptFailed):
        await Session(Client(), tools_max=1).shake_hands()  # type: ignore[arg-type]


async def test_a_ping_whose_answer_makes_no_sense_is_answered():
    """A server that talks nonsense does not hang."""

    class Client:
        """A client whose server answers with what is none of the protocol's."""

        async def send_ping(self) -> None:
            types.EmptyResult.model_validate({"_meta": "none"})

    assert await Session(Client(), tools_max=1).is_alive()  # type: ignore[arg-type]

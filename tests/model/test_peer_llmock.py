"""An independent mock server that breaks on purpose and grades its client."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from worker.core.errors import AttemptFailed
from worker.core.messages import Message, ReplyKind
from worker.guard.guard import Guard
from worker.http import HttpClient
from worker.model.client import ChatModel, Endpoint, ModelOptions, model_guard_policy
from worker.model.port import ModelRequest, OfferedTool
from worker.telemetry.tell import Telemetry

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]}


class Peer:
    """The other server, as an operator sees it."""

    def __init__(self, address: str, http: HttpClient) -> None:
        self.address = address
        self.url = address + "/v1"
        self._http = http

    async def plan(self, *behaviours: dict[str, Any]) -> None:
        """Say what the next requests meet."""
        body = json.dumps({"behaviors": behaviours}).encode()
        headers = {"content-type": "application/json"}
        reply = await self._http.post(
            self.address + "/_llmock/scenario", content=body, headers=headers
        )
        reply.raise_for_status()

    async def reset(self) -> None:
        """Have it forget whatever it was told, and whatever it has seen."""
        (await self._http.post(self.address + "/_llmock/reset", content=b"")).raise_for_status()

    async def verdict(self) -> dict[str, Any]:
        """Ask what it thinks of its client."""
        reply = await self._http.get(self.address + "/_llmock/verdict")
        graded: dict[str, Any] = json.loads(reply.body)
        return graded


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a peer listens that has a process of its own, which takes a second to start."""
    command = shutil.which("llmock", path=str(Path(sys.executable).parent))
    if command is None:
        yield ""
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = [command, "serve", "--host", "127.0.0.1", "--port", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **quiet) as process:
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.fixture
async def peer(address, need) -> AsyncIterator[Peer]:
    """The peer, as if it had just been started."""
    need(address, "llmock is not installed")
    http = HttpClient()
    peer = Peer(address, http)
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    await peer.reset()
                    break
                except AttemptFailed:
                    await asyncio.sleep(0.05)
        yield peer
    finally:
        await http.aclose()


@pytest.mark.parametrize("stream", [False, True])
async def test_peer_that_breaks_on_purpose_is_served_well(peer, stream):
    """Throttled, then cut or garbled: the client waits as asked, tries again, and passes."""
    await peer.plan(
        {"type": "fail", "status": 429, "retry_after": 1, "times": 1},
        {"type": "fail", "status": 503, "times": 1},
        *([{"type": "stream_fault", "kind": "truncate", "after_chunks": 2}] if stream else []),
    )
    telemetry = Telemetry()
    model = ChatModel(
        Endpoint(peer.url, "gpt-4o", "k"),
        http=HttpClient(),
        guard=Guard("model", model_guard_policy(concurrency=1), telemetry=telemetry),
        telemetry=telemetry,
        options=ModelOptions(stream=stream, backoff_seconds=0.05, attempts=5),
    )
    offered = OfferedTool("get_stock_price", "get_stock_price", "Price", SCHEMA, lambda _: [])
    messages = [Message({"role": "user", "content": "price of ACME"})]
    first = await model.reply(ModelRequest(messages=messages, tools=(offered,)))
    messages.append(Message(first.message))
    for call in first.calls:
        messages.append(Message({"role": "tool", "tool_call_id": call.id, "content": "12.5"}))
    last = await model.reply(ModelRequest(messages=messages, tools=(offered,)))
    await model.close()
    graded = await peer.verdict()

    assert (first.kind, last.kind) == (ReplyKind.CALLS, ReplyKind.ANSWER)
    assert first.attempts == (4 if stream else 3)
    assert graded["faults_injected"] == first.attempts - 1
    assert graded["passed"], graded["findings"]

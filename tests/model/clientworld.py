"""A model client, the server it talks to, and everything it told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.outbound.faulty import Exchange, FaultyServer, faulty
from worker.core.errors import ModelError
from worker.core.messages import Message, Reply
from worker.guard.guard import Guard
from worker.http import HttpClient, HttpOptions
from worker.model.client import ChatModel, Endpoint, ModelOptions, model_guard_policy
from worker.model.port import ModelRequest, OfferedTool
from worker.telemetry.signals import ModelCall
from worker.telemetry.tell import Telemetry

USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 400},
}
ASK = ModelRequest(messages=(Message({"role": "user", "content": "hi"}),))


def offered(name: str = "look") -> OfferedTool:
    """Offer a tool without parameters."""
    return OfferedTool(name, name, "Look", {"type": "object", "properties": {}}, lambda value: [])


def body(text: str | None = "Hello", **message: Any) -> dict[str, Any]:
    """Write a reply body."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}}
    choice["finish_reason"] = "stop"
    return {"id": "r1", "model": "m-large", "choices": [choice], "usage": USAGE}


def refusal(message: str, status: int = 400, **error: Any):
    """Refuse with an error object."""
    return status, {}, {"error": {"message": message, **error}}


GOOD = (200, {}, body())
BUSY = (503, {}, {"error": {"message": "upstream connect error"}})


@dataclass
class Listener:
    """Keeps what it is told."""

    told_signals: list[Any] = field(default_factory=list)
    settled_operations: list[Any] = field(default_factory=list)

    def told(self, signal: Any) -> None:
        """Keep it."""
        self.told_signals.append(signal)

    def started(self, operation: Any) -> None:
        """Wait for its end."""

    def settled(self, operation: Any, token: Any) -> None:
        """Keep it."""
        self.settled_operations.append(operation)


@dataclass
class World:
    """A model client and the server it talks to."""

    model: ChatModel
    server: FaultyServer
    listener: Listener
    waits: list[float]
    during_sleep: Callable[[], Any] | None = None

    async def ask(self, request: ModelRequest = ASK) -> Reply:
        """Ask once."""
        return await self.model.reply(request)

    async def fail(self, request: ModelRequest = ASK) -> ModelError:
        """Ask once, and expect no reply."""
        with pytest.raises(ModelError) as caught:
            await self.model.reply(request)
        return caught.value

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Return what the server was asked."""
        return [json.loads(exchange.body) for exchange in self.server.requests]

    @property
    def call(self) -> ModelCall:
        """Return the last operation that was told."""
        return self.listener.settled_operations[-1]


async def trickle(exchange: Exchange) -> None:
    """Send a byte now and then, for ever."""
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n")
    while True:
        await exchange.send(b" ")
        await asyncio.sleep(0.02)


async def silent(exchange: Exchange) -> None:
    """Say nothing."""
    await exchange.gone.wait()


async def cut_off(exchange: Exchange) -> None:
    """Reset within the body."""
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{")
    exchange.reset()


@contextlib.asynccontextmanager
async def worlds() -> AsyncIterator[Any]:
    """Build worlds: a script of (status, headers, body) replies, the last one for ever."""
    stack: list[Any] = []

    async def build(*script: Any, transport: str = "aiohttp", **options: Any) -> World:
        left = list(script)

        async def follow(exchange: Exchange) -> None:
            step = left.pop(0) if len(left) > 1 else left[0]
            if callable(step):
                await step(exchange)
                return
            status, headers, value = step
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            kind = {"content-type": "application/json"}
            await exchange.reply(data, status=status, headers={**kind, **headers})

        context = faulty(follow)
        server = await context.__aenter__()
        listener, waits = Listener(), []
        telemetry = Telemetry([listener])

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            if made.during_sleep is not None:
                action, made.during_sleep = made.during_sleep, None
                action()

        def clock() -> float:
            return time.monotonic() + sum(waits)

        guard = Guard(
            "model",
            model_guard_policy(concurrency=8),
            telemetry=telemetry,
            random=lambda: 1.0,
            sleep=sleep,
            clock=clock,
        )
        http = HttpClient(HttpOptions(transport=transport))  # type: ignore[arg-type]
        model = ChatModel(
            Endpoint(base_url=server.url + "/v1", model="m", api_key="k"),
            http=http,
            guard=guard,
            telemetry=telemetry,
            options=ModelOptions(**{"backoff_seconds": 0.5, **options}),
            clock=clock,
        )
        stack.append((context, model, guard))
        made = World(model, server, listener, waits)
        return made

    yield build
    for context, model, guard in stack:
        await model.close()
        guard.close()
        await context.__aexit__(None, None, None)

"""A chain of models, each with a server of its own over real HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.model.clientworld import ASK, Listener, offered
from tests.model.scriptedmodel import ScriptedModel, scripted_model
from tests.model.speakers import USAGE, said, streamed
from worker.core.causes import USUAL
from worker.core.errors import ModelError
from worker.core.messages import Message, Reply
from worker.guard.guard import Guard
from worker.http import HttpClient, HttpOptions
from worker.model.chain import FIRST, Link, ModelChain
from worker.model.client import ChatModel, Endpoint, ModelOptions, model_guard_policy
from worker.model.port import ModelRequest
from worker.model.standin.strict import checked
from worker.telemetry.signals import FallbackUsed
from worker.telemetry.tell import Telemetry

Body = dict[str, Any]


def refuses(status: int, message: str, *, headers: Body | None = None, **error: Any) -> Body:
    """Write a refusal, given again and again."""
    body = {"error": {"message": message, **error}}
    return {"status": status, "headers": headers or {}, "body": body, "repeat": True}


DOWN = refuses(503, "upstream connect error")
BUSY = refuses(429, "Rate limit reached", headers={"retry-after": "30"})
BROKE = refuses(429, "You exceeded your quota", code="insufficient_quota")
TOO_LONG = refuses(400, "This model's maximum context length is 8192 tokens")
WRONG_KEY = refuses(401, "Incorrect API key provided")
WRONG = refuses(400, "messages[1].role is invalid")
SILENT = {"status": 200, "stream": [{"$sleep_ms": 60_000}], "repeat": True}


def says(text: str, *, stream: bool = False, reason: str = "stop", repeat: bool = True) -> Body:
    """Write a reply of text, whole or as a stream."""
    write = streamed if stream else said
    return {**write({"role": "assistant", "content": text}, reason), "repeat": repeat}


def asks(*ids: str, stream: bool = False, **more: Any) -> Body:
    """Write a reply that calls `look`, under these ids."""
    entries = [
        {"id": id_, "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for id_ in ids
    ]
    message = {"role": "assistant", "content": None, "tool_calls": entries, **more}
    return (streamed if stream else said)(message)


@dataclass
class ChainWorld:
    """The chain, its servers in order, and everything that was told."""

    chain: ModelChain
    servers: list[ScriptedModel]
    listener: Listener

    async def ask(self, request: ModelRequest = ASK) -> Reply:
        """Ask once."""
        return await self.chain.reply(request)

    async def fail(self, request: ModelRequest = ASK) -> ModelError:
        """Ask once, and expect no reply."""
        with pytest.raises(ModelError) as caught:
            await self.chain.reply(request)
        return caught.value

    @property
    def asked(self) -> list[int]:
        """How many requests each server got."""
        return [len(server.requests) for server in self.servers]

    @property
    def moves(self) -> list[tuple[str, str, str]]:
        """Where calls moved to, with what outcome, and why."""
        told = self.listener.told_signals
        return [(s.fallback, s.outcome, s.reason) for s in told if isinstance(s, FallbackUsed)]

    def check_strictly(self) -> None:
        """Hold every request against the strictest rules of any server."""
        for server in self.servers:
            for request in server.requests:
                checked(json.dumps(request).encode())


@asynccontextmanager
async def chain_of(
    *scripts: Sequence[Body],
    causes: Sequence[frozenset[str] | set[str]] = (),
    **options: Any,
) -> AsyncIterator[ChainWorld]:
    """Build a chain of models m0, m1, … over servers with these scripts.

    `causes` are those of m1 and the following; the usual ones where nothing is said. An option may
    be a list, one value for each model.
    """
    async with AsyncExitStack() as stack:
        listener = Listener()
        telemetry = Telemetry([listener])
        links, servers = [], []
        for at, script in enumerate(scripts):
            server = await stack.enter_async_context(scripted_model(script))
            own = {k: v[at] if isinstance(v, list) else v for k, v in options.items()}
            own = {"backoff_seconds": 0.0, "attempts": 2, "patience_seconds": 0.5, **own}
            policy = model_guard_policy(concurrency=8, attempts=own["attempts"])
            guard = Guard(f"model:{at}", policy, telemetry=telemetry)
            stack.callback(guard.close)
            model = ChatModel(
                Endpoint(base_url=server.url, model=f"m{at}"),
                http=HttpClient(HttpOptions()),
                guard=guard,
                telemetry=telemetry,
                options=ModelOptions(**own),
            )
            stack.push_async_callback(model.close)
            wanted = causes[at - 1] if 0 < at <= len(causes) else USUAL
            links.append(Link(f"m{at}", model, frozenset(wanted) if at else FIRST))
            servers.append(server)
        yield ChainWorld(ModelChain(links, telemetry=telemetry), servers, listener)


def conversation(reply: Reply, *results: str) -> list[Message]:
    """Go on after a reply with calls: the question, the reply, its results."""
    told = [
        Message({"role": "tool", "tool_call_id": call.id, "content": text})
        for call, text in zip(reply.calls, results, strict=True)
    ]
    return [Message({"role": "user", "content": "look around"}), Message(reply.message), *told]


LOOK = ModelRequest(messages=(Message({"role": "user", "content": "look"}),), tools=(offered(),))
TOKENS = USAGE["prompt_tokens"]

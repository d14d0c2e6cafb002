"""Agent loops with nothing around them: no telemetry, no journal, no guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import httpx
import orjson

HEADERS = {"content-type": "application/json"}
Post = Callable[[bytes], Awaitable[bytes]]


def over_aiohttp(session: aiohttp.ClientSession, url: str) -> Post:
    """Post with an aiohttp session."""

    async def post(body: bytes) -> bytes:
        async with session.post(url, data=body, headers=HEADERS) as reply:
            return await reply.read()

    return post


def over_httpx(client: httpx.AsyncClient, url: str) -> Post:
    """Post with an httpx client, over whatever transport it has."""

    async def post(body: bytes) -> bytes:
        reply = await client.post(url, content=body, headers=HEADERS)
        return reply.content

    return post


class Bare:
    """The loop and nothing else."""

    def __init__(self, post: Post, tools: dict[str, Any], schemas: list[Any]) -> None:
        self.post, self.tools, self.schemas = post, tools, schemas

    async def run(self, question: str) -> str:
        """Answer a question; tools are called as the model asks for them."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        while True:
            body = orjson.dumps({"model": "mock-1", "messages": messages, "tools": self.schemas})
            message = orjson.loads(await self.post(body))["choices"][0]["message"]
            if not message.get("tool_calls"):
                return str(message["content"])
            messages.append(message)
            for call in message["tool_calls"]:
                function = call["function"]
                result = await self.tools[function["name"]](**orjson.loads(function["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

"""Servers that answer by what they are asked: the common dialect, with one thing changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.model.scriptedmodel import respond
from tests.outbound.faulty import Exchange, faulty
from worker.model.client import Endpoint
from worker.model.dialect import Trait, Verdict
from worker.model.probe import Report, probe

CITIES = ("Paris", "Tokyo")
USAGE = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
Body = dict[str, Any]
Respond = Callable[[Body], Body]


def calls(**changes: Any) -> Body:
    """Write the message of a common call, with the same changes in each entry."""
    entries = [
        {
            "id": f"call_{city}",
            "type": "function",
            "function": {"name": "get_weather", "arguments": json.dumps({"city": city})},
            **changes,
        }
        for city in CITIES
    ]
    return {"role": "assistant", "content": None, "tool_calls": entries}


def said(message: Body, reason: str = "tool_calls") -> Body:
    """Write a whole reply that was not streamed."""
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"status": 200, "body": {"choices": [choice], "usage": USAGE}}


def streamed(message: Body, reason: str | None = "tool_calls", *, done: bool = True) -> Body:
    """Write the same as a stream of three chunks."""
    delta = dict(message)
    listed = delta.get("tool_calls")
    if listed:
        delta["tool_calls"] = [{"index": at, **each} for at, each in enumerate(listed)]
    items: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}]
    if reason:
        items.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        items.append({"choices": [], "usage": USAGE})
    if done:
        items.append("data: [DONE]\n\n")
    return {"status": 200, "headers": {"content-type": "text/event-stream"}, "stream": items}


def speaking(message: Body, *, reason: str = "tool_calls", stream: Body | None = None) -> Respond:
    """Answer with the message where a call is due and with text elsewhere."""

    def answer(body: Body) -> Body:
        closing = body.get("tool_choice") == "none" or "tools" not in body
        if closing or body["messages"][-1]["role"] == "tool":
            return said({"role": "assistant", "content": "mild"}, "stop")
        if body.get("stream"):
            return stream if stream is not None else streamed(message, reason)
        return said(message, reason)

    return answer


def always(status: int, body: Any = "", **headers: str) -> Respond:
    """Answer everything alike."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: {"status": status, "body": body, "headers": named}


@asynccontextmanager
async def serving(answer: Respond, requests: list[Body]) -> AsyncIterator[str]:
    """Serve a speaker; yields the address without a path."""

    async def one(exchange: Exchange) -> None:
        requests.append(json.loads(exchange.body))
        await respond(exchange, answer(requests[-1]))

    async with faulty(one) as server:
        yield server.url


async def probed(
    answer: Respond, *, path: str = "/v1", requests: list[Body] | None = None, **named: Any
) -> Report:
    """Probe a speaker."""
    async with serving(answer, [] if requests is None else requests) as url:
        return await probe(Endpoint(url + path, "any"), **named)


def odd(report: Report) -> dict[str, Trait]:
    """Return what is not as it should be, by topic."""
    return {trait.topic: trait for trait in report.traits if trait.verdict is not Verdict.OK}

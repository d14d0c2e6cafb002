"""A model server that answers by the script of a dialect case, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from tests.outbound.faulty import Exchange, faulty

NOTHING_LEFT = {"status": 418, "body": {"error": {"message": "the script has no answer left"}}}


@dataclass
class ScriptedModel:
    """What the server saw: the decoded requests, and when each came (monotonic seconds)."""

    responses: Sequence[dict[str, Any]]
    url: str = ""
    requests: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def answer(self, exchange: Exchange) -> None:
        """Answer one request with the next response; `repeat` on the last one repeats it."""
        at = len(self.requests)
        self.requests.append(json.loads(exchange.body))
        self.times.append(time.monotonic())
        if at < len(self.responses):
            await respond(exchange, self.responses[at])
        elif self.responses and self.responses[-1].get("repeat"):
            await respond(exchange, self.responses[-1])
        else:
            await respond(exchange, NOTHING_LEFT)


@asynccontextmanager
async def scripted_model(responses: Sequence[dict[str, Any]]) -> AsyncIterator[ScriptedModel]:
    """Serve the responses of a case, in order, for the length of a block."""
    model = ScriptedModel(responses)
    async with faulty(model.answer) as server:
        model.url = server.url + "/v1"
        yield model


async def respond(exchange: Exchange, response: dict[str, Any]) -> None:
    """Send one scripted response, with its cuts, sleeps and resets."""
    headers = {"connection": "close", "content-type": "application/json"}
    for name, value in (response.get("headers") or {}).items():
        if isinstance(value, dict):
            value = formatdate(time.time() + value["$http_date_in_s"], usegmt=True)
        headers[name.lower()] = value
    body = _whole_body(response)
    if "stream" in response:
        headers["transfer-encoding"] = "chunked"
    elif response.get("close") is None and "trickle_ms_per_byte" not in response:
        headers.setdefault("content-length", str(len(body)))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    await exchange.send(f"HTTP/1.1 {response['status']} X\r\n{lines}\r\n".encode())
    if "stream" in response:
        await _stream(exchange, response["stream"])
    elif "trickle_ms_per_byte" in response:
        for at in range(len(body)):
            await exchange.send(body[at : at + 1])
            await asyncio.sleep(response["trickle_ms_per_byte"] / 1000)
    else:
        await exchange.send(body)
    if response.get("close") == "reset":
        await _reset(exchange)


def _whole_body(response: dict[str, Any]) -> bytes:
    if "raw_body_b64" in response:
        return base64.b64decode(response["raw_body_b64"])
    body = response.get("raw_body", response.get("body", ""))
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


async def _stream(exchange: Exchange, items: Sequence[Any]) -> None:
    for item in items:
        if isinstance(item, dict) and "$sleep_ms" in item:
            await asyncio.sleep(item["$sleep_ms"] / 1000)
        elif isinstance(item, dict) and "$close" in item:
            await _reset(exchange)
            return
        else:
            await _chunk(exchange, _bytes_of(item))
    await exchange.send(b"0\r\n\r\n")


def _bytes_of(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if "$raw_b64" in item:
        return base64.b64decode(item["$raw_b64"])
    return b"data: " + json.dumps(item).encode() + b"\n\n"


async def _chunk(exchange: Exchange, data: bytes) -> None:
    if data:
        await exchange.send(b"%x\r\n%s\r\n" % (len(data), data))


async def _reset(exchange: Exchange) -> None:
    await asyncio.sleep(0.05)  # what was sent before should arrive before the reset
    exchange.reset()

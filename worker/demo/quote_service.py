"""A quote service on loopback that answers, hangs for as many requests as it is told, recovers."""

from __future__ import annotations

import asyncio
import json
from typing import Self
from urllib.parse import parse_qs, urlsplit

QUOTES = {
    "AAPL": (243.5, "USD"),
    "MSFT": (512.1, "USD"),
    "TSLA": (341.8, "USD"),
    "600519.SS": (1462.0, "CNY"),
    "0700.HK": (618.5, "HKD"),
}


class QuoteService:
    """`async with QuoteService() as quotes:` serves at `quotes.url`; `fail_next` breaks it."""

    def __init__(self) -> None:
        self.requests = 0
        self.timed_out = 0
        self._failing = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close, whoever still waits for a price."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The address for LOOPWORKER_QUOTE_URL."""
        assert self._server is not None, "start it first"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/quote"

    def fail_next(self, count: int) -> None:
        """Leave the next requests without an answer, as an overloaded service does."""
        self._failing = count

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            if self._failing:
                self._failing -= 1
                self.timed_out += 1
                await reader.read()  # until the caller loses patience
                return
            writer.write(_answer(head.split(b" ", 2)[1].decode("latin-1")))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()


def _answer(target: str) -> bytes:
    symbol = (parse_qs(urlsplit(target).query).get("symbol") or [""])[0].upper()
    found = QUOTES.get(symbol)
    status = "200 OK" if found else "404 Not Found"
    body = json.dumps({"price": found[0], "currency": found[1]} if found else {}).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body

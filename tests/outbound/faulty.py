"""A server that misbehaves on the wire, byte by byte as told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class Exchange:
    """One request, and the means to answer it badly."""

    head: bytes
    body: bytes
    writer: asyncio.StreamWriter
    number: int
    keep: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def header(self, name: str) -> str | None:
        """Return the value of a request header."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == name.lower().encode():
                return value.strip().decode()
        return None

    async def send(self, data: bytes) -> None:
        """Write and flush."""
        self.writer.write(data)
        await self.writer.drain()

    async def reply(
        self, body: bytes = b"ok", *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """Answer well, and keep the connection."""
        lines = {"content-length": str(len(body)), "content-type": "text/plain", **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await self.send(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)
        self.keep = True

    def reset(self) -> None:
        """Break the connection so that the peer gets a reset instead of an end."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Exchange], Awaitable[None]]


class FaultyServer:
    """Answers each request by a script; counts connections and requests."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.tls = tls
        self.connections = 0
        self.requests: list[Exchange] = []
        self.asked = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Return the address, without a slash at the end."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> FaultyServer:
        # A client that keeps its connection says no farewell, which asyncio awaits for 30 s.
        farewell = {"ssl": self.tls, "ssl_shutdown_timeout": 0.1} if self.tls else {}
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **farewell)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(OSError):
                writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            exchange = Exchange(head, b"", writer, len(self.requests))
            length = int(exchange.header("content-length") or 0)
            exchange.body = await reader.readexactly(length)
            self.requests.append(exchange)
            self.asked.set()
            await self.script(exchange)
            if not exchange.keep:
                return


@contextlib.asynccontextmanager
async def faulty(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultyServer]:
    """Serve the script for the length of a block."""
    async with FaultyServer(script, tls) as server:
        yield server

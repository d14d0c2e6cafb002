"""A service over real HTTP whose next answer a test decides."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field


@dataclass
class Upstream:
    """A server whose next answer a test decides; `hang` makes it silent."""

    port: int = 0
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(head.split(b" ")[1].decode())
            if self.hang:
                await reader.read()  # until the client gives up
                return
            lines = {"content-length": str(len(self.body)), "connection": "close"} | self.headers
            text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            writer.write(f"HTTP/1.1 {self.status} Told\r\n{text}\r\n".encode() + self.body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

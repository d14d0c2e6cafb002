"""The API on its socket: uvicorn inside the worker's own event loop, bounded against strangers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from worker.awaiting import happened
from worker.web.api import ApiParts, build_app
from worker.web.gate import check_exposure
from worker.web.listening import listen

HEAD_SECONDS = 10.0  # uvicorn itself waits for ever for the head of a request
CONNECTIONS_MAX = 512
STOP_SECONDS = 3


class ApiServer:
    """Serves the API until `stop`. Port 0 takes a free one: see `url`.

    `listener` is a socket that listens already, where several processes share one.
    """

    def __init__(
        self, host: str, port: int, *, parts: ApiParts, listener: socket.socket | None = None
    ) -> None:
        check_exposure(host, parts.token)
        self._listener = listener
        self.host = host
        self.port = port
        self._parts = parts
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        state = "serving" if self._serving else "stopped"
        guarded = "token" if self._parts.token else "loopback only"
        return f"ApiServer({self.url}; {state}; {guarded})"

    @property
    def url(self) -> str:
        """Where it listens; `port` is the real one after `start`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Listen and serve in the running loop. Raises ConfigError if the address is taken."""
        listener = self._listener or listen(self.host, self.port)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            build_app(self._parts),
            access_log=False,
            http=_Protocol,
            lifespan="off",
            limit_concurrency=CONNECTIONS_MAX,
            log_config=None,
            loop="none",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_SECONDS,
            ws="none",
        )
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve([listener]), name="api")
        started = asyncio.create_task(self._server.is_up.wait())
        await asyncio.wait((self._serving, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._serving.done():
            self._serving.result()

    async def stop(self) -> None:
        """End the streams, answer what is being answered, close. Idempotent."""
        serving, self._serving = self._serving, None
        if serving is None or self._server is None:
            return
        self._parts.closing.set()
        self._server.leave()
        await serving


class _Server(uvicorn.Server):
    """A uvicorn that tells when it is up, ticks once a second, and leaves signals to the worker."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Begin to shut down."""
        self.should_exit = True
        self._leaving.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # sets the Date header, good for a second
            await happened(self._leaving, within=1.0)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Protocol(H11Protocol):
    """HTTP/1.1 that does not wait for ever for the head of a request."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waiting = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # h11 is idle until it has a whole head; a byte now and then must not start the time anew.
        if str(self.conn.their_state) != "IDLE":
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        waiting: Any = self._waiting
        if waiting is not None:
            waiting.cancel()
            self._waiting = None

"""Liveness, readiness and metrics, from a thread that answers when the loop is stuck.

An event loop of its own in a thread of its own: a probe and a scrape must work exactly when the
worker's loop does not. Rendering the metrics happens in one more thread, so a probe never waits
behind a scrape; those two threads are all there ever are. Clients are strangers here: GET and HEAD
only, no keep-alive, a time limit on each direction, and at most `connections` of them. When one
more comes, the oldest that has not finished asking has to go, so that 300 half-open sockets cannot
keep a scrape waiting (client_python#139 and its kind: a thread for each, never reaped).
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from worker.core.errors import ConfigError

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"
PAGES = ("/healthz", "/metrics", "/readyz")
MAX_HEAD_BYTES = 16_384
CHUNK_BYTES = 65_536
SNAPSHOTS_MAX = 4  # Prometheus and a person with a browser send two different Accept headers
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class HealthReport:
    """How long ago the event loop last ticked, and how long it may be silent."""

    tick_age_seconds: float
    limit_seconds: float

    @property
    def is_healthy(self) -> bool:
        """Whether the loop is younger than its limit."""
        return self.tick_age_seconds <= self.limit_seconds


@dataclass(frozen=True, slots=True)
class ReadyReport:
    """Whether this worker claims tasks; `state` says what it does instead."""

    is_ready: bool
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AdminLimits:
    """Bounds on strangers: connections at once, seconds per direction, age of a snapshot."""

    connections: int = 32
    read_seconds: float = 5.0
    write_seconds: float = 10.0
    cache_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply, before it is bytes."""

    code: int
    body: bytes
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


class BadRequest(Exception):
    """The head of a request cannot be read; `code` is the reply."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class AdminServer:
    """Serves /metrics, /healthz and /readyz.

    `render(accept)` returns the exposition and its content type and is called in the rendering
    thread, one call at a time; `health` and `ready` are called in the serving thread and must only
    read. `port` 0 takes a free one: see `url`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        render: Callable[[str | None], tuple[bytes, str]],
        health: Callable[[], HealthReport],
        ready: Callable[[], ReadyReport],
        limits: AdminLimits | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.limits = limits or AdminLimits()
        self._health = health
        self._ready = ready
        self._snapshots = Snapshots(render, cache_seconds=self.limits.cache_seconds)
        self._connections: dict[asyncio.Task[Any], Connection] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        state = "serving" if self._thread else "stopped"
        return f"AdminServer({self.url}; {state}; {len(self._connections)} connections)"

    @property
    def url(self) -> str:
        """Where it listens; `port` is the real one after `start`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Listen, then serve in a thread. Raises ConfigError when the address cannot be had."""
        listener = self._listen()
        self.port = listener.getsockname()[1]
        serving = threading.Event()
        self._thread = threading.Thread(
            target=self._serve_in_thread, args=(listener, serving), name="admin", daemon=True
        )
        self._thread.start()
        serving.wait(10)

    def stop(self) -> None:
        """Stop serving; returns when the port is free again. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(10)

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=512)
        except OSError as error:
            raise ConfigError(
                f"LOOPWORKER_ADMIN: cannot listen on {self.host}:{self.port} ({error.strerror or error}); "
                "set LOOPWORKER_ADMIN to a free host:port"
            ) from error

    def _serve_in_thread(self, listener: socket.socket, serving: threading.Event) -> None:
        # Not uvloop, even where the worker runs on it: this loop should share nothing with that.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._serve(listener, serving))

    async def _serve(self, listener: socket.socket, serving: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._meet, sock=listener, limit=MAX_HEAD_BYTES)
        serving.set()
        try:
            await self._stopping.wait()
        finally:
            server.close()
            for task in list(self._connections):
                task.cancel()
            self._snapshots.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._make_room()
        connection = self._connections[task] = Connection(writer)
        try:
            await self._converse(reader, connection)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()  # a client that went away or fell asleep is nobody's problem
        finally:
            del self._connections[task]
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                method, target, headers = await read_head(reader)
        except BadRequest as refusal:
            method, answer = "", Answer(refusal.code, f"{refusal}\n".encode())
        else:
            connection.is_asking = False
            answer = await self._answer(method, target, headers)
        await self._reply(connection.writer, answer, with_body=method != "HEAD")

    def _make_room(self) -> None:
        """Send the oldest one away while there are too many: first of those still asking."""
        present = [c for c in self._connections.values() if not c.is_leaving]
        if len(present) < self.limits.connections:
            return
        oldest = next((c for c in present if c.is_asking), present[0])
        oldest.is_leaving = True
        oldest.writer.transport.abort()

    async def _answer(self, method: str, target: str, headers: dict[str, str]) -> Answer:
        path = target.partition("?")[0]
        if path not in PAGES:
            return Answer(404, b"Here are /metrics, /healthz and /readyz.\n")
        if method not in ("GET", "HEAD"):
            return Answer(405, b"Only GET and HEAD.\n", headers=(("Allow", "GET, HEAD"),))
        try:
            if path == "/healthz":
                return tell_health(self._health())
            if path == "/readyz":
                return tell_ready(self._ready())
            body, content_type = await self._snapshots.get(headers.get("accept"))
        except Exception as error:
            # A border: a collector that raises must not look like a dead worker to the prober,
            # and whoever scrapes should read what is wrong.
            return Answer(500, f"{type(error).__name__}: cannot answer {path}\n".encode())
        return Answer(200, body, content_type, headers=(("Vary", "Accept"),))

    async def _reply(
        self, writer: asyncio.StreamWriter, answer: Answer, *, with_body: bool = True
    ) -> None:
        # With no buffer allowed, `drain` returns when the kernel has everything: a slow reader is
        # cut off by the time limit, not left behind in a transport that waits for it to close.
        writer.transport.set_write_buffer_limits(0)
        async with asyncio.timeout(self.limits.write_seconds):
            writer.write(head_of(answer))
            # In pieces, so that a slow reader holds 64 KiB of a big exposition and not all of it.
            for start in range(0, len(answer.body) if with_body else 0, CHUNK_BYTES):
                await writer.drain()
                writer.write(answer.body[start : start + CHUNK_BYTES])
            await writer.drain()


@dataclass(slots=True)
class Connection:
    """One stranger: `is_asking` until its request is read, `is_leaving` once it was sent away."""

    writer: asyncio.StreamWriter
    is_asking: bool = True
    is_leaving: bool = False


@dataclass(slots=True)
class Snapshots:
    """Renders the metrics in one thread, once for all who ask at the same time.

    Belongs to the admin loop. A snapshot serves for `cache_seconds`, so scraping in a tight loop
    cannot take the interpreter away from the worker.
    """

    render: Callable[[str | None], tuple[bytes, str]]
    cache_seconds: float
    _flights: dict[str | None, asyncio.Future[tuple[bytes, str]]] = field(default_factory=dict)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="admin-render")
    )

    async def get(self, accept: str | None) -> tuple[bytes, str]:
        """Return a rendering that is in flight or young enough, else start one."""
        flight = self._flights.get(accept)
        if flight is None:
            while len(self._flights) >= SNAPSHOTS_MAX:
                del self._flights[next(iter(self._flights))]
            loop = asyncio.get_running_loop()
            flight = loop.run_in_executor(self._pool, self.render, accept)
            self._flights[accept] = flight
            flight.add_done_callback(lambda done: self._rendered(accept, done))
        # Shielded: the one who started it may go away, the others still wait for it.
        return await asyncio.shield(flight)

    def close(self) -> None:
        """Let the thread go; a rendering that hangs is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _rendered(self, accept: str | None, flight: asyncio.Future[tuple[bytes, str]]) -> None:
        failed = flight.cancelled() or flight.exception() is not None
        delay = 0.0 if failed else self.cache_seconds
        flight.get_loop().call_later(delay, self._forget, accept, flight)

    def _forget(self, accept: str | None, flight: asyncio.Future[tuple[bytes, str]]) -> None:
        if self._flights.get(accept) is flight:
            del self._flights[accept]


async def read_head(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str]]:
    """Read one request head: method, target, headers in lower case. Raises BadRequest."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequest(431, "The request head is too long.") from None
    request, *lines = head.decode("latin-1").split("\r\n")
    words = request.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, "This is not an HTTP/1 request.")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return words[0], words[1], headers


def head_of(answer: Answer) -> bytes:
    """Write the head of a reply."""
    lines = [
        f"HTTP/1.1 {answer.code} {REASONS[answer.code]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def tell_health(report: HealthReport) -> Answer:
    """Say whether the event loop lives, and for how long it has been silent."""
    body = {
        "status": "ok" if report.is_healthy else "stuck",
        "last_tick_seconds_ago": round(report.tick_age_seconds, 3),
        "limit_seconds": report.limit_seconds,
    }
    if not report.is_healthy:
        body["reason"] = (
            f"the event loop has not ticked for {report.tick_age_seconds:.1f} s "
            f"(limit {report.limit_seconds:g} s)"
        )
    return Answer(200 if report.is_healthy else 503, json.dumps(body).encode() + b"\n", JSON)


def tell_ready(report: ReadyReport) -> Answer:
    """Say whether the worker claims tasks, and if not, what it does instead."""
    body = {"status": "ready" if report.is_ready else "not ready", "state": report.state}
    if report.reason:
        body["reason"] = report.reason
    return Answer(200 if report.is_ready else 503, json.dumps(body).encode() + b"\n", JSON)

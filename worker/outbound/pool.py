"""One pool of connections that is traced, watched, and replaced when it is poisoned.

Cancelled calls can leave httpcore's pool with connections that count as busy for ever; then every
later call ends as a PoolTimeout though nothing is going on. The pool here knows what is going on.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp
import httpx

from worker.outbound.transport import PatientTransport, ReplyStream, Sending

T = TypeVar("T")

# Trace headers only. Baggage may hold anything, so it goes to nobody.
TRACE_HEADERS = ("traceparent", "tracestate")
POOL_TIMEOUTS_MAX = 3


@dataclass(slots=True, eq=False)
class _Pool:
    """One transport with its use: requests without a reply yet, and replies still open."""

    transport: httpx.AsyncBaseTransport
    began: dict[int, float] = field(default_factory=dict)
    replies_open: int = 0

    def is_idle(self) -> bool:
        return not self.began and not self.replies_open


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRules:
    """How many connections there may be, and who is told our trace.

    `pool_seconds` is the time that a request may wait for a free connection; `trace_hosts` are
    the host names that get trace headers, everybody else gets none.
    """

    connections_max: int
    pool_seconds: float
    trace_hosts: frozenset[str]
    trace_headers: Callable[[], dict[str, str]] = dict


class WatchedPool(httpx.AsyncBaseTransport):
    """A transport over exchangeable transports; raises what they raise.

    Three PoolTimeouts in a row with free slots: the next request goes through a new transport
    from `build`, `recycled()` is called, and the old one is closed once its requests are through.
    """

    def __init__(
        self,
        build: Callable[[], httpx.AsyncBaseTransport],
        *,
        rules: PoolRules,
        recycled: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build = build
        self._rules = rules
        self._recycled = recycled
        self._clock = clock
        self._pool = _Pool(build())
        self._retired: list[_Pool] = []
        self._streak = 0
        self._serial = 0

    def __repr__(self) -> str:
        pool = self._pool
        return (
            f"WatchedPool({len(pool.began)} waiting, {pool.replies_open} open of "
            f"{self._rules.connections_max}, {len(self._retired)} retired)"
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request through the current pool."""
        if request.url.host in self._rules.trace_hosts:
            self._add_trace(request)
        response, pool = await self._through(lambda via: via.handle_async_request(request))
        response.stream = _CountedStream(response.stream, pool)
        return response

    async def send(self, sending: Sending) -> tuple[aiohttp.ClientResponse, httpx.AsyncByteStream]:
        """Send one request and return its reply and the body, which the caller closes.

        For our own requests, over a `PatientTransport` only: httpx's request and response, which
        say nothing that we do not know, cost as much as aiohttp's sending does.
        """
        if sending.url.host in self._rules.trace_hosts:
            own = {name.lower() for name, _ in sending.headers}
            sending.headers += [pair for pair in self._trace() if pair[0] not in own]

        def send(via: httpx.AsyncBaseTransport) -> Awaitable[aiohttp.ClientResponse]:
            assert isinstance(via, PatientTransport)
            return via.send(sending)

        reply, pool = await self._through(send)
        return reply, _CountedStream(ReplyStream(reply, None), pool)

    async def _through(
        self, send: Callable[[httpx.AsyncBaseTransport], Awaitable[T]]
    ) -> tuple[T, _Pool]:
        if self._retired:
            await self._close(pool for pool in tuple(self._retired) if pool.is_idle())
        pool = self._pool
        self._serial = number = self._serial + 1
        pool.began[number] = self._clock()
        try:
            reply = await send(pool.transport)
        except httpx.PoolTimeout:
            self._count_pool_timeout(pool, number)
            raise
        except httpx.RequestError:
            self._streak = 0
            raise
        finally:
            del pool.began[number]
        self._streak = 0
        pool.replies_open += 1
        return reply, pool

    async def aclose(self) -> None:
        """Close every pool, old ones too. Idempotent."""
        await self._close([*self._retired, self._pool])

    def _add_trace(self, request: httpx.Request) -> None:
        for name, value in self._trace():
            if name not in request.headers:
                request.headers[name] = value

    def _trace(self) -> list[tuple[str, str]]:
        offered = self._rules.trace_headers()
        return [(name, offered[name]) for name in TRACE_HEADERS if name in offered]

    def _count_pool_timeout(self, pool: _Pool, number: int) -> None:
        if pool is not self._pool:
            return
        self._streak += 1
        if self._streak < POOL_TIMEOUTS_MAX or self._busy(number) >= self._rules.connections_max:
            return
        self._streak = 0
        self._retired.append(pool)
        self._pool = _Pool(self._build())
        self._recycled()

    def _busy(self, number: int) -> int:
        """Count the connections that requests other than `number` must be holding.

        Whoever has waited for a reply far longer than one may wait for a connection has got one.
        """
        long_ago = self._clock() - 2 * self._rules.pool_seconds
        held = sum(1 for key, at in self._pool.began.items() if at < long_ago and key != number)
        return self._pool.replies_open + held

    async def _close(self, pools: Iterable[_Pool]) -> None:
        for pool in pools:
            if pool in self._retired:
                self._retired.remove(pool)
            await pool.transport.aclose()


class _CountedStream(httpx.AsyncByteStream):
    """The inner body, and one open reply less when it is closed."""

    def __init__(self, inner: object, pool: _Pool) -> None:
        assert isinstance(inner, httpx.AsyncByteStream)
        self._inner = inner
        self._pool: _Pool | None = pool

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._inner.__aiter__()

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.replies_open -= 1
        await self._inner.aclose()

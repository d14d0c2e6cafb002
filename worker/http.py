"""The one home of outbound HTTP: pooled, bounded, traced, with honest time limits.

Three users: our own requests (model, result callbacks) call `HttpClient.request` and `stream` and
see `AttemptFailed`; tools get `HttpClient.client`, a plain `httpx.AsyncClient` with httpx's own
exceptions (or one that keeps cookies); untrusted addresses go through `outbound/fetch.py`.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Literal

import httpx

from worker.core.errors import AttemptFailed, AttemptTimeout, ConfigError
from worker.outbound.cookies import Borrowed
from worker.outbound.cookies import CookieClient as CookieClient
from worker.outbound.failures import failure_of, failure_of_status
from worker.outbound.pool import PoolRules, WatchedPool
from worker.outbound.tls import trust_of
from worker.outbound.transport import PatientTransport, Sending, target_of
from worker.telemetry.signals import ClientRecycled

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
USER_AGENT = "loopworker"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How the client behaves; times in seconds, sizes in bytes.

    `connect_seconds` covers look-up, connecting and TLS; `read_seconds` one silence of the server;
    `total_seconds` the whole exchange. `idle_seconds` is shorter than what servers usually keep a
    quiet connection for, so that it is us who close it. `trust_env` takes proxies from the
    environment. `trace_hosts` are told our trace, nobody else is.
    """

    transport: Literal["aiohttp", "httpx"] = "aiohttp"
    body_bytes_max: int = 2 * 1024 * 1024
    ca_file: str | None = None
    connections_max: int = 100
    connect_seconds: float = 5.0
    idle_seconds: float = 15.0
    pool_seconds: float = 5.0
    read_seconds: float = 30.0
    total_seconds: float = 60.0
    trace_hosts: frozenset[str] = LOOPBACK
    trust_env: bool = False
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one exchange may take; None means the client's own default."""

    total_seconds: float | None = None
    read_seconds: float | None = None
    body_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete reply, its body decoded."""

    status: int
    headers: httpx.Headers
    body: bytes

    def raise_for_status(self) -> HttpReply:
        """Return self; raise AttemptFailed for a status of 400 or more."""
        if self.status >= 400:
            raise failure_of_status(self.status)
        return self


@dataclass(slots=True)
class HttpStream:
    """A reply whose body is still arriving."""

    status: int
    headers: httpx.Headers
    _body: AsyncIterable[bytes] = field(repr=False)
    _bytes_max: int

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Iterate over the decoded body; a body over the limit raises `result_too_large`."""
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            self._check(size)
            yield chunk

    async def read(self) -> bytes:
        """Read the body to its end, within the limit."""
        pieces, size = [], 0
        async for chunk in self._body:
            size += len(chunk)
            self._check(size)
            pieces.append(chunk)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _check(self, size: int) -> None:
        if size > self._bytes_max:
            raise AttemptFailed(
                f"the reply is larger than {self._bytes_max} bytes",
                kind="result_too_large",
                status_code=self.status,
                retryable=False,
            )


# Status, headers and decoded body of a reply, and how to close it.
_Begun = tuple[int, httpx.Headers, AsyncIterable[bytes], Callable[[], Awaitable[None]]]


def _ignore(signal: ClientRecycled) -> None:
    pass


class HttpClient:
    """Pooled connections to whoever is asked.

    Nothing is followed, kept or sent twice: redirects are returned, cookies forgotten, a broken
    connection is an error. Proxies of the environment are used only with `trust_env`.
    """

    def __init__(
        self,
        options: HttpOptions = HttpOptions(),
        *,
        name: str = "http",
        trace_headers: Callable[[], dict[str, str]] = dict,
        tell: Callable[[ClientRecycled], None] = _ignore,
    ) -> None:
        self.options = options
        self.name = name
        self._tell = tell
        self._rules = PoolRules(
            connections_max=options.connections_max,
            pool_seconds=options.pool_seconds,
            trace_hosts=options.trace_hosts,
            trace_headers=trace_headers,
        )
        self._tls = trust_of(verify=options.verify, ca_file=options.ca_file)
        self._pool = self._watched(None)
        self._mounts = self._proxies() if options.trust_env else {}
        self._is_direct = options.transport == "aiohttp" and not self._mounts
        # One client serves everybody: what one caller is given must not reach the next.
        forgetting = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self.client = self._client(forgetting, self._pool, self._mounts)

    def __repr__(self) -> str:
        return f"HttpClient({self.name}, {self.options.transport}, {self._pool!r})"

    async def request(
        self,
        method: str,
        url: httpx.URL | str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | httpx.Headers | None = None,
        bounds: Bounds = Bounds(),
    ) -> HttpReply:
        """Make one exchange and read the whole reply.

        Raises AttemptFailed (a timeout as AttemptTimeout) when there is no complete reply within
        the bounds; a reply with any status is returned. Cancelled: the connection is closed.
        """
        exchange = self.stream(method, url, content=content, headers=headers, bounds=bounds)
        async with exchange as reply:
            return HttpReply(reply.status, reply.headers, await reply.read())

    async def get(self, url: httpx.URL | str, *, bounds: Bounds = Bounds()) -> HttpReply:
        """Get a page; see `request`."""
        return await self.request("GET", url, bounds=bounds)

    async def post(
        self,
        url: httpx.URL | str,
        *,
        content: bytes,
        headers: Mapping[str, str] | httpx.Headers | None = None,
        bounds: Bounds = Bounds(),
    ) -> HttpReply:
        """Post a body; see `request`."""
        return await self.request("POST", url, content=content, headers=headers, bounds=bounds)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: httpx.URL | str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | httpx.Headers | None = None,
        bounds: Bounds = Bounds(),
    ) -> AsyncIterator[HttpStream]:
        """Make one exchange and hand out the reply while its body arrives.

        The total time runs until the block is left. Raises as `request` does, also for what goes
        wrong while the block reads. Leaving early closes the connection.
        """
        total = bounds.total_seconds or self.options.total_seconds
        exchange = self._exchange(method, url, content, headers, bounds)
        try:
            async with asyncio.timeout(total) as limit:
                status, shown, body, close = await exchange
                try:
                    bytes_max = bounds.body_bytes_max or self.options.body_bytes_max
                    yield HttpStream(status, shown, body, bytes_max)
                finally:
                    await close()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise AttemptTimeout(f"no complete reply within {total:g} s") from error
        except (httpx.RequestError, httpx.StreamError) as error:
            raise failure_of(error) from error

    def keeping_cookies(self, kept: Iterable[Mapping[str, Any]] = ()) -> CookieClient:
        """A client over the same connections that keeps the cookies of one owner.

        `kept` is what an earlier one wrote down. It need not be closed.
        """
        pool = Borrowed(self._pool)
        mounts = {name: each and Borrowed(each) for name, each in self._mounts.items()}
        return CookieClient(lambda jar: self._client(jar, pool, mounts), kept)

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self.client.aclose()

    def _client(
        self,
        jar: CookieJar,
        transport: httpx.AsyncBaseTransport,
        mounts: Mapping[str, httpx.AsyncBaseTransport | None],
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=transport,
            mounts=mounts,
            trust_env=False,
            timeout=self._timeout(self.options.read_seconds),
            headers={"user-agent": USER_AGENT},
            cookies=jar,
        )

    async def _exchange(
        self,
        method: str,
        url: httpx.URL | str,
        content: bytes | None,
        headers: Mapping[str, str] | httpx.Headers | None,
        bounds: Bounds,
    ) -> _Begun:
        read = bounds.read_seconds or self.options.read_seconds
        given = list(headers.items()) if headers else []
        if all(name.lower() != "user-agent" for name, _ in given):
            given.append(("user-agent", USER_AGENT))
        if not self._is_direct:
            return await self._exchange_by_httpx(method, url, content, given, read)
        # Straight to the pool: cookies, redirects and auth, which httpx's client would see to,
        # do not exist here.
        options = self.options
        sending = Sending(
            method,
            target_of(str(url)),
            given,
            content,
            connect=options.connect_seconds,
            read=read,
            pool=options.pool_seconds,
        )
        reply, body = await self._pool.send(sending)
        shown = httpx.Headers(reply.raw_headers)
        decoded: AsyncIterable[bytes] = body
        if "content-encoding" in reply.headers:  # asked of aiohttp, whose look-up is quick
            decoded = httpx.Response(reply.status, headers=shown, stream=body).aiter_bytes()
        return reply.status, shown, decoded, body.aclose

    async def _exchange_by_httpx(
        self,
        method: str,
        url: httpx.URL | str,
        content: bytes | None,
        headers: list[tuple[str, str]],
        read_seconds: float,
    ) -> _Begun:
        timeout = self._timeout(read_seconds).as_dict()
        target_of(str(url))
        request = httpx.Request(
            method, url, content=content, headers=headers, extensions={"timeout": timeout}
        )
        if self._mounts:
            response = await self.client.send(request, stream=True)
        else:
            response = await self._pool.handle_async_request(request)
            response.request = request
        return response.status_code, response.headers, response.aiter_bytes(), response.aclose

    def _timeout(self, read_seconds: float) -> httpx.Timeout:
        return httpx.Timeout(
            connect=self.options.connect_seconds,
            read=read_seconds,
            write=read_seconds,
            pool=self.options.pool_seconds,
        )

    def _watched(self, proxy: str | None) -> WatchedPool:
        return WatchedPool(
            lambda: self._transport(proxy),
            rules=self._rules,
            recycled=lambda: self._tell(ClientRecycled(target=self.name)),
        )

    def _transport(self, proxy: str | None) -> httpx.AsyncBaseTransport:
        through = httpx.Proxy(proxy) if proxy else None
        limits = httpx.Limits(
            max_connections=self.options.connections_max,
            max_keepalive_connections=self.options.connections_max,
            keepalive_expiry=self.options.idle_seconds,
        )
        if self.options.transport == "aiohttp":
            return PatientTransport(tls=self._tls, limits=limits, proxy=through)
        return httpx.AsyncHTTPTransport(
            verify=self._tls, limits=limits, proxy=through, trust_env=False
        )

    def _proxies(self) -> dict[str, httpx.AsyncBaseTransport | None]:
        """Read the proxies of the environment, as httpx's mounts."""
        found = urllib.request.getproxies()
        mounts: dict[str, httpx.AsyncBaseTransport | None] = {}
        for scheme in ("http", "https", "all"):
            if not (url := found.get(scheme)):
                continue
            try:
                mounts[f"{scheme}://"] = self._watched(url if "://" in url else f"http://{url}")
            except (ValueError, httpx.InvalidURL) as error:
                raise ConfigError(  # without the value: it may hold a password
                    f"{scheme.upper()}_PROXY is no proxy that can be used; write http://host:port, or"
                    " leave LOOPWORKER_OUTBOUND__PROXIES_FROM_ENVIRONMENT off"
                ) from error
        direct = [host.strip() for host in found.get("no", "").split(",") if host.strip()]
        if "*" in direct:
            return {}
        for host in direct:
            name = host.removeprefix(".")
            mounts[f"all://{name}"] = None  # None: the client's own transport
            mounts[f"all://*.{name}"] = None
        return mounts

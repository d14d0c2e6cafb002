"""httpx's transport interface over aiohttp, with the differences mended that the tests found.

`httpx_aiohttp.AiohttpTransport` is a fifth of the cost of httpx's own pool and survives cancelled
calls. Used as it comes, it differs from httpx where it matters here:

- a connection that breaks before the reply is reported as a connect timeout, so a retry of a
  write would be thought safe; a garbage status line and an over-long header escape as aiohttp's
  own errors; a full pool and a slow connect look the same;
- the time allowed for waiting for a free connection also cuts the connecting;
- cookies are kept in the session and reach the next caller;
- GET, PUT and DELETE are sent a second time, unasked and uncounted, when the connection breaks;
- the URL is quoted anew, which breaks signed ones;
- a reply that is closed early waits for its request body to be sent.

So the parts that hold (construction, TLS, closing) are kept and the request is made here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from yarl import URL

from worker.core.errors import AttemptFailed
from worker.outbound.failures import failure_of

# Names, not classes: aiohttp adds these by itself; what httpx says is what is sent.
NOT_BY_ITSELF = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
HEADER_BYTES_MAX = 64 * 1024  # as much as httpx takes; aiohttp's 8 KiB is less than some cookies


# How long the current request may wait for a free connection: aiohttp has no place for it.
POOL_SECONDS: ContextVar[float | None] = ContextVar("loopworker_pool_seconds", default=None)


@dataclass(slots=True)
class Sending:
    """A request that needs nothing of httpx: as much as aiohttp is told. Seconds, each."""

    method: str
    url: URL
    headers: list[tuple[str, str]]
    body: Any  # bytes, a stream of them, or None
    connect: float | None
    read: float | None
    pool: float | None


class ConnectingTooLong(TimeoutError):
    """Looking up, connecting and shaking hands took longer than allowed."""


class Connector(aiohttp.TCPConnector):
    """A pool that tells a slow connect from a full pool, and bounds the look-up too."""

    async def _wait_for_available_connection(self, key: Any, traces: Any) -> None:
        async with asyncio.timeout(POOL_SECONDS.get()):
            await super()._wait_for_available_connection(key, traces)

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        try:
            async with asyncio.timeout(timeout.sock_connect):
                return await super()._create_connection(req, traces, timeout)
        except TimeoutError as error:
            raise ConnectingTooLong from error


class PatientTransport(AiohttpTransport):
    """An `httpx.AsyncBaseTransport` over one aiohttp session.

    Raises httpx's exceptions only, and sends each request at most once. The session is made on
    first use, in the loop that uses it. Cancelled: the connection in use is closed, the pool
    stays as good as it was.
    """

    def __init__(
        self,
        *,
        tls: Any,
        limits: httpx.Limits,
        proxy: httpx.Proxy | None = None,
        resolver: aiohttp.abc.AbstractResolver | None = None,
        socket_factory: Callable[[Any], socket.socket] | None = None,
    ) -> None:
        super().__init__(verify=tls, limits=limits, proxy=proxy, trust_env=False)
        self._resolver = resolver
        self._socket_factory = socket_factory
        self._session: aiohttp.ClientSession | None = None
        self._proxy_options = _proxy_options(proxy)

    def get_client(self) -> aiohttp.ClientSession:
        """Build the session: no cookies, no environment, no second sending."""
        connector = Connector(
            limit=self.limits.max_connections or 0,
            keepalive_timeout=self.limits.keepalive_expiry,
            ssl=self.ssl_context,
            resolver=self._resolver,
            socket_factory=self._socket_factory,
            use_dns_cache=self._resolver is None,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=NOT_BY_ITSELF,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        # Not public, and pinned by a test: a second sending would escape the guard's count.
        session._retry_connection = False
        return session

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; return when the head of the reply is there."""
        if request.url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol("the URL is neither http nor https", request=request)
        given = request.extensions.get("timeout") or {}
        body = _body_of(request)
        sending = Sending(
            request.method,
            URL(str(request.url), encoded=True),
            request.headers.multi_items(),
            body,
            given.get("connect"),
            given.get("read"),
            given.get("pool"),
        )
        name = request.extensions.get("sni_hostname")
        reply = await self.send(sending, request=request, server_hostname=name)
        return httpx.Response(
            reply.status,
            headers=reply.raw_headers,
            stream=ReplyStream(reply, request),
            request=request,
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": (reply.reason or "").encode("latin-1", "replace"),
            },
        )

    async def send(
        self,
        sending: Sending,
        *,
        request: httpx.Request | None = None,
        server_hostname: str | None = None,
    ) -> aiohttp.ClientResponse:
        """Send one request; return when the head of the reply is there.

        What httpx's objects around it are not needed for. Raises httpx's exceptions, about
        `request`.
        """
        session = self._session
        if session is None:
            session = self._session = self.client = self.get_client()
        POOL_SECONDS.set(sending.pool)
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=sending.connect, sock_read=sending.read
        )
        try:
            return await session.request(
                sending.method,
                sending.url,
                headers=sending.headers,
                data=sending.body,
                allow_redirects=False,
                timeout=timeout,
                server_hostname=server_hostname,
                **self._proxy_options,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise translated(error, request) from error

    async def aclose(self) -> None:
        """Close all connections, those in use as well. Idempotent."""
        if self._session is not None:
            await self._session.close()


class ReplyStream(httpx.AsyncByteStream):
    """The body of one reply, as it arrives and still encoded."""

    def __init__(self, reply: aiohttp.ClientResponse, request: httpx.Request | None) -> None:
        self._reply = reply
        self._request = request
        self._chunks = reply.content.iter_any()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self  # no generator: the loop would keep a list of it, for each reply

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._chunks)
        except (aiohttp.ClientError, OSError) as error:
            raise translated(error, self._request) from error

    async def aclose(self) -> None:
        """Give the connection back, or close it when something is still to come. Never waits."""
        if self._reply.content.at_eof():
            self._reply.release()
        else:
            self._reply.close()


@lru_cache(maxsize=256)
def target_of(url: str) -> URL:
    """The URL as it is sent. Raises AttemptFailed for one that nothing can be sent to."""
    try:
        read = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise failure_of(error) from error
    if read.scheme not in ("http", "https") or not read.host:
        raise AttemptFailed(
            "the URL is not http(s)://host/…", kind="internal", retryable=False, sent=False
        )
    return URL(str(read), encoded=True)


def _body_of(request: httpx.Request) -> Any:
    try:
        return request.content or None
    except httpx.RequestNotRead:
        # aiohttp frames the stream by itself, and refuses a header that says so already.
        request.headers.pop("transfer-encoding", None)
        return request.stream


def _proxy_options(proxy: httpx.Proxy | None) -> dict[str, Any]:
    if proxy is None:
        return {}
    options: dict[str, Any] = {"proxy": str(proxy.url), "proxy_headers": proxy.headers}
    if proxy.auth is not None:
        options["proxy_auth"] = aiohttp.BasicAuth(*proxy.auth)
    return options


def translated(error: Exception, request: httpx.Request | None) -> Exception:
    """Return httpx's word for an error of aiohttp; an unknown one is a ReadError.

    Errors that are ours or a programmer's (a ValueError that is no URL error) come back unchanged.
    """
    kind = _kind_of(error)
    if kind is None:
        return error
    return kind(_text_of(error), request=request)


def _kind_of(error: Exception) -> type[httpx.RequestError] | None:
    match error:
        case aiohttp.ConnectionTimeoutError():
            slow = isinstance(error.__cause__, ConnectingTooLong)
            return httpx.ConnectTimeout if slow else httpx.PoolTimeout
        case TimeoutError():  # SocketTimeoutError among them
            return httpx.ReadTimeout
        case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
            return httpx.ProxyError
        case aiohttp.ClientConnectorError() | aiohttp.ServerFingerprintMismatch():
            return httpx.ConnectError
        case aiohttp.InvalidURL():
            return httpx.UnsupportedProtocol
        case (
            aiohttp.ServerDisconnectedError()
            | aiohttp.ClientResponseError()
            | aiohttp.ClientPayloadError()
        ):
            return httpx.RemoteProtocolError
        case aiohttp.ClientError() | OSError():
            return httpx.ReadError
    return None


def _text_of(error: Exception) -> str:
    # aiohttp writes the whole URL into these, and a query may hold a key.
    match error:
        case aiohttp.ClientResponseError():
            return error.message or type(error).__name__
        case aiohttp.ConnectionTimeoutError() | aiohttp.InvalidURL():
            return type(error).__name__
    return str(error) or type(error).__name__

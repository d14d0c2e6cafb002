"""A server behind an address: the SDK's streamable HTTP, over a client that is bounded.

The SDK lets a failed connection end the whole session, and tells of a refused request neither its
status nor how long to wait. So this client answers for a server that cannot be reached, with an
error for that one request which holds all that is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from mcp.client.streamable_http import streamable_http_client

from worker.mcp.faults import HTTP_FAILED
from worker.mcp.streams import Untraced

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 2.0  # for the goodbye; a server that hangs is not waited for
CONNECTIONS_MAX = 200  # the guard's bulkhead is narrower
ERROR_BYTES_MAX = 65_536
STREAM_GAP_SECONDS = 1.0
STREAM_FACTOR = 16  # a stream of one answer may hold progress beside it
TOO_LONG = "the answer has more than"

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
# Of the HTTP layer, whatever their body says; any other may carry an error of the protocol.
_BY_STATUS = frozenset({401, 402, 403, 404, 407, 408, 410, 413, 429})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is. `traced`: it may learn of our traces.

    `silence_seconds` is the longest silence within the answer to a request; by then the guard has
    given the call up, and the connection would be held for nothing.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    message_bytes_max: int = 4 * 2**20
    traced: bool = False
    proxies: bool = False
    agent: str = "loopworker"
    silence_seconds: float = 60.0


@contextlib.asynccontextmanager
async def streamable(address: Address) -> AsyncIterator[tuple[Any, Any]]:
    """Give the streams to and from the server, for the SDK. Cancelled: connections are closed."""
    limits = httpx2.Limits(max_connections=CONNECTIONS_MAX)
    wire = httpx2.AsyncHTTPTransport(
        verify=_certificates(), trust_env=False, limits=limits, proxy=_proxy_for(address)
    )
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)  # a stream of news may be silent
    headers = {"user-agent": address.agent, **address.headers, "accept-encoding": "identity"}
    client = httpx2.AsyncClient(
        transport=Bounded(wire, address.message_bytes_max, silence_seconds=address.silence_seconds),
        headers=headers,
        timeout=timeout,
        trust_env=False,
    )
    async with (
        client,
        streamable_http_client(
            address.url, http_client=client, max_sse_event_size=address.message_bytes_max
        ) as (incoming, outgoing),
    ):
        yield incoming, outgoing if address.traced else Untraced(outgoing)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """The machine's own store, or the one that is named; read once, not at each connecting."""
    context = ssl.create_default_context()
    file = os.environ.get("SSL_CERT_FILE")
    if file:
        context.load_verify_locations(cafile=file)
    return context


def _proxy_for(address: Address) -> str | None:
    parts = urlsplit(address.url)
    if not address.proxies or proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


class BodyTooLong(httpx2.StreamError):
    """An answer is longer than is read; the SDK turns it into an error of that request."""


class BodyLost(httpx2.StreamError):
    """An answer broke off; the SDK turns it into an error of that request."""


class Bounded(httpx2.AsyncBaseTransport):
    """Bounds every answer, and turns what a server or a network fails at into an error of one
    request."""

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, bytes_max: int, *, silence_seconds: float = 60.0
    ) -> None:
        self._inner = inner
        self._bytes_max = bytes_max
        self._silence_seconds = silence_seconds
        self._streams_at = -STREAM_GAP_SECONDS  # when the last stream was asked for

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request. Raises only for what is no POST. Cancelled: it may have been sent."""
        limits = dict(request.extensions.get("timeout", {}))
        if request.method == "DELETE":
            limits = dict.fromkeys(("connect", "read", "write", "pool"), CLOSE_SECONDS)
        elif request.method == "POST":
            limits["read"] = self._silence_seconds
        else:
            await self._pace()
        request.extensions = {**request.extensions, "timeout": limits}
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            return _unreachable(error)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return _failure(502, "it answers compressed, though it was asked not to")
        if request.method == "POST" and response.status_code >= 400:
            return await self._refused(response)
        is_stream = "event-stream" in response.headers.get("content-type", "")
        limit = self._bytes_max * (STREAM_FACTOR if is_stream else 1)
        endless = request.method == "GET"  # its events are bounded one by one
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Body(response.stream, None if endless else limit)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def _pace(self) -> None:
        """Ask for streams no faster than this: how soon, the server may say, and it may say 0."""
        clock = asyncio.get_running_loop().time
        at = max(clock(), self._streams_at + STREAM_GAP_SECONDS)
        self._streams_at = at
        await asyncio.sleep(max(0.0, at - clock()))

    async def _refused(self, response: httpx2.Response) -> httpx2.Response:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        body = await _beginning(response.stream)
        said = _protocol_error(body)
        if said is not None and response.status_code not in _BY_STATUS:
            return httpx2.Response(
                response.status_code, headers={"content-type": "application/json"}, content=body
            )
        text = (said or {}).get("message") or body.decode("utf-8", "replace").strip()[:300]
        return _failure(
            response.status_code,
            f"HTTP {response.status_code}: {text}" if text else f"HTTP {response.status_code}",
            retry_after=response.headers.get("retry-after"),
        )


class _Body(httpx2.AsyncByteStream):
    """A body of at most so many bytes."""

    def __init__(self, inner: httpx2.AsyncByteStream, bytes_max: int | None) -> None:
        self._inner = inner
        self._bytes_max = bytes_max

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        try:
            async for chunk in self._inner:
                count += len(chunk)
                if self._bytes_max is not None and count > self._bytes_max:
                    raise BodyTooLong(f"{TOO_LONG} {self._bytes_max} bytes")
                yield chunk
        except httpx2.TransportError as error:
            raise BodyLost(f"the answer broke off ({type(error).__name__})") from error

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _beginning(stream: httpx2.AsyncByteStream) -> bytes:
    body = b""
    try:
        async for chunk in stream:
            body += chunk
            if len(body) > ERROR_BYTES_MAX:
                break
    except httpx2.TransportError:
        pass  # the status says enough
    finally:
        await stream.aclose()
    return body[:ERROR_BYTES_MAX]


def _protocol_error(body: bytes) -> dict[str, Any] | None:
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_one = isinstance(error, dict) and isinstance(error.get("code"), int)
    return error if is_one and isinstance(error.get("message"), str) else None


def _unreachable(error: httpx2.TransportError) -> httpx2.Response:
    is_slow = isinstance(error, httpx2.TimeoutException)
    text = f"no connection ({type(error).__name__}: {str(error)[:200]})"
    data = {
        "kind": "timeout" if is_slow else "connection",
        "sent": not isinstance(error, _NOT_SENT),
    }
    return _answer(503, text, data)


def _failure(status: int, text: str, *, retry_after: str | None = None) -> httpx2.Response:
    kind = "rate_limited" if status == 429 else "http_5xx" if status >= 500 else "http_4xx"
    data: dict[str, Any] = {"kind": kind, "status": status}
    if status in (401, 403, 404, 407, 410, 429):
        data["sent"] = False  # it was turned away before anything was done
    if retry_after is not None and retry_after.strip().isascii() and retry_after.strip().isdigit():
        data["retry_after"] = float(retry_after)
    return _answer(status, text, data)


def _answer(status: int, text: str, data: dict[str, Any]) -> httpx2.Response:
    body = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": HTTP_FAILED, "message": text, "data": data},
    }
    return httpx2.Response(status, json=body)

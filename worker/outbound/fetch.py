"""Fetch a page whose URL nobody vouches for.

The address is judged where it is connected to: the names are looked up by our resolver inside the
connector, and each socket is made only for an address that passed. So a name that answers
differently the second time changes nothing. Every redirect is judged like the first URL. Nothing
is sent along: no cookies, no credentials, no trace, and never through a proxy, which would do
its own look-up.
"""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from email.message import Message
from typing import Any

import aiohttp
import httpx

from worker.core.errors import AttemptFailed, AttemptTimeout
from worker.outbound.addresses import WEB_PORTS, UrlRefused, checked_url, is_public
from worker.outbound.failures import failure_of
from worker.outbound.tls import usual_trust
from worker.outbound.transport import PatientTransport

REDIRECTS = frozenset({301, 302, 303, 307, 308})
REDIRECTS_MAX = 5
HEADERS = {
    "user-agent": "loopworker",
    "accept": "text/html, text/*;q=0.9, */*;q=0.5",
    "accept-encoding": "gzip",
}

Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """What was found. `url` is where it was found, after redirects; `body` is decoded bytes."""

    url: str
    status: int
    content_type: str
    body: bytes
    truncated: bool

    @property
    def text(self) -> str:
        """Return the body as text, by its declared charset, else UTF-8; never raises."""
        header = Message()
        header["content-type"] = self.content_type
        charset = header.get_content_charset("utf-8")
        try:
            return self.body.decode(charset, "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system knows them; raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def fetch_guarded(
    url: str,
    *,
    allow_hosts: Collection[str] = (),
    max_bytes: int = 1024 * 1024,
    timeout_seconds: float = 10.0,
    ports: Collection[int] = WEB_PORTS,
    resolve: Resolve = look_up,
) -> FetchedPage:
    """Get a page from the public internet, at most `max_bytes` of it.

    Hosts in `allow_hosts` may be private and have any port. Raises UrlRefused (a ToolError: the
    URL is the mistake) and AttemptFailed (the page could not be had within `timeout_seconds`); a
    page with any status is returned. Cancelled: the connection is closed.
    """
    gate = Gate(frozenset(host.lower() for host in allow_hosts), resolve)
    transport = PatientTransport(
        tls=usual_trust(),
        limits=httpx.Limits(max_connections=2, keepalive_expiry=1),
        resolver=gate,
        socket_factory=gate.open_socket,
    )
    try:
        async with asyncio.timeout(timeout_seconds) as limit:
            return await _follow(transport, gate, url, frozenset(ports), max_bytes)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise AttemptTimeout(f"no complete page within {timeout_seconds:g} s") from error
    except httpx.RequestError as error:
        if gate.refusal is not None:
            raise UrlRefused(gate.refusal) from error
        raise failure_of(error) from error
    finally:
        await transport.aclose()


class Gate(aiohttp.abc.AbstractResolver):
    """Looks names up and lets only judged addresses through; `refusal` tells what it refused."""

    def __init__(self, allow_hosts: frozenset[str], resolve: Resolve) -> None:
        self.allow_hosts = allow_hosts
        self.refusal: str | None = None
        self._resolve = resolve
        self._vouched: set[str] = set()  # addresses of the host looked up last, if listed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[Any]:
        """Return the addresses of `host` that may be connected to."""
        found = await self._resolve(host, port)
        # For this name only: what a listed host may reach, another name may not.
        self._vouched = set(found) if host in self.allow_hosts else set()
        passed = [address for address in found if self._may_connect(address)]
        if found and not passed:
            self.refusal = f"{host} has no public address"
        if not passed:
            raise OSError(f"no address for {host}")
        return [_resolved(host, port, address) for address in passed]

    async def close(self) -> None:
        """Nothing is held."""

    def open_socket(self, target: Any) -> socket.socket:
        """Make the socket for one address; this is the last look at it."""
        family, kind, protocol, _, where = target
        if not self._may_connect(str(where[0])):
            self.refusal = f"{where[0]} is not a public address"
            raise OSError(self.refusal)
        return socket.socket(family, kind, protocol)

    def _may_connect(self, address: str) -> bool:
        return address in self._vouched or address in self.allow_hosts or is_public(address)


def _resolved(host: str, port: int, address: str) -> dict[str, Any]:
    return {
        "hostname": host,
        "host": address,
        "port": port,
        "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
        "proto": socket.IPPROTO_TCP,
        "flags": socket.AI_NUMERICHOST,
    }


async def _follow(
    transport: PatientTransport, gate: Gate, start: str, ports: frozenset[int], max_bytes: int
) -> FetchedPage:
    url = checked_url(start, ports=ports, allow_hosts=gate.allow_hosts)
    for _ in range(REDIRECTS_MAX + 1):
        timeout = {"connect": 5.0, "read": 10.0, "write": 10.0, "pool": 5.0}
        request = httpx.Request("GET", url, headers=HEADERS, extensions={"timeout": timeout})
        response = await transport.handle_async_request(request)
        try:
            target = response.headers.get("location")
            if response.status_code not in REDIRECTS or target is None:
                body, truncated = await _read(response, max_bytes)
                kind = response.headers.get("content-type", "")
                return FetchedPage(str(url), response.status_code, kind, body, truncated)
        finally:
            await response.aclose()
        url = checked_url(_joined(url, target), ports=ports, allow_hosts=gate.allow_hosts)
    raise UrlRefused(f"more than {REDIRECTS_MAX} redirects")


def _joined(url: httpx.URL, target: str) -> httpx.URL:
    try:
        return url.join(target)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise UrlRefused("redirected to something that is no URL") from error


async def _read(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    body = bytearray()
    async with aclosing(_decoded(response, max_bytes + 1)) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > max_bytes:
                break
    return bytes(body[:max_bytes]), len(body) > max_bytes


async def _decoded(response: httpx.Response, step: int) -> AsyncGenerator[bytes, None]:
    """Decode in bounded steps: a few kB of gzip can stand for gigabytes."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise AttemptFailed("the page has an encoding that was not asked for", kind="other")
    unzip = zlib.decompressobj(16 + zlib.MAX_WBITS) if "gzip" in encoding else None
    async for chunk in response.aiter_raw():
        if unzip is None:
            yield chunk
            continue
        try:
            yield unzip.decompress(chunk, step)
            while unzip.unconsumed_tail:
                yield unzip.decompress(unzip.unconsumed_tail, step)
        except zlib.error as error:
            raise AttemptFailed("the page is not the gzip it claims to be", kind="other") from error

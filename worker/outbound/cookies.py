"""A client that keeps its cookies, over the connections that everybody shares.

What one caller is given must not reach the next, so the shared client forgets every cookie; whoever
needs some has a jar of their own. A jar can be written down and taken up again elsewhere. Cookies
are keys: what is written here goes where secrets may go, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

COOKIES_MAX = 300  # what a browser keeps of all sites together, by the old rule
_FIELDS = (
    *("version", "name", "value", "port", "port_specified", "domain", "domain_specified"),
    *("domain_initial_dot", "path", "path_specified", "secure", "expires", "discard"),
    *("comment", "comment_url"),
)


class CookieClient:
    """An `httpx.AsyncClient` with a jar of its own, for one owner after another.

    `build` makes a client over the shared connections for a jar. A client that its user has closed
    is made anew.
    """

    def __init__(
        self,
        build: Callable[[CookieJar], httpx.AsyncClient],
        kept: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self._build = build
        self._jar = _jar(kept)
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"CookieClient({len(self._jar)} cookies)"

    @property
    def client(self) -> httpx.AsyncClient:
        """The client; the same one until it is closed or renewed."""
        if self._client is None or self._client.is_closed:
            self._client = self._build(self._jar)
        return self._client

    def kept(self) -> list[dict[str, Any]]:
        """Write the cookies down, those that have expired left out."""
        self._jar.clear_expired_cookies()
        return [
            {name: getattr(cookie, name) for name in _FIELDS if getattr(cookie, name) is not None}
            for cookie in self._jar
        ]

    def renew(self) -> None:
        """Part from whoever still uses the client: the cookies are copied, the jar is theirs."""
        self._jar, self._client = _jar(self.kept()), None


class Borrowed(httpx.AsyncBaseTransport):
    """Somebody else's transport: closing it closes nothing."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request through the owner's connections."""
        return await self._transport.handle_async_request(request)


class _Bounded(DefaultCookiePolicy):
    """The usual policy, and no more cookies than a jar may hold."""

    jar: CookieJar

    def set_ok(self, cookie: Cookie, request: Any) -> bool:
        """Take a cookie that the site may set, while there is room."""
        return super().set_ok(cookie, request) and (
            len(self.jar) < COOKIES_MAX or any(_is_same(cookie, each) for each in self.jar)
        )


def _is_same(one: Cookie, other: Cookie) -> bool:
    """Whether a jar has room for only one of the two."""
    return (one.domain, one.path, one.name) == (other.domain, other.path, other.name)


def _jar(kept: Iterable[Mapping[str, Any]]) -> CookieJar:
    policy = _Bounded()
    policy.jar = jar = CookieJar(policy)
    for fields in kept:
        if all(isinstance(fields.get(name), str) for name in ("name", "domain", "path")):
            known: dict[str, Any] = {name: fields.get(name) for name in _FIELDS}
            jar.set_cookie(Cookie(**known, rest={}))
    return jar

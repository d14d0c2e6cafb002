"""Who may speak to the API: the bearer of the token, or, without one, this machine's own programs.

Without a token the API listens on loopback only, and the caller that remains to be feared is the
browser on this machine: any page may send requests to 127.0.0.1. So the Host must be a loopback
name (else a rebound DNS name would do) and a page of another origin is refused.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from worker.core.errors import ConfigError
from worker.web.replies import refuse

TOKEN_CHARS_MIN = 8


def check_exposure(host: str, token: str | None) -> None:
    """Refuse an address beyond loopback without a token. Raises ConfigError."""
    if token is not None and not is_sound(token):
        raise ConfigError(
            "LOOPWORKER_HTTP_TOKEN: must be at least "
            f"{TOKEN_CHARS_MIN} printable ASCII characters without spaces"
        )
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"LOOPWORKER_HTTP: {host or 'all addresses'} can be reached from other machines; "
            "set LOOPWORKER_HTTP_TOKEN, or listen on 127.0.0.1"
        )


def is_sound(token: str) -> bool:
    """Whether a client could send this token in a header as it is."""
    return len(token) >= TOKEN_CHARS_MIN and all("!" <= char <= "~" for char in token)


def is_loopback(host: str) -> bool:
    """Whether packets to this host stay on this machine; a name counts only if it must."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Gate:
    """An ASGI layer that lets a request pass or answers it with 401 or 403."""

    def __init__(self, app: ASGIApp, *, token: str | None) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on. Anything but HTTP is nobody's business here."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        problem = self._problem(headers)
        if problem is None:
            await self._app(scope, receive, send)
            return
        code, message = problem
        challenge = {"WWW-Authenticate": "Bearer"} if code == 401 else None
        await refuse(code, message, headers=challenge)(scope, receive, send)

    def _problem(self, headers: Mapping[str, bytes]) -> tuple[int, str] | None:
        if self._expected is None:
            return foreign_browser(headers)
        given = headers.get("authorization", b"")
        scheme, _, secret = given.partition(b" ")
        given = b"Bearer " + secret.strip() if scheme.lower() == b"bearer" else given
        if hmac.compare_digest(given, self._expected):
            return None
        return 401, "Send the token: Authorization: Bearer <LOOPWORKER_HTTP_TOKEN>."


def foreign_browser(headers: Mapping[str, bytes]) -> tuple[int, str] | None:
    """Say why a request does not come from a program of this machine, if it does not."""
    host = headers.get("host", b"").decode("latin-1")
    if not is_loopback(hostname(host)):
        return 403, f"Without a token this API answers to localhost only, not to {host[:100]!r}."
    origin = headers.get("origin")
    if origin is not None and origin.decode("latin-1") != f"http://{host}":
        return 403, "Without a token this API does not answer to pages of another origin."
    if headers.get("sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return 403, "Without a token this API does not answer to pages of another origin."
    return None


def hostname(host: str) -> str:
    """Take the port off a Host header."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()

"""The socket that the API listens on."""

from __future__ import annotations

import socket

from worker.core.errors import ConfigError

UNREAD_SECONDS = 30


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address. Raises ConfigError if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise ConfigError(
            f"LOOPWORKER_HTTP: cannot listen on {host}:{port} ({error.strerror or error}); "
            "set LOOPWORKER_HTTP to a free host:port, or to `off`"
        ) from error
    # Inherited by every connection, as asyncio leaves it out for sockets made like this one.
    # Head and body of a reply are two writes, and with Nagle's algorithm the second waits for
    # the delayed acknowledgement of the first: 40 ms for each request on a kept connection.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Inherited by every connection: a reader that takes nothing for so long is dropped by
        # the kernel, together with what we have buffered for it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * UNREAD_SECONDS)
    return listener

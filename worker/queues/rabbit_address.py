"""From an amqp:// address to where the server is and what to tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from worker.core.errors import ConfigError
from worker.queues.brokeraddress import options_of

FORM = (
    "amqp://[user:password@]host[:port][/vhost], or amqps:// for TLS (in a password or vhost %23 for"
    " #, %2F for /, %40 for @)"
)


@dataclass(frozen=True, slots=True)
class RabbitAddress:
    """The server; `prefix` begins the names of queues there, `options` are paths of files."""

    url: str = field(repr=False)  # with the account in it
    where: str
    prefix: str = ""
    is_tls: bool = False
    options: dict[str, str] = field(default_factory=dict)


def address_of(url: str) -> RabbitAddress:
    """Read `amqp://…` or `amqps://…`. Raises ConfigError, also for what would be ignored."""
    try:
        parts = urlsplit(url)
        is_tls = parts.scheme == "amqps"
        port = parts.port
        is_whole = bool(parts.hostname) and port != 0 and not parts.fragment
    except ValueError:
        is_whole = False  # what the parser says of it may be a part of the password
    if not is_whole or parts.path.count("/") > 1:
        raise ConfigError(f"no address of a RabbitMQ server; write {FORM}")
    prefix, options = options_of(parts.scheme, parts.query)
    # A path of "/" alone is what people write who mean the usual virtual host.
    path = parts.path if parts.path not in ("", "/") else "/%2F"
    return RabbitAddress(
        url=f"{parts.scheme}://{parts.netloc}{path}",
        where=f"{parts.hostname}:{port or (5671 if is_tls else 5672)}",
        prefix=prefix,
        is_tls=is_tls,
        options=options,
    )

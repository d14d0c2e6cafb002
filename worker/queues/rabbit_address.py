"""From an amqp:// address to where the server is and what to tell it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from worker.core.errors import ConfigError

FORM = (
    "amqp://[user:password@]host[:port][/vhost], or amqps:// for TLS (in a password or vhost %23 for"
    " #, %2F for /, %40 for @)"
)
_OPTIONS = ("prefix", "tls_ca", "tls_cert", "tls_key")
_PREFIX = re.compile(r"[A-Za-z0-9_-]*")


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
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in sorted(set(options) - set(_OPTIONS)):
        raise ConfigError(
            f"{name!r} is no option of an {parts.scheme}:// address; there are {', '.join(_OPTIONS)}"
        )
    if ("tls_cert" in options) != ("tls_key" in options):
        raise ConfigError(f"tls_cert and tls_key of an {parts.scheme}:// address belong together")
    prefix = options.pop("prefix", "")
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError("the prefix of an amqp:// address: letters, digits, - and _ only")
    # A path of "/" alone is what people write who mean the usual virtual host.
    path = parts.path if parts.path not in ("", "/") else "/%2F"
    return RabbitAddress(
        url=f"{parts.scheme}://{parts.netloc}{path}",
        where=f"{parts.hostname}:{port or (5671 if is_tls else 5672)}",
        prefix=prefix,
        is_tls=is_tls,
        options=options,
    )

"""From a nats:// address to where the servers are and what to tell them."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from worker.core.errors import ConfigError
from worker.queues.brokeraddress import options_of

FORM = (
    "nats://[user:password@ or token@]host[:port][,host[:port]…], or tls:// for TLS (in a password"
    " %23 for #, %2F for /, %40 for @, %2C for a comma)"
)
_PORT = 4222


@dataclass(frozen=True, slots=True)
class NatsAddress:
    """The servers of one cluster. `prefix` begins the names of queues there.

    `options` are paths of files, by the names of the options.
    """

    servers: tuple[str, ...] = field(repr=False)  # with the account in them
    where: str
    prefix: str = ""
    is_tls: bool = False
    options: dict[str, str] = field(default_factory=dict)


def address_of(url: str) -> NatsAddress:
    """Read `nats://…` or `tls://…`. Raises ConfigError, also for what would be ignored."""
    try:
        parts = urlsplit(url)
        account, has_account, hosts = parts.netloc.rpartition("@")
        found = [urlsplit(f"//{host}") for host in hosts.split(",")]
        names = [(each.hostname or "", each.port or _PORT) for each in found]
        is_whole = all(name for name, _ in names) and not parts.fragment
        is_whole = is_whole and parts.path in ("", "/") and all(each.port != 0 for each in found)
    except ValueError:
        is_whole = False  # what the parser says of it may be a part of the password
    if not is_whole:
        raise ConfigError(f"no address of a NATS server; write {FORM}")
    prefix, options = options_of(parts.scheme, parts.query, more=("creds",))
    shown = [f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name, port in names]
    return NatsAddress(
        servers=tuple(f"{parts.scheme}://{account}{has_account}{each}" for each in shown),
        where=",".join(shown),
        prefix=prefix,
        is_tls=parts.scheme == "tls" or "tls_ca" in options or "tls_cert" in options,
        options=options,
    )

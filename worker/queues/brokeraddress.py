"""What the addresses of brokers have in common: their options, and the files for TLS."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl

from worker.core.errors import ConfigError
from worker.queues.ownlink import Refused

_PREFIX = re.compile(r"[A-Za-z0-9_-]*")
_FILES = ("tls_ca", "tls_cert", "tls_key")


def options_of(scheme: str, query: str, *, more: Sequence[str] = ()) -> tuple[str, dict[str, str]]:
    """The prefix for the names of queues, and the paths of files by option.

    `more` are options of the engine's own. Raises ConfigError, also for what would be ignored.
    """
    known = (*more, "prefix", *_FILES)
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in sorted(set(options) - set(known)):
        raise ConfigError(
            f"{name!r} is no option of {scheme}:// addresses; there are {', '.join(known)}"
        )
    if ("tls_cert" in options) != ("tls_key" in options):
        raise ConfigError(f"tls_cert and tls_key of {scheme}:// addresses belong together")
    prefix = options.pop("prefix", "")
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(f"the prefix of {scheme}:// addresses: letters, digits, - and _ only")
    return prefix, options


def tls_of(options: Mapping[str, str]) -> ssl.SSLContext:
    """Whom to trust and who we are, as the options say. Raises Refused."""
    try:
        context = ssl.create_default_context(cafile=options.get("tls_ca"))
        if "tls_cert" in options:
            context.load_cert_chain(options["tls_cert"], options["tls_key"])
    except OSError as error:  # a wrong certificate is one as well
        raise Refused(f"tls_ca, tls_cert or tls_key of the queue's address: {error}") from error
    return context

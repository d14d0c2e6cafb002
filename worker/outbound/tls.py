"""Whom a client trusts: one context of the usual authorities for all clients of the process.

To read the bundle of authorities takes some forty milliseconds and a megabyte, and a worker has a
client for the model, one for its tools and one for pages. Nobody changes the context after it is
made, and a context keeps nothing of its connections.
"""

from __future__ import annotations

import functools
import ssl

import httpx

from worker.core.errors import ConfigError


@functools.cache
def usual_trust() -> ssl.SSLContext:
    """The context that trusts the usual authorities, shared; not to be changed."""
    return httpx.create_ssl_context(trust_env=False)


def trust_of(*, verify: bool, ca_file: str | None) -> ssl.SSLContext:
    """The trust of a client: the usual authorities, or those of `ca_file` and no other.

    The file is read anew for each client. Raises ConfigError when it cannot be used.
    """
    if not verify:
        return httpx.create_ssl_context(verify=False, trust_env=False)
    if ca_file is None:
        return usual_trust()
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ca_file: cannot read authorities from it ({error})") from error

"""A URL as it may be shown: without the password of its account, and without keys in its query."""

from __future__ import annotations

import re

HIDDEN = "********"
_NAMED = ("postgresql", "postgres", "redis", "rediss", "amqp", "amqps")
_SECRET_IN_QUERY = re.compile(
    r"([?&][^=&#]*(?:key|token|secret|password|auth|sig)[^=&#]*=)[^&#]*", re.IGNORECASE
)


def shown_url(url: str) -> str:
    """Hide the secrets of a URL, also of one that cannot be taken apart; other text stays."""
    scheme, is_url, rest = url.partition("://")
    if not is_url:
        return url
    account, has_account, host = rest.rpartition("@")
    if has_account:
        user, has_password, _ = account.partition(":")
        # Alone it is a name to a database, and anywhere else it may be a token: to NATS it is one.
        is_name = has_password or scheme.partition("+")[0].lower() in _NAMED
        rest = f"{user}:{HIDDEN}@{host}" if is_name else f"{HIDDEN}@{host}"
    return _SECRET_IN_QUERY.sub(rf"\1{HIDDEN}", f"{scheme}://{rest}")

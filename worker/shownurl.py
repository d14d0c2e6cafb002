"""A URL as it may be shown: without the password of its account, and without keys in its query."""

from __future__ import annotations

import re

HIDDEN = "********"
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
        rest = f"{account.partition(':')[0]}:{HIDDEN}@{host}"
    return _SECRET_IN_QUERY.sub(rf"\1{HIDDEN}", f"{scheme}://{rest}")

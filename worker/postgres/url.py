"""The address of a PostgreSQL database, as a setting gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from worker.core.errors import ConfigError
from worker.postgres.schema import SCHEMA, checked_name

ANSWER_SECONDS = 5.0  # for a connection, and for the answer to a statement
_OPTIONS = (
    *("application_name", "channel_binding", "gssencmode", "host", "passfile", "port"),
    *("sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert", "target_session_attrs"),
)
_FORM = (
    "postgresql://[user[:password]@]host[:port]/database; write @ : / in a password as %40 %3A %2F"
)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Where the server is, in the words of its client library, and the schema of the tables.

    `shift` is added to the server's clock, in seconds: only tests give it.
    """

    options: Mapping[str, Any]
    schema: str = SCHEMA
    answer_seconds: float = ANSWER_SECONDS
    shift: Callable[[], float] = field(default=lambda: 0.0)

    def __repr__(self) -> str:
        return f"LinkSettings({self.where}, schema={self.schema!r})"

    @property
    def where(self) -> str:
        """The server's address, for people."""
        host = self.options.get("host", "localhost")
        return f"{host}:{self.options.get('port', 5432)}/{self.options.get('dbname', '')}"


def settings_of(url: str) -> LinkSettings:
    """Read `postgresql://…` or `postgres://…`. Raises ConfigError, which repeats nothing of it."""
    # Errors do not say what the parsers say: of a password with a slash in it, that may be a part.
    wrong = ConfigError(f"no address of a PostgreSQL database; write {_FORM}")
    try:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise wrong from None
    if "://" not in url or ("@" in url and "@" not in parts.netloc):
        raise wrong
    schema = checked_name(given.pop("schema", SCHEMA))
    unknown = sorted(set(given) - set(_OPTIONS))
    if unknown:
        known = ", ".join(("schema", *_OPTIONS))
        raise ConfigError(
            f"{unknown[0]!r} is no option of a postgresql:// address; there are {known}"
        )
    query = urlencode(given, quote_via=quote)
    try:
        options = conninfo_to_dict(f"postgresql://{parts.netloc}{parts.path}?{query}")
    except psycopg.Error:
        raise wrong from None
    if not all(port.isdigit() for port in str(options.get("port", "")).split(",") if port):
        raise wrong
    if "," in str(options.get("host", "")):
        options.setdefault("target_session_attrs", "read-write")  # the primary, whichever it is
    return LinkSettings(options, schema=schema)

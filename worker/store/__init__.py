"""What must survive a crash, apart from the queue: `open_store` gives the adapter for a URL."""

from __future__ import annotations

from worker.core.errors import ConfigError, StoreUnavailable
from worker.shownurl import shown_url
from worker.store.port import Store


def open_store(url: str) -> Store:
    """Open the store of an engine; the first words of `url` say which.

    Blocks for as long as a file takes to open, or a server to say how it is set up. Raises
    ConfigError that says what to do; the drivers of an engine are imported here and not before.
    """
    scheme = url.partition(":")[0].lower()
    if scheme == "sqlite":
        from worker.sqlitefile import SqliteFile
        from worker.sqliteopen import settings_of
        from worker.store.sqlite import SqliteStore
        from worker.store.sqlite_tables import STORE

        return SqliteStore(SqliteFile.shared(settings_of(url), part=STORE))
    if scheme in ("redis", "rediss"):
        return _redis_store(url)
    if scheme in ("postgresql", "postgres"):
        return _postgres_store(url)
    if scheme == "memory":
        from worker.store.memory import MemoryStore

        return MemoryStore()
    if scheme in ("amqp", "amqps", "nats", "tls"):
        raise ConfigError(
            f"{scheme}:// keeps tasks, not journals and results: set"
            " LOOPWORKER_STORE_URL=postgresql://host/database, redis://host or"
            " sqlite:////data/journal.db, a file that all workers reach"
        )
    raise ConfigError(
        f"{shown_url(url)!r} is no store of journals and results; write sqlite:///file.db,"
        " postgresql://host/database, redis://host or memory://"
    )


def _redis_store(url: str) -> Store:
    try:
        from worker.redislink import RedisLink, settings_of
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise ConfigError("redis:// needs a driver: pip install 'loopworker[redis]'") from error
    from worker.store.redis import RedisStore

    link = RedisLink(settings_of(url), unavailable=StoreUnavailable)
    store = RedisStore(link)
    link.check(*store.keys)
    return store


def _postgres_store(url: str) -> Store:
    try:
        from worker.postgres.link import PostgresLink
        from worker.postgres.url import settings_of
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise ConfigError(
            "postgresql:// needs a driver: pip install 'loopworker[postgresql]'"
        ) from error
    from worker.store.postgres import PostgresStore
    from worker.store.postgres_tables import STORE

    link = PostgresLink.shared(settings_of(url), part=STORE, unavailable=StoreUnavailable)
    link.check()
    return PostgresStore(link)

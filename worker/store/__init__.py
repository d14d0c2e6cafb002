"""What must survive a crash, apart from the queue: `open_store` gives the adapter for a URL."""

from __future__ import annotations

from worker.core.errors import ConfigError, StoreUnavailable
from worker.shownurl import shown_url
from worker.store.port import Store

_NOT_BUILT = ("postgresql", "postgres")


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
    if scheme == "memory":
        from worker.store.memory import MemoryStore

        return MemoryStore()
    if scheme in ("nats", "tls"):
        raise ConfigError(
            f"{scheme}:// keeps tasks, not journals and results: set"
            " LOOPWORKER_STORE_URL=sqlite:////data/journal.db, a file that all workers reach,"
            " or redis://host"
        )
    if scheme in _NOT_BUILT:
        raise ConfigError(
            f"{scheme}:// is not built yet as a store of journals and results: beside"
            " LOOPWORKER_QUEUE_URL set LOOPWORKER_STORE_URL=sqlite:///journal.db, a file that all"
            " workers reach, or redis://host"
        )
    raise ConfigError(
        f"{shown_url(url)!r} is no store; write sqlite:///file.db, redis://host or memory://"
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

"""The setups whose columns the table has: where tasks wait, where journals lie, what can be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers import natsserver, postgresserver, rabbitserver, redisserver
from tests.servers.server import Server

DURABLE_REDIS = ("--appendonly", "yes", "--appendfsync", "always")


@dataclass(frozen=True, slots=True)
class Setup:
    """One setup. `broker` and `store_server` are None where a file serves; the same where one does.

    `own_urls` names parts of the servers for one cell: the queue's URL and the store's, None where
    the store is where the queue is. `dead_peer_seconds` is when the client gives up a connection
    that says nothing.
    """

    name: str
    own_urls: Callable[[], tuple[str | None, str | None]]
    broker: Server | None = None
    store_server: Server | None = None
    dead_peer_seconds: float = 0.0

    @property
    def is_split(self) -> bool:
        """Whether queue and store can be away one without the other."""
        return self.store_server is not None and self.store_server is not self.broker


@contextmanager
def sqlite(folder: Path) -> Iterator[Setup]:
    """Everything in one file."""
    yield Setup("SQLite", lambda: (None, None))


@contextmanager
def postgresql(folder: Path) -> Iterator[Setup]:
    """Queue and store on one server."""
    with postgresserver.postgres_server() as server:
        yield _together("PostgreSQL", server, postgresserver.own_url, dead_peer=15.0)


@contextmanager
def redis(folder: Path) -> Iterator[Setup]:
    """Queue and store on one server that has each change on the disk before it answers."""
    with redisserver.redis_server(folder, *DURABLE_REDIS) as server:
        yield _together("Redis", server, redisserver.own_url, dead_peer=15.0)


@contextmanager
def nats(folder: Path) -> Iterator[Setup]:
    """The queue on NATS, the store on Redis."""
    with ExitStack() as stack:
        broker_folder, store_folder = _folders(folder)
        server = natsserver.nats_server(broker_folder, jetstream="sync_interval: always")
        broker = stack.enter_context(server)
        store = stack.enter_context(redisserver.redis_server(store_folder, *DURABLE_REDIS))
        yield _apart("NATS + Redis", (broker, natsserver.own_url), store)


@contextmanager
def rabbitmq(folder: Path) -> Iterator[Setup]:
    """The queue on RabbitMQ, the store on Redis."""
    with ExitStack() as stack:
        broker_folder, store_folder = _folders(folder)
        broker = stack.enter_context(rabbitserver.rabbit_server(broker_folder))
        store = stack.enter_context(redisserver.redis_server(store_folder, *DURABLE_REDIS))
        yield _apart("RabbitMQ + Redis", (broker, rabbitserver.own_url), store)


def _folders(folder: Path) -> tuple[Path, Path]:
    found = folder / "broker", folder / "store"
    for each in found:
        each.mkdir()
    return found


def _apart(name: str, queue: tuple[Server, Callable[[int], str]], store: Server) -> Setup:
    broker, own_url = queue

    def own_urls() -> tuple[str, str]:
        return own_url(broker.port), redisserver.own_url(store.port)

    return Setup(name, own_urls, broker, store, dead_peer_seconds=15.0)


def _together(
    name: str, server: Server, own_url: Callable[[int], str], *, dead_peer: float
) -> Setup:
    def own_urls() -> tuple[str, str]:
        url = own_url(server.port)
        return url, url

    return Setup(name, own_urls, server, server, dead_peer_seconds=dead_peer)


ENGINES = {
    "sqlite": sqlite,
    "postgresql": postgresql,
    "redis": redis,
    "rabbitmq": rabbitmq,
    "nats": nats,
}

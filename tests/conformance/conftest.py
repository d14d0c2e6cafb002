"""The suites live in the package; their asserts should explain themselves all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.natsserver import nats_server
from tests.servers.postgresserver import PostgresServer, postgres_server
from tests.servers.proxy import Proxy
from tests.servers.rabbitserver import rabbit_server
from tests.servers.redisserver import redis_server

pytest.register_assert_rewrite("worker.testing")


@pytest.fixture(scope="session")
def redis_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A Redis server for the whole session, behind a proxy."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        proxy = Proxy(server.port)
        yield proxy
        proxy.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole session."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def nats_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A NATS server for the whole session, behind a proxy."""
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        proxy = Proxy(server.port)
        yield proxy
        proxy.close()


@pytest.fixture(scope="session")
def rabbit_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A RabbitMQ server for the whole session, behind a proxy."""
    with rabbit_server(tmp_path_factory.mktemp("rabbit")) as server:
        proxy = Proxy(server.port)
        yield proxy
        proxy.close()

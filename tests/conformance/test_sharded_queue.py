"""A queue that is split into shards keeps the contract of a queue, whatever the engine beneath.

The suite runs twice: with tasks that belong together, which all lie in one shard and keep every
sentence to the letter, and with tasks that are spread over all shards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.conformance.test_memory_queue import MemoryHarness
from tests.conformance.test_nats_queue import NatsHarness
from tests.conformance.test_postgres_queue import PostgresHarness
from tests.conformance.test_rabbit_queue import RabbitHarness
from tests.conformance.test_redis_queue import RedisHarness
from tests.conformance.test_sqlite_queue import SqliteHarness
from tests.servers.postgresserver import PostgresServer
from tests.servers.proxy import Proxy
from worker.core.sharding import Sharding, shard_name
from worker.queues.sharded import ShardedQueue
from worker.testing.harness import QueueHarness
from worker.testing.queue_suite import QueueAgeing, QueueSuite

SHARDS = 4


class Together(Sharding):
    """As if all tasks were of one session."""

    def of(self, body: bytes, *, task_id: str) -> int:
        """Neither the first nor the last."""
        return 2


class ShardedHarness:
    """Any engine, its queues split."""

    def __init__(self, engine: QueueHarness, sharding: Sharding) -> None:
        self.engine, self.sharding = engine, sharding

    async def open(
        self, *, name: str = "tasks", max_deliveries: int = 5, depth_max: int | None = None
    ) -> ShardedQueue:
        """Open all shards as another process would."""
        first = await self.engine.open(
            name=name, max_deliveries=max_deliveries, depth_max=depth_max
        )
        shards = {0: first}
        shards |= {n: first.sibling(shard_name(name, n)) for n in range(1, self.sharding.count)}
        if isinstance(self.engine, RabbitHarness):  # it has to look at the clock of each
            self.engine.opened += [shards[n] for n in shards if n]
        return ShardedQueue(shards, name=name, sharding=self.sharding, depth_max=depth_max)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock of the engine."""
        await self.engine.pass_time(seconds)

    def outage(self) -> AbstractAsyncContextManager[None]:
        """Put the engine out of order."""
        return self.engine.outage()

    async def close(self) -> None:
        """Close the engine."""
        await self.engine.close()


class Spread(QueueSuite):
    """Tasks that have nothing to do with each other."""

    sharding = Sharding(SHARDS)


class TestMemorySpread(Spread, QueueAgeing):
    """Over the memory queue."""

    @pytest.fixture
    def harness(self) -> ShardedHarness:
        """An empty broker."""
        return ShardedHarness(MemoryHarness(), self.sharding)


class TestMemoryTogether(TestMemorySpread):
    """Over the memory queue, in one shard."""

    sharding = Together(SHARDS)


class TestMemoryTwice(TestMemorySpread):
    """Over the memory queue, delivering everything twice."""

    duplicates = True


class TestSqliteSpread(Spread, QueueAgeing):
    """Over one SQLite file."""

    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[ShardedHarness]:
        """An empty file."""
        harness = ShardedHarness(SqliteHarness(tmp_path), self.sharding)
        yield harness
        await harness.close()


@pytest.mark.system
class TestRedisSpread(Spread, QueueAgeing):
    """Over one Redis server."""

    @pytest.fixture
    async def harness(self, redis_proxy: Proxy) -> AsyncIterator[ShardedHarness]:
        """An empty part of the server."""
        harness = ShardedHarness(RedisHarness(redis_proxy), self.sharding)
        yield harness
        await harness.close()


@pytest.mark.system
class TestRedisTogether(TestRedisSpread):
    """Over one Redis server, in one shard."""

    sharding = Together(SHARDS)


@pytest.mark.system
class TestPostgresSpread(Spread, QueueAgeing):
    """Over one PostgreSQL server."""

    @pytest.fixture
    async def harness(self, postgres: PostgresServer) -> AsyncIterator[ShardedHarness]:
        """An empty part of the server."""
        harness = ShardedHarness(PostgresHarness(postgres), self.sharding)
        yield harness
        await harness.close()


@pytest.mark.system
class TestNatsSpread(Spread, QueueAgeing):
    """Over one NATS server."""

    @pytest.fixture
    async def harness(self, nats_proxy: Proxy) -> AsyncIterator[ShardedHarness]:
        """An empty part of the server."""
        harness = ShardedHarness(NatsHarness(nats_proxy), self.sharding)
        yield harness
        await harness.close()


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(180)
class TestRabbitSpread(Spread):
    """Over one RabbitMQ server."""

    lease_seconds = 4.5  # as for one queue
    sharding = Sharding(2)

    @pytest.fixture
    async def harness(self, rabbit_proxy: Proxy) -> AsyncIterator[ShardedHarness]:
        """An empty part of the server."""
        harness = ShardedHarness(RabbitHarness(rabbit_proxy), self.sharding)
        yield harness
        await harness.close()

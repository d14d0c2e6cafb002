"""Where tasks wait: `open_queue` gives the adapter for a URL."""

from __future__ import annotations

from typing import Any

from worker.core.errors import ConfigError, QueueUnavailable
from worker.core.sharding import Sharding, shard_name
from worker.queues.port import MAX_DELIVERIES, Queue
from worker.shownurl import shown_url

SHARD = "{shard}"  # in a URL: the number of the shard


def open_queue(
    url: str,
    *,
    name: str = "tasks",
    max_deliveries: int = MAX_DELIVERIES,
    depth_max: int | None = None,
    sharding: Sharding | None = None,
) -> Queue:
    """Open the queue `name` of an engine; the first words of `url` say which.

    `depth_max` bounds the tasks that wait. `sharding` splits the queue; {shard} in `url` stands for
    the number of a shard, for those that have a server each. Blocks for as long as a file takes to open, or a server
    to say how it is set up. Raises ConfigError that says what to do; the drivers of an engine are
    imported here and not before.
    """
    options: dict[str, Any] = {"max_deliveries": max_deliveries, "depth_max": depth_max}
    if sharding is None or sharding.is_whole:
        return _open(url.replace(SHARD, "0"), name=name, **options)
    from worker.queues.sharded import ShardedQueue

    shards: dict[int, Queue] = {}
    for number in sharding.known:
        if number == 0 or SHARD in url:
            own = shard_name(name, number)
            shards[number] = _open(url.replace(SHARD, str(number)), name=own, **options)
        else:
            shards[number] = shards[0].sibling(shard_name(name, number))
    return ShardedQueue(shards, name=name, sharding=sharding, depth_max=depth_max)


def server_urls(url: str, sharding: Sharding) -> list[str]:
    """The URLs of the servers of all shards: one, unless it names one for each."""
    if SHARD not in url:
        return [url]
    return [url.replace(SHARD, str(number)) for number in sharding.known]


def _open(
    url: str,
    *,
    name: str,
    max_deliveries: int = MAX_DELIVERIES,
    depth_max: int | None = None,
) -> Queue:
    scheme = url.partition(":")[0].lower()
    if scheme == "sqlite":
        from worker.queues.sqlite import SqliteQueue
        from worker.queues.sqlite_tables import QUEUE
        from worker.sqlitefile import SqliteFile
        from worker.sqliteopen import settings_of

        file = SqliteFile.shared(settings_of(url), part=QUEUE)
        return SqliteQueue(file, name=name, max_deliveries=max_deliveries, depth_max=depth_max)
    if scheme in ("redis", "rediss"):
        return _redis_queue(url, name=name, max_deliveries=max_deliveries, depth_max=depth_max)
    if scheme in ("postgresql", "postgres"):
        return _postgres_queue(url, name=name, max_deliveries=max_deliveries, depth_max=depth_max)
    if scheme in ("nats", "tls"):
        return _nats_queue(url, name=name, max_deliveries=max_deliveries, depth_max=depth_max)
    if scheme in ("amqp", "amqps"):
        return _rabbit_queue(url, name=name, max_deliveries=max_deliveries, depth_max=depth_max)
    if scheme == "memory":
        from worker.queues.memory import MemoryQueue

        return MemoryQueue(name=name, max_deliveries=max_deliveries, depth_max=depth_max)
    raise ConfigError(
        f"LOOPWORKER_QUEUE_URL: {shown_url(url)!r} is no queue; write sqlite:///file.db,"
        " postgresql://host/database, redis://host, amqp://host, nats://host or memory://"
    )


def _redis_queue(url: str, **options: Any) -> Queue:
    try:
        from worker.redislink import RedisLink, settings_of
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise ConfigError(
            "LOOPWORKER_QUEUE_URL: redis:// needs a driver: pip install 'loopworker[redis]'"
        ) from error
    from worker.queues.redis import RedisQueue

    link = RedisLink(settings_of(url), unavailable=QueueUnavailable)
    queue = RedisQueue(link, **options)
    stream, name = queue.keys
    link.check(name, stream=stream)
    return queue


def _postgres_queue(url: str, **options: Any) -> Queue:
    try:
        from worker.postgres.link import PostgresLink
        from worker.postgres.url import settings_of
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise ConfigError(
            "LOOPWORKER_QUEUE_URL: postgresql:// needs a driver: pip install 'loopworker[postgresql]'"
        ) from error
    from worker.queues.postgres import PostgresQueue
    from worker.queues.postgres_tables import QUEUE

    link = PostgresLink.shared(settings_of(url), part=QUEUE, unavailable=QueueUnavailable)
    link.check()
    return PostgresQueue(link, **options)


def _nats_queue(url: str, **options: Any) -> Queue:
    from worker.queues.nats_address import address_of

    try:
        from worker.queues.nats import NatsQueue
        from worker.queues.nats_link import NatsLink
    except ModuleNotFoundError as error:
        if error.name != "nats":
            raise
        raise ConfigError(
            "LOOPWORKER_QUEUE_URL: nats:// needs a driver: pip install 'loopworker[nats]'"
        ) from error

    queue = NatsQueue(NatsLink(address_of(url)), **options)
    queue.check()
    return queue


def _rabbit_queue(url: str, **options: Any) -> Queue:
    from worker.queues.rabbit_address import address_of

    try:
        from worker.queues.rabbit_link import RabbitLink
        from worker.queues.rabbitmq import RabbitQueue
    except ModuleNotFoundError as error:
        if error.name != "aio_pika":
            raise
        raise ConfigError(
            "LOOPWORKER_QUEUE_URL: amqp:// needs a driver: pip install 'loopworker[rabbitmq]'"
        ) from error

    queue = RabbitQueue(RabbitLink(address_of(url)), **options)
    queue.check()
    return queue

"""Other task queues on Redis, each as its own documentation says: `python -m tests.bench.peers KIND`.

Runs in an environment of its own (`peers.txt`): nothing here is installed with the worker. The task
is empty; it is counted as it begins. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import redis.asyncio

from tests.bench.gauge import Gauge
from tests.bench.paced import Paced

AT_ONCE = 64
Put = Callable[[int], Awaitable[Any]]
Work = Callable[[], Awaitable[Any]]


async def taskiq(url: str, began: Callable[[int], None]) -> tuple[Put, Work]:
    """Broker and receiver, as `taskiq worker` makes them."""
    from taskiq.receiver import Receiver
    from taskiq_redis import RedisStreamBroker

    broker = RedisStreamBroker(url)

    @broker.task
    async def empty(number: int) -> None:
        began(number)

    await broker.startup()
    receiver = Receiver(broker, max_async_tasks=AT_ONCE)
    return empty.kiq, lambda: receiver.listen(asyncio.Event())


async def faststream(url: str, began: Callable[[int], None]) -> tuple[Put, Work]:
    """A subscriber of a stream with a group, acknowledged after the handler."""
    from faststream.redis import RedisBroker, StreamSub

    broker = RedisBroker(url, logger=None)
    stream = StreamSub("tasks", group="workers", consumer="one", max_records=AT_ONCE)

    @broker.subscriber(stream=stream)
    async def empty(number: int) -> None:
        began(number)

    await broker.connect()
    async with redis.asyncio.from_url(url) as client:
        await client.xgroup_create("tasks", "workers", id="0", mkstream=True)

    async def work() -> None:
        await broker.start()
        await asyncio.Event().wait()

    return lambda number: broker.publish(number, stream="tasks"), work


async def arq(url: str, began: Callable[[int], None]) -> tuple[Put, Work]:
    """A worker that polls as often as makes sense; by default it does so twice a second."""
    from arq import Worker, create_pool, func
    from arq.connections import RedisSettings

    async def empty(_: Any, number: int) -> None:
        began(number)

    settings = RedisSettings.from_dsn(url)
    pool = await create_pool(settings)
    worker = Worker(
        functions=[func(empty, name="empty", keep_result=0)],
        redis_settings=settings,
        max_jobs=AT_ONCE,
        poll_delay=0.01,
        handle_signals=False,
    )
    return lambda number: pool.enqueue_job("empty", number), worker.async_run


KINDS = {"arq": arq, "faststream": faststream, "taskiq": taskiq}


async def throughput(options: Any) -> dict[str, Any]:
    """Let a worker empty a full queue."""
    gauge = Gauge(warm=options.warm, count=options.count)
    put, work = await KINDS[options.kind](options.url, lambda _: gauge.tick())
    for number in range(options.warm + options.count + 2 * AT_ONCE):
        await put(number)
    working = asyncio.create_task(work())  # type: ignore[arg-type]
    await gauge.done.wait()
    assert not working.done()
    return gauge.figures()


async def latency(options: Any) -> dict[str, Any]:
    """Put one task after the other into an empty queue, and see when each begins."""
    paced = Paced(options.count)
    put, work = await KINDS[options.kind](options.url, paced.began)
    working = asyncio.create_task(work())  # type: ignore[arg-type]
    figures = await paced.measure(put)
    assert not working.done()
    return figures


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=tuple(KINDS))
    parser.add_argument("--url", required=True, help="Redis, which is emptied")
    parser.add_argument("--latency", action="store_true", help="from submit to start instead")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--warm", type=int, default=300)
    options = parser.parse_args()

    async def run() -> None:
        async with redis.asyncio.from_url(options.url) as client:
            await client.flushall()
        print(json.dumps(await (latency if options.latency else throughput)(options)), flush=True)
        os._exit(0)  # some of them do not end when they are cancelled

    asyncio.run(run())


if __name__ == "__main__":
    main()

"""Tasks per second through queue and journal: `python -m tests.bench.queueing KIND`.

KIND is `worker` (a model in the process answers at once, so that what is left is claim, journal,
settlement and telemetry) or `raw` (claim and ack of a plain table, one by one, each in its own
transaction). `--engine` names another engine than SQLite; its server is started for the case, with
each change on the disk before it answers. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson
import redis

from tests.bench.gauge import QUESTION, Gauge, MemoryWatch
from tests.bench.paced import Paced
from tests.bench.worked import export_to_nobody, fill_elsewhere
from tests.matrix.engines import ENGINES
from worker import Settings, Worker
from worker.app import relieved_collector
from worker.core.messages import Reply
from worker.model.scripted import answer
from worker.queues import open_queue
from worker.queues.port import Ticket

CLAIM = """update tasks set state = 1, token = token + 1, until = ? where id =
 (select id from tasks where state = 0 order by id limit 1) returning id, body, token"""
ACK = "update tasks set state = 2 where id = ? and token = ?"


def raw(folder: Path, options: Any) -> dict[str, float]:
    """Claim and ack one by one."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute(f"pragma synchronous={options.synchronous}")
    connection.execute(
        "create table tasks (id integer primary key, state integer, token integer, until real,"
        " body blob)"
    )
    connection.execute("create index ready on tasks (state, id)")
    body, total = json.dumps({"input": QUESTION}).encode(), options.warm + options.count
    connection.execute("begin")
    connection.executemany("insert into tasks values (null, 0, 0, 0, ?)", [(body,)] * total)
    connection.execute("commit")
    gauge = Gauge(warm=options.warm, count=options.count)
    for _ in range(total):
        connection.execute("begin immediate")
        found = connection.execute(CLAIM, (time.time() + 30,)).fetchone()
        connection.execute("commit")
        connection.execute("begin immediate")
        connection.execute(ACK, (found[0], found[2]))
        connection.execute("commit")
        gauge.tick()
    connection.close()
    return gauge.figures()


class Ready:
    """A model that has the answer ready, or takes some seconds, and tells that it is asked."""

    name = "ready"

    def __init__(self, asked: Callable[[str], object], *, seconds: float = 0.0) -> None:
        self.asked = asked
        self.seconds = seconds

    async def reply(self, request: Any) -> Reply:
        """Answer."""
        self.asked(request.messages[-1].body["content"])
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return answer("42")

    async def close(self) -> None:
        """Nothing to close."""


@asynccontextmanager
async def working(folder: Path, options: Any, model: Ready) -> AsyncIterator[Worker]:
    """Run a worker on the queue of the options, as `loopworker run` does."""
    if options.quiet:
        os.environ["OTEL_SDK_DISABLED"] = "true"
    else:
        export_to_nobody()
    settings = Settings(
        admin="off",
        http="off",
        concurrency=options.concurrency,
        queue_url=options.queue_url,
        store_url=options.store_url,
        model="ready",
        log_level="error" if options.quiet else "info",
    )
    with (folder / "lines.jsonl").open("w") as log:
        async with Worker(settings, tools=[], model=model, log_stream=log) as worker:
            with relieved_collector():
                yield worker


async def throughput(folder: Path, options: Any) -> dict[str, Any]:
    """Let a worker answer every task of a full queue."""
    gauge = Gauge(warm=options.warm, count=options.count)
    total = max(options.queued, options.warm + options.count + 2 * options.concurrency)
    await fill_elsewhere(options.queue_url, total, first=0)
    model = Ready(lambda _: gauge.tick(), seconds=options.thinks)
    memory = {}
    async with working(folder, options, model):
        await gauge.is_warm.wait()
        watch = MemoryWatch()
        await gauge.done.wait()
        memory["grown_kib"] = watch.stop()
        memory["resident_mib"] = watch.largest / 1024
    return gauge.figures() | memory


async def latency(folder: Path, options: Any) -> dict[str, Any]:
    """Put one task after the other into an empty queue, and see when its model is asked."""
    paced = Paced(options.count)
    queue = open_queue(options.queue_url, name="tasks", max_deliveries=5)

    async def put(number: int) -> None:
        await queue.put(Ticket(id=f"task-{number}", body=orjson.dumps({"input": str(number)})))

    async with working(folder, options, Ready(lambda asked: paced.began(int(asked)))):
        figures = await paced.measure(put)
    await queue.close()
    return figures


@contextmanager
def urls_of(folder: Path, options: Any) -> Iterator[tuple[str, str | None]]:
    """Where queue and store are."""
    if options.url:
        with redis.Redis.from_url(options.url) as client:
            client.flushall()
        yield options.url, options.url
        return
    with ENGINES[options.engine](folder) as setup:
        queue_url, store_url = setup.own_urls()
        yield (
            queue_url or f"sqlite:///{folder}/queue.db?synchronous={options.synchronous}",
            store_url,
        )


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("raw", "worker"))
    parser.add_argument("--synchronous", default="full", help="of SQLite")
    parser.add_argument("--engine", choices=tuple(ENGINES), default="sqlite")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--warm", type=int, default=200)
    parser.add_argument("--url", default="", help="Redis that is there already, and is emptied")
    parser.add_argument("--quiet", action="store_true", help="no spans, and lines of errors only")
    parser.add_argument("--latency", action="store_true", help="from submit to start instead")
    parser.add_argument("--thinks", type=float, default=0.0, help="seconds that the model takes")
    parser.add_argument("--queued", type=int, default=0, help="tasks in the queue at the start")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if options.kind == "raw":
            options.count *= 4  # they are quick
            figures = raw(Path(made), options)
        else:
            measure = latency if options.latency else throughput
            with urls_of(Path(made), options) as (options.queue_url, options.store_url):
                figures = asyncio.run(measure(Path(made), options))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

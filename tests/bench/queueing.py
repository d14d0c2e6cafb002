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
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.gauge import QUESTION, Gauge
from tests.bench.worked import export_to_nobody, fill
from tests.matrix.engines import ENGINES
from worker import Settings, Worker
from worker.app import relieved_collector
from worker.core.messages import Reply
from worker.model.scripted import answer

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
    """A model that has the answer ready, and counts."""

    name = "ready"

    def __init__(self, gauge: Gauge) -> None:
        self.gauge = gauge

    async def reply(self, request: Any) -> Reply:
        """Answer."""
        self.gauge.tick()
        return answer("42")

    async def close(self) -> None:
        """Nothing to close."""


async def through_worker(folder: Path, options: Any) -> dict[str, float]:
    """Let a worker answer every task."""
    export_to_nobody()
    gauge = Gauge(warm=options.warm, count=options.count)
    await fill(options.queue_url, options.warm + options.count + 2 * options.concurrency)
    settings = Settings(
        admin="off",
        http="off",
        concurrency=options.concurrency,
        queue_url=options.queue_url,
        store_url=options.store_url,
        model="ready",
    )
    with (folder / "lines.jsonl").open("w") as log:
        async with Worker(settings, tools=[], model=Ready(gauge), log_stream=log):
            with relieved_collector():
                await gauge.done.wait()
    return gauge.figures()


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("raw", "worker"))
    parser.add_argument("--synchronous", default="full", help="of SQLite")
    parser.add_argument("--engine", choices=tuple(ENGINES), default="sqlite")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--warm", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if options.kind == "raw":
            options.count *= 4  # they are quick
            figures = raw(Path(made), options)
        else:
            with ENGINES[options.engine](Path(made)) as setup:
                file = f"sqlite:///{made}/queue.db?synchronous={options.synchronous}"
                queue_url, options.store_url = setup.own_urls()
                options.queue_url = queue_url or file
                figures = asyncio.run(through_worker(Path(made), options))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

"""Workers on one store: what two have found open, the third does not try; one alone moves nobody."""

from __future__ import annotations

import json

from tests.system.processes import until
from worker.queues.port import Ticket

OPENS_AT_ONCE = {"GUARDS__STUMBLE__FAIL_MAX": "1", "GUARDS__STUMBLE__OPEN_SECONDS": "60"}


def is_open(worker):
    """Whether a worker says that the breaker of `stumble` is open."""
    text = worker.ask("/metrics")[1]
    return any("stumble" in line and '"open"' in line and line.endswith(" 1.0")
               for line in text.splitlines() if "breaker_state" in line)  # fmt: skip


async def test_two_of_three_move_the_third(site):
    """Each works on a queue of its own, so the third has never called the tool."""
    workers = [
        site.start(admin=True, QUEUE__NAME=name, **OPENS_AT_ONCE)
        for name in ("one", "two", "three")
    ]
    for worker in workers:
        await worker.ready()
    await stumble(site, "one")
    await until(lambda: is_open(workers[0]), within=10, what="the first to open")
    await stumble(site, "two")
    await until(lambda: is_open(workers[1]), within=10, what="the second to open")
    await until(lambda: is_open(workers[2]), within=5, what="the third to follow")
    await workers[2].said("breaker.opened")
    lines = [line for line in workers[2].lines() if line["event"] == "breaker.opened"]

    assert [line["cause"] for line in lines] == ["fleet"]
    assert [await worker.stop() for worker in workers] == [0, 0, 0]


async def stumble(site, queue: str) -> None:
    """Hand a task to the worker of a queue whose tool fails."""
    task = {"id": queue, "input": f"{queue}: stumble x"}
    assert await site.queue.sibling(queue).put(Ticket(queue, json.dumps(task).encode()))

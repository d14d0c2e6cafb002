"""Another process on the same file: `python sqlitechild.py ROLE URL [ARGUMENT]`.

Says on its standard output what it has done, one line each, only after it is done.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace

from worker.core.events import NoteAdded
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.queues.sqlite_tables import QUEUE
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import settings_of
from worker.store import open_store


def say(line: object) -> None:
    """Tell the parent."""
    print(line, flush=True)


async def claim(url: str, owner: str) -> None:
    """Claim and settle whatever is there, until nothing is."""
    queue = open_queue(url)
    while leases := await queue.claim(owner=owner, lease_seconds=60, wait_seconds=1, limit=7):
        for lease in leases:
            await queue.ack(lease)
            say(lease.id)
    await queue.close()


async def put(url: str, prefix: str) -> None:
    """Put tasks for ever."""
    queue = open_queue(url)
    number = 0
    while True:
        await queue.put(Ticket(id=f"{prefix}{number}", body=b"x" * 2000))
        say(f"{prefix}{number}")
        number += 1


async def put_one(url: str, name: str) -> None:
    """Open a file that may be new, and put one task."""
    queue = open_queue(url)
    say(await queue.put(Ticket(id=name, body=b"1")))
    await queue.close()


async def append(url: str, run_id: str) -> None:
    """Append to a run for ever, synced now and then."""
    store = open_store(url)
    run = (await store.open(run_id, owner="child", lease_seconds=60)).run
    assert run is not None
    number = 0
    while True:
        synced = number % 3 == 0
        await store.append(run, [NoteAdded(float(number), "test", "x" * 2000)], synced=synced)
        say(number)
        number += 1


async def hang(url: str, name: str) -> None:
    """Hold the write lock, with a row half put, for ever."""
    queue = open_queue(url)

    def half(connection, arguments):
        connection.execute(
            "insert into task (id, queue, payload) values (?, 'tasks', 'x')", arguments
        )
        say("inside")
        time.sleep(600)
        return [None]

    await queue._file.write(half, name)


async def lift_and_die(url: str) -> None:
    """Take every step of a lift, and be killed before its end."""

    def die(connection) -> None:
        say("taken")
        os.kill(os.getpid(), signal.SIGKILL)

    dying = replace(QUEUE, steps=(*QUEUE.steps, die))
    SqliteFile(settings_of(url), parts=[dying])


if __name__ == "__main__":
    roles = {
        "claim": claim,
        "put": put,
        "put-one": put_one,
        "append": append,
        "hang": hang,
        "lift-and-die": lift_and_die,
    }
    asyncio.run(roles[sys.argv[1]](*sys.argv[2:]))

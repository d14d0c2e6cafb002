"""What a long line in one session costs everybody, in steps of SQLite: those do not vary with the load."""

from __future__ import annotations

import contextlib

import pytest

from worker.core.errors import SessionBusy
from worker.core.task import Result
from worker.queues.port import Ticket
from worker.queues.sqlite import SqliteQueue
from worker.queues.sqlite_tables import QUEUE
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import FileSettings
from worker.store.port import SessionClaim, Turn
from worker.store.sqlite import SqliteStore
from worker.store.sqlite_tables import STORE
from worker.testing.session_case import turn_of


class Site:
    """A queue and a store in one file, and a count of the steps of its writes."""

    def __init__(self, path):
        self.file = SqliteFile(FileSettings(str(path), synchronous="off"), parts=[QUEUE, STORE])
        self.file.users = 2
        self.queue = SqliteQueue(self.file)
        self.store = SqliteStore(self.file)
        self.steps = 0

    async def counting(self):
        """Count from here on."""

        def count():
            self.steps += 1
            return 0

        def begin(connection, wishes):
            connection.set_progress_handler(count, 1)
            return [None] * len(wishes)

        await self.file.write(begin, None)

    async def cost(self, work):
        """The steps of one call, and what it returned."""
        self.steps = 0
        value = None
        with contextlib.suppress(SessionBusy):
            value = await work
        return self.steps, value

    def open(self, number):
        """Open a task of the session."""
        claim = SessionClaim("s", "", float(number))
        return self.store.open(f"t{number}", owner="w", lease_seconds=30, session=claim)

    async def claim(self):
        """Claim one task."""
        (lease,) = await self.queue.claim(owner="w", lease_seconds=30, wait_seconds=0)
        return lease

    async def park(self, lease):
        """Hand a task back whose session is busy."""
        await self.queue.nack(lease, delay_seconds=60, counted=False, reason="session busy")


async def costs(path, waiting):
    """The steps of everything that a worker does while so many tasks wait for one session."""
    site = Site(path)
    for number in range(waiting + 1):
        await site.queue.put(Ticket(id=f"t{number}", body=b"{}"))
    await site.claim()
    first = await site.open(0)
    for number in range(1, waiting + 1):
        lease = await site.claim()
        with pytest.raises(SessionBusy):
            await site.open(number)
        await site.park(lease)
    await site.queue.put(Ticket(id="other", body=b"{}"))
    await site.counting()
    found = {}
    found["claim of another task"], lease = await site.cost(site.claim())
    found["open of another task"], plain = await site.cost(
        site.store.open("other", owner="w", lease_seconds=30)
    )
    done = Result(task_id="other", status="completed")
    found["finish of another task"], _ = await site.cost(site.store.finish(plain.run, [], done))
    found["park"], _ = await site.cost(site.park(lease))
    found["claim of nothing"], _ = await site.cost(
        site.queue.claim(owner="w", lease_seconds=30, wait_seconds=0)
    )
    found["enlist"], _ = await site.cost(site.store.enlist("late", SessionClaim("s", "", 1e9)))
    found["look"], _ = await site.cost(site.open(waiting + 1))
    turn = Turn(turn_of("a").messages, 3600, 100_000)
    done = Result(task_id="t0", status="completed")
    found["finish"], _ = await site.cost(site.store.finish(first.run, [], done, turn=turn))
    assert first.run.session.next_run == ("t1" if waiting else "late")
    found["wake"], _ = await site.cost(site.queue.wake("t1"))
    await site.queue.close()
    await site.store.close()
    return found


async def test_a_long_line_costs_others_nothing(tmp_path):
    """Claims, runs, ends and wakes cost with a hundred in the line what they cost with one."""
    short, long = await costs(tmp_path / "a.db", 1), await costs(tmp_path / "b.db", 100)
    looks = {name: seen.pop("look") for name, seen in (("short", short), ("long", long))}

    assert all(steps - short[name] < 200 for name, steps in long.items())
    assert max(long.values()) < 600
    assert min(long.values()) > 20  # they were counted
    assert looks["long"] < 3_000  # it counts who is in front, up to a hundred


async def test_the_longest_line_costs_no_more(tmp_path):
    """Whoever looks counts a hundred in front of it and then stops."""
    long, longest = await costs(tmp_path / "a.db", 100), await costs(tmp_path / "b.db", 300)

    assert all(steps <= long[name] + 50 for name, steps in longest.items())

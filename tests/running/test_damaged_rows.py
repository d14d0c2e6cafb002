"""Rows that a hand, a disk or another program has damaged: nobody else pays for them."""

from __future__ import annotations

import itertools
import sqlite3
import time
from types import SimpleNamespace

import pytest

from tests.web.house import started
from worker.consuming.housekeeping import Housekeeper
from worker.core.task import Result
from worker.queues import open_queue
from worker.queues.port import Ticket
from worker.store import open_store
from worker.telemetry.signals import ErrorUnhandled
from worker.telemetry.tell import Telemetry
from worker.web.desk import Desk
from worker.web.stream import follow


class Site:
    """A queue, a store and what looks after them, on one file; `damage` is the hand."""

    def __init__(self, folder):
        self.path = folder / "q.db"
        self.queue = open_queue(f"sqlite:///{self.path}")
        self.store = open_store(f"sqlite:///{self.path}")
        self.heard = []
        self.keeper = Housekeeper(
            self.queue,
            self.store,
            Telemetry([SimpleNamespace(told=self.heard.append)]),
            retention_seconds=60.0,
            prune_seconds=0.0,
            worker="w",
            clock=time.monotonic,
            wall=time.time,
        )
        ids = itertools.count()
        self.desk = Desk(
            self.queue,
            self.store,
            now=time.time,
            new_id=lambda: f"t{next(ids)}",
            publish=self._publish,
        )

    async def _publish(self, result, reply_to):
        assert reply_to is None

    async def bury(self, *ids):
        """Put tasks and give them up."""
        for task_id in ids:
            await self.queue.put(Ticket(task_id, b"hello"))
        leases = await self.queue.claim(owner="w", lease_seconds=30, wait_seconds=0, limit=50)
        for lease in leases:
            await self.queue.dead_letter(lease, reason="test")

    def damage(self, statement, *values):
        """Write into the file as any program could."""
        with sqlite3.connect(self.path, timeout=10) as connection:
            connection.execute(statement, values)
        connection.close()

    def bugs(self):
        """The errors that nobody had thought of."""
        return [signal for signal in self.heard if isinstance(signal, ErrorUnhandled)]


@pytest.fixture
async def site(tmp_path):
    """One site for each test."""
    site = Site(tmp_path)
    yield site
    await site.queue.close()
    await site.store.close()


@pytest.mark.parametrize("history", ["not json", "{}", "3", "[" * 5_000, '[1, {"a": null}]'])
async def test_a_damaged_history_hides_no_dead_letter(site, history):
    """It is listed, found, answered for like any other, and can be redriven."""
    await site.bury("odd", "good")
    site.damage("update task set history = ?, finished_at = null where id = 'odd'", history)

    await site.keeper.once()

    assert {letter.id for letter in await site.queue.dead()} == {"odd", "good"}
    assert (await site.queue.place("odd")).state == "dead"
    assert (await site.store.result("odd")).status == "error"
    assert (await site.store.result("good")).status == "error"
    assert await site.queue.redrive("odd")
    assert site.bugs() == []


async def test_a_task_that_begins_later_is_not_waited_for(site):
    """A row that says `ready` and a time to come: told so, and of no age below zero."""
    await site.queue.put(Ticket("later", b"hello"))
    site.damage("update task set ready_at = ready_at + 3600")

    depth = await site.queue.depth()
    view = await site.desk.look("later")

    assert depth.oldest_ready_seconds == 0.0
    assert (view.status, view.why.reason) == ("queued", "scheduled")


@pytest.mark.parametrize("raw", [b"\xff", b"{}", None])
async def test_a_damaged_result_keeps_no_letter_from_its_answer(site, raw):
    """The sweep goes on, and whoever looks at the task hears what is wrong with it."""
    await site.bury("odd", "good")
    await site.store.put_result(Result("odd", "completed"))
    site.damage("update run set result = ? where id = 'odd'", raw)

    await site.keeper.once()
    view = await site.desk.look("odd", with_steps=True)
    opened = await site.store.open("odd", owner="w2", lease_seconds=30)

    assert (view.status, opened.result.status) == ("finished", "error")
    assert (await site.store.result("good")).status == "error"
    assert site.bugs() == []


@pytest.mark.parametrize(
    "raw", [b"\xff", b"3", b'[{"kind": "x"}]', b'[{"kind": "started", "data": {}}]']
)
async def test_a_damaged_journal_can_be_looked_at(site, raw):
    """Where the task is and what became of it are told, its steps are not."""
    run = (await site.store.open("odd", owner="w", lease_seconds=30)).run
    await site.store.append(run, [started(task_id="odd")])
    await site.store.finish(run, [], Result("odd", "completed", "done"))
    site.damage("update event set body = ?", raw)

    view = await site.desk.look("odd", with_steps=True)
    told = [update async for update in follow(site.store, "odd") if update is not None]

    assert (view.status, view.steps, view.result.answer) == ("finished", None, "done")
    assert (told[-1].is_final, told[-1].content) == (True, "done")


async def test_one_letter_that_cannot_be_answered_for_keeps_no_other_from_it(site, monkeypatch):
    """Whatever goes wrong with one of them: it is told, the others get their results."""
    await site.bury("odd", "good")
    put = site.store.put_result

    async def put_result(result):
        if result.task_id == "odd":
            raise RuntimeError("nobody thought of this")
        return await put(result)

    monkeypatch.setattr(site.store, "put_result", put_result)
    await site.keeper.once()

    assert (await site.store.result("good")).status == "error"
    assert [str(bug.error) for bug in site.bugs()] == ["nobody thought of this"]

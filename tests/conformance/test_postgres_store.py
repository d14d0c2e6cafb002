"""The PostgreSQL store keeps the contract of a store, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, ClassVar

import pytest

from tests.conformance.atserver import StoreAtServer
from tests.conformance.onecluster import OneCluster
from tests.servers.deaflink import DeafLink
from tests.servers.postgresserver import PostgresServer
from worker.core.errors import StoreUnavailable
from worker.core.task import Result
from worker.store.codec import encode
from worker.store.port import Opened, SessionClaim
from worker.store.postgres import PostgresStore
from worker.store.postgres_statements import APPEND, OPEN
from worker.store.postgres_tables import STORE
from worker.testing.session_case import TTL_SECONDS, named, turn_of
from worker.testing.store_case import note
from worker.testing.store_mail import expecting
from worker.testing.store_suite import StoreSuite

pytestmark = pytest.mark.system


class PostgresHarness(OneCluster):
    """A schema; every store has connections of its own."""

    def __init__(self, server: PostgresServer, *, repeats: str | None) -> None:
        super().__init__(server)
        self._repeats = repeats
        self.links: list[DeafLink] = []

    async def open(self) -> PostgresStore:
        """Open a store as another process would."""
        link = DeafLink(self.settings, part=STORE, unavailable=StoreUnavailable)
        link.repeats = self._repeats
        store = PostgresStore(link)
        self.links.append(link)
        self.opened.append(store)
        return store

    async def unheard(self, call: Awaitable[Any]) -> None:
        """Make a call of the first store, and lose the answer."""
        self.links[0].is_deaf = True
        with pytest.raises(StoreUnavailable):
            await call
        self.links[0].is_deaf = False

    async def filled(self) -> set[str]:
        """The tables of the store that are not empty."""
        tables = ("event", "expectation", "last_good", "post", "run", "session", "session_line")
        asked = [f"select '{name}' where exists (select from @{name})" for name in tables]
        asked.append("select 'session_turn' where exists (select from @session_turn)")
        rows = await self.links[0].rows(" union all ".join(asked), {})
        return {name for (name,) in rows}

    async def deadlocks(self) -> int:
        """How often the server had to break a circle of waiting, in this session of tests so far."""
        asked = "select deadlocks from pg_stat_database where datname = current_database()"
        [(count,)] = await self.links[0].rows(asked, {})
        return int(count)


class TestPostgresStore(StoreSuite, StoreAtServer):
    """The PostgreSQL store."""

    repeats: ClassVar[str | None] = None

    @pytest.fixture
    async def harness(self, postgres: PostgresServer) -> AsyncIterator[PostgresHarness]:
        """An empty part of the server."""
        harness = PostgresHarness(postgres, repeats=self.repeats)
        yield harness
        await harness.close()

    async def test_an_append_whose_answer_got_lost(self, harness: PostgresHarness) -> None:
        """It was written: made again it is not written twice, and what comes next goes behind it."""
        store = await harness.open()
        run = await self.begin(store)
        for unheard, after in ((note(0), note(0)), (note(1), note(2))):
            await harness.unheard(store.append(run, [unheard]))
            await store.append(run, [after])

        assert [event["data"]["at"] for event in await self.events(store)] == [0.0, 1.0, 2.0]
        assert run.next_seq == 3

    async def test_an_end_whose_answer_got_lost(self, harness: PostgresHarness) -> None:
        """It may be made again, also after an append of which nobody heard."""
        store = await harness.open()
        run, result = await self.begin(store), Result(task_id="t", status="completed")
        await harness.unheard(store.append(run, [note(0)]))
        await harness.unheard(store.finish(run, [note(1)], result))
        await store.finish(run, [note(1)], result)

        assert [event["data"]["at"] for event in await self.events(store)] == [0.0, 1.0]
        assert await store.result("t") == result

    async def test_a_turn_whose_answer_got_lost(self, harness: PostgresHarness) -> None:
        """The end of a run with a session is there once, and the session is free."""
        store = await harness.open()
        claim = SessionClaim("s")
        opened = await store.open("t", owner="w", lease_seconds=30, session=claim)
        end = ([note(0)], Result(task_id="t", status="completed"))
        await harness.unheard(store.finish(opened.run, *end, turn=turn_of("x")))
        await store.finish(opened.run, *end, turn=turn_of("x"))
        again = await store.open("u", owner="w", lease_seconds=30, session=claim)

        assert named(again.history) == ["x"]

    async def test_a_write_that_comes_late_changes_nothing(self, harness: PostgresHarness) -> None:
        """What a server reads from a connection that was given up long ago finds its place taken."""
        store = await harness.open()
        run = await self.begin(store)
        await store.append(run, [note(0)])
        await store.append(run, [note(1)])
        before = await self.events(store)
        for body in (encode([note(0)]), encode([note(9)])):
            values = {"run": "t", "epoch": run.epoch, "seq": 0, "count": 1, "body": body}
            await harness.links[0].rows(APPEND, values)

        assert await self.events(store) == before
        await store.append(run, [note(2)])
        assert len(await self.events(store)) == 3

    async def test_nothing_is_left(self, harness: PostgresHarness) -> None:
        """What is over leaves no row behind, in any table."""
        store = await harness.open()
        for number in range(3):
            claim = SessionClaim("s", place=float(number))
            opened = await store.open(f"t{number}", owner="w", lease_seconds=30, session=claim)
            await store.mail.expect(expecting("a", f"t{number}", asked_at=1.0))
            await store.mail.post("a", b"1")
            await store.mail.answered(f"t{number}", ["a"])
            result = Result(task_id=f"t{number}", status="completed")
            await store.finish(opened.run, [note(1)], result, turn=turn_of("x"))
        await store.request_cancel("never came")
        before = await harness.filled()
        await harness.pass_time(TTL_SECONDS * 2)
        await store.prune(older_than_seconds=1)
        await store.mail.forget(older_than_seconds=1)

        assert before == {"event", "expectation", "post", "run", "session", "session_turn"}
        assert await harness.filled() == set()

    async def test_nobody_waits_in_a_circle(self, harness: PostgresHarness) -> None:
        """Sessions and heartbeats over the same runs at once: the server has no circle to break."""
        stores = [await harness.open() for _ in range(3)]
        for turn in range(4):
            names = [f"t{turn}-{number}" for number in range(6)]
            wishes = [
                store.open(
                    name, owner="w", lease_seconds=30, session=SessionClaim(f"s{number % 2}")
                )
                for store in stores
                for number, name in enumerate(names)
            ]
            opened = await asyncio.gather(*wishes, return_exceptions=True)
            assert not [each for each in opened if isinstance(each, StoreUnavailable)]
            runs = [each.run for each in opened if isinstance(each, Opened)]
            beats = [store.renew_many(runs, lease_seconds=30) for store in stores]
            ends = [
                stores[0].finish(run, [], Result(task_id=run.id, status="completed"))
                for run in runs
            ]
            done = await asyncio.gather(*beats, *ends, return_exceptions=True)
            assert not [each for each in done if isinstance(each, StoreUnavailable)]

        assert await harness.deadlocks() == 0


class TestPostgresStoreTwice(TestPostgresStore):
    """The PostgreSQL store, each of whose statements reaches the server twice."""

    repeats = OPEN  # but for an open: each is a new owner

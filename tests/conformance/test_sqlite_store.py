"""The SQLite store keeps the contract of a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.onefile import OneFile
from worker.core.errors import LeaseLost
from worker.core.events import NoteAdded
from worker.sqlitefile import SqliteFile
from worker.store.sqlite import SqliteStore
from worker.store.sqlite_tables import STORE
from worker.testing.store_suite import StoreSuite


class SqliteHarness(OneFile):
    """One file; every store has connections of its own."""

    async def open(self) -> SqliteStore:
        """Open a store as another process would."""
        store = SqliteStore(SqliteFile(self.settings, parts=[STORE]), clock=self.clock)
        self.opened.append(store)
        return store


class TestSqliteStore(StoreSuite):
    """The SQLite store."""

    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[SqliteHarness]:
        """An empty file."""
        harness = SqliteHarness(tmp_path)
        yield harness
        await harness.close()

    async def test_last_good_is_bounded(self, harness: SqliteHarness) -> None:
        """Beyond its bound the file forgets the oldest values, however often one is renewed."""
        store = await harness.open()
        store.last_good.values.values_max = 3
        for turn in range(4):
            await store.remember("hot", "v", at=100.0 + turn)
            for number in range(5):
                await store.remember(f"k{number}", "v", at=float(number))
        await store.close()

        again = await harness.open()
        kept = [key for key in ("k0", "k1", "k2", "k3", "k4", "hot") if await again.recall(key)]
        assert kept == ["k3", "k4", "hot"]

    async def test_last_good_reaches_others(self, harness: SqliteHarness) -> None:
        """What one process remembers, another recalls about a second later."""
        store, other = await harness.open(), await harness.open()
        await store.remember("k", "v", at=1.0)
        assert await other.recall("k") is None

        for _ in range(500):
            await asyncio.sleep(0.02)
            if found := await other.recall("k"):
                break
        assert found is not None
        assert (found.value, found.at) == ("v", 1.0)

    async def test_a_batch_refuses_one_and_keeps_the_others(self, harness: SqliteHarness) -> None:
        """Writes that share a transaction do not share a fate."""
        store = await harness.open()
        runs = [(await store.open(f"r{n}", owner="w", lease_seconds=30)).run for n in range(5)]
        runs[2].epoch -= 1
        note = NoteAdded(1.0, "test", "x")

        outcomes = await asyncio.gather(
            *(store.append(run, [note]) for run in runs), return_exceptions=True
        )

        assert [isinstance(o, LeaseLost) for o in outcomes] == [n == 2 for n in range(5)]
        seen = [len((await store.view(f"r{n}")).events) for n in range(5)]
        assert seen == [1, 1, 0, 1, 1]

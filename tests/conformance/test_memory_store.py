"""The memory store keeps the contract of a store: a fake is an adapter, or does not exist."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from worker.store.memory import MemoryBase, MemoryStore
from worker.testing.harness import FakeClock
from worker.testing.store_suite import StoreSuite


class MemoryHarness:
    """One base with a clock that the tests move."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.base = MemoryBase(clock=self.clock)

    async def open(self) -> MemoryStore:
        """Open a store on the base."""
        return MemoryStore(self.base)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.now += seconds

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Put the base out of order."""
        self.base.outage = True
        yield
        self.base.outage = False


class TestMemoryStore(StoreSuite):
    """The memory store."""

    @pytest.fixture
    def harness(self) -> MemoryHarness:
        """An empty base."""
        return MemoryHarness()

    async def test_last_good_is_bounded(self) -> None:
        """Beyond its bound the store forgets the values stored longest ago."""
        store = MemoryStore(last_good_max=3)
        for number in range(5):
            await store.remember(f"k{number}", "v", at=float(number))

        assert [await store.recall(f"k{n}") is not None for n in range(5)] == [False] * 2 + [
            True
        ] * 3

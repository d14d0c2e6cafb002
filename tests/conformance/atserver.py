"""What the harnesses of all engines on a server share: a clock that the tests move, what to close."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.servers.proxy import Proxy
from worker.store.port import Remembered
from worker.testing.store_case import StoreCase, note


class AtServer:
    """A part of a server; whatever is opened has its own connections."""

    def __init__(self) -> None:
        self.moved = 0.0
        self.opened: list[Any] = []

    async def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.moved += seconds

    async def close(self) -> None:
        """Close whatever was opened."""
        for each in self.opened:
            await each.close()


class BehindProxy(AtServer):
    """One whose connections can be cut."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self.proxy = proxy

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Cut every connection, and refuse new ones."""
        self.proxy.refuse()
        yield
        self.proxy.pass_on()


class StoreAtServer(StoreCase):
    """What is particular to stores whose writes may reach the server late, or twice."""

    async def test_same_words_at_once_are_two_events(self, harness: Any) -> None:
        """Two writes that say the same are told from one that is made again."""
        store = await harness.open()
        run = await self.begin(store)
        await asyncio.gather(*[store.append(run, [note(7)]) for _ in range(5)])

        assert len(await self.events(store)) == run.next_seq == 5

    async def test_last_good_is_bounded(self, harness: Any) -> None:
        """Beyond its bound the server forgets the oldest values, and others see the rest."""
        store = await harness.open()
        store.last_good.values.values_max = 3
        keys = [f"k{number}" * 2000 for number in range(5)]
        for number, key in enumerate(keys):
            await store.remember(key, "v\0", at=number + 0.1)
        await store.close()

        again = await harness.open()
        kept = [await again.recall(key) for key in keys]
        assert kept[:2] == [None, None]
        assert kept[2:] == [Remembered("v\0", number + 0.1) for number in (2, 3, 4)]

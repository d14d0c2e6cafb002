"""The garbage collector during the main life of a worker."""

from __future__ import annotations

import asyncio
import gc

import pytest

from worker.app import COLLECT_AFTER


async def test_serving_relieves_the_collector_and_sets_it_back(start):
    """While a worker serves, what the start made is frozen; afterwards all is as before."""
    before = gc.get_threshold()
    async with start(running=False) as worker:
        await worker.start()
        serving = asyncio.create_task(worker.serve())
        await asyncio.sleep(0)

        assert gc.get_threshold()[0] == COLLECT_AFTER
        assert gc.get_freeze_count() > 10_000

        worker.begin_drain()
        await serving

    assert gc.get_threshold() == before
    assert gc.get_freeze_count() < 10_000


async def test_a_cancelled_serving_sets_the_collector_back(start):
    """The second signal cancels `serve`; the collector is set back on that way, too."""
    before = gc.get_threshold()
    async with start(running=False) as worker:
        await worker.start()
        serving = asyncio.create_task(worker.serve())
        await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    assert gc.get_threshold() == before

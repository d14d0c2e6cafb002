"""Calls that go out together, without a server: which with which, and who is told what."""

from __future__ import annotations

import asyncio

import pytest

from worker.redisbatch import Batches


class Server:
    """Answers each call with its last word, once it is let; keeps what came together."""

    def __init__(self):
        self.batches = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, calls):
        """Take a batch."""
        self.batches.append([call[0] for call in calls])
        await self.gate.wait()
        if ["die"] in calls:
            raise ConnectionResetError("died")
        return [ValueError("no") if call == ["bad"] else call[0] for call in calls]


@pytest.fixture
async def server():
    """A server that answers at once."""
    return Server()


async def asked(batches, *words):
    """Ask for many at the same moment; the tasks."""
    tasks = [batches.begin([word]) for word in words]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_what_is_asked_for_meanwhile_goes_together(server):
    """The first goes at once, whatever came with it too; the rest wait for an end."""
    batches = Batches(server, at_once=1)
    server.gate.clear()
    first = await asked(batches, 1, 2)
    later = await asked(batches, 3) + await asked(batches, 4, 5)
    server.gate.set()

    assert await asyncio.gather(*first, *later) == [1, 2, 3, 4, 5]
    assert server.batches == [[1, 2], [3, 4, 5]]
    assert repr(batches) == "Batches(0 calls wait, 0 batches under way)"


async def test_so_many_at_once_and_so_many_in_each(server):
    """A batch is bounded, and so are those under way."""
    batches = Batches(server, at_once=2, calls_max=2)
    server.gate.clear()
    tasks = [*await asked(batches, 1), *await asked(batches, 2), *await asked(batches, 3, 4, 5)]
    before = list(server.batches)
    server.gate.set()
    await asyncio.gather(*tasks)

    assert before == [[1], [2]]
    assert server.batches == [[1], [2], [3, 4], [5]]


async def test_who_has_gone_is_not_asked_for(server):
    """A call that was cancelled before it went out is never made, and keeps nobody waiting."""
    batches = Batches(server, at_once=1)
    server.gate.clear()
    first = await asked(batches, 1)
    gone, stays = await asked(batches, 2, 3)
    gone.cancel()
    first[0].cancel()
    server.gate.set()
    await asyncio.wait([*first, gone, stays])

    assert (stays.result(), first[0].cancelled(), gone.cancelled()) == (3, True, True)
    assert server.batches == [[1], [3]]


async def test_an_error_of_one_is_not_that_of_the_others(server):
    """Unless the connection breaks: then nobody knows what was done."""
    batches = Batches(server, at_once=1)
    bad, good = await asyncio.gather(*await asked(batches, "bad", "good"), return_exceptions=True)
    broken = await asyncio.gather(*await asked(batches, "die", "too"), return_exceptions=True)

    assert (str(bad), good) == ("no", "good")
    assert [str(error) for error in broken] == ["died", "died"]
    assert await batches.begin(["again"]) == "again"


async def test_closing_tells_whoever_waits(server):
    """Those under way and those that have not gone out yet, as of a connection that broke."""
    batches = Batches(server, at_once=1)
    server.gate.clear()
    tasks = [*await asked(batches, 1), *await asked(batches, 2)]
    await batches.close()
    told = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(error) for error in told] == [ConnectionAbortedError] * 2

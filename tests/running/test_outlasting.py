"""The store is away for a moment: the run goes on when it is back, not when a lease has run out."""

from __future__ import annotations

import asyncio

import pytest

from worker.consuming import outlasting
from worker.model.scripted import answer
from worker.store.memory import MemoryBase, MemoryStore
from worker.store.told import TelledStore
from worker.telemetry.signals import LeaseWasLost, TaskReceived, TaskSettled

LEASE = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "lease_seconds": 60.0}


def base_of(worker):
    """What the memory store of a worker stands on."""
    assert isinstance(worker.store, TelledStore)
    return worker.store.inner.base


def away(worker, *, seconds):
    """Put the store out of order, for a while or for good."""
    base = base_of(worker)
    base.outage = True
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, setattr, base, "outage", False)


async def test_a_run_goes_on_when_the_store_is_back(start, ask):
    """Long before its lease is over, and no delivery is used up."""
    asked = []

    async def cut_off(request):
        asked.append(request)
        if len(asked) == 1:
            away(worker, seconds=0.25)
        return answer("done")

    async with start(otherwise=cut_off, queue=LEASE) as worker:
        result = await ask(worker, "q", seconds=5)
        received = worker.ears.of(TaskReceived)

    assert (result.status, len(asked)) == ("completed", 2)
    assert [told.delivery for told in received] == [1, 1]
    assert [told.outcome for told in worker.ears.of(TaskSettled)] == ["release", "ack"]
    assert worker.ears.of(LeaseWasLost) == []


@pytest.mark.parametrize("how", ["somebody else has it", "the time is over"])
async def test_it_is_given_up_when_nobody_waits_for_it(monkeypatch, how):
    """The store stays away: the lease runs out by itself, and the slot is free again."""
    monkeypatch.setattr(outlasting, "FIRST_SECONDS", 0.01)
    base = MemoryBase()
    store = MemoryStore(base)
    run = (await store.open("t", owner="w", lease_seconds=60)).run
    lost: list[bool] = []
    base.outage = True
    seconds = 0.1 if how == "the time is over" else 60
    if how == "somebody else has it":
        asyncio.get_running_loop().call_later(0.05, lost.append, True)

    assert not await outlasting.let_go(store, run, lost=lambda: bool(lost), seconds=seconds)

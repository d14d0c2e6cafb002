"""The contracts of the store as tests, for any adapter.

Subclass `StoreSuite` and give it a `harness` fixture, as with `queue_suite`.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from worker.core.errors import IllegalEvent, LeaseLost, RunBusy, StoreUnavailable
from worker.core.events import Ended, Event, Started
from worker.core.task import Result
from worker.store import codec
from worker.store.port import Run, Store
from worker.testing.harness import StoreHarness
from worker.testing.session_line import SessionLine
from worker.testing.store_case import note
from worker.testing.store_mail import StoreMail
from worker.testing.store_peers import StorePeers
from worker.testing.store_pruning import StorePruning
from worker.testing.store_renewing import StoreRenewing
from worker.testing.store_sessions import StoreSessions
from worker.testing.store_views import StoreViews

STARTED = Started(
    at=1.5,
    task={"version": 1, "id": "t", "input": "现在几点?"},
    max_steps=8,
    max_steps_reason="default",
    system_prompt="…",
    tools=("get_current_time",),
    language="zh",
    history=({"role": "user", "content": "hi"},),
)


class StoreSuite(
    StorePruning, StoreRenewing, StoreViews, StoreMail, StorePeers, StoreSessions, SessionLine
):
    """Every sentence of the contracts, as a test with its number."""

    async def take_over(self, store: Store, harness: StoreHarness) -> Run:
        """Let the lease of the run run out, and open it for another owner."""
        await harness.pass_time(self.lease_seconds * 1.1)
        return await self.begin(store, owner="w2")

    async def test_j01_open(self, store: Store, harness: StoreHarness) -> None:
        """A run opens with its events in order, and with a larger epoch every time."""
        run = await self.begin(store)
        assert (run.id, run.owner, run.next_seq, run.cancel_requested) == ("t", "w1", 0, False)
        written: list[Event] = [STARTED, *map(note, range(5))]
        await store.append(run, written[:1])
        await store.append(run, written[1:4])
        await store.append(run, written[4:])
        assert run.next_seq == 6
        await store.release(run)

        again = await (await harness.open()).open("t", owner="w2", lease_seconds=1)
        assert again.events == tuple(written)
        assert again.result is None and not again.taken_over
        assert again.run is not None
        assert (again.run.next_seq, again.run.owner) == (6, "w2")
        assert again.run.epoch > run.epoch

    async def test_j01_same_owner(self, store: Store) -> None:
        """The same owner may open its run again, and so fences its own older epoch."""
        run = await self.begin(store)
        again = await self.begin(store)

        assert again.epoch > run.epoch
        with pytest.raises(LeaseLost):
            await store.append(run, [note(1)])

    async def test_j02_fence(self, store: Store, harness: StoreHarness) -> None:
        """An owner of an older epoch can write nothing, whatever it tries."""
        stale = await self.begin(store)
        await store.append(stale, [note(0)])
        run = await self.take_over(store, harness)
        await store.append(run, [note(1)])
        before = await self.events(store)

        for write in (
            store.append(stale, [note(9)]),
            store.renew(stale, lease_seconds=1000),
            store.release(stale),
            store.finish(stale, [note(9)], Result(task_id="t", status="error")),
        ):
            with pytest.raises(LeaseLost):
                await write

        assert await self.events(store) == before
        assert await store.result("t") is None
        await store.append(run, [note(2)])
        assert [event["seq"] for event in await self.events(store)] == [0, 1, 2]

    async def test_j02_forged_epoch(self, store: Store) -> None:
        """Neither a future epoch nor a run that was never opened can write."""
        run = await self.begin(store)

        for forged in (Run("t", run.epoch + 1, "w1", 0), Run("unknown", 1, "w1", 0)):
            with pytest.raises(LeaseLost):
                await store.append(forged, [note(1)])
        assert await self.events(store) == []

    async def test_j04_batches(self, store: Store) -> None:
        """A batch with an event that cannot be written leaves nothing; no gap, no double."""
        run = await self.begin(store)
        bad = Ended(at=1.0, status="error", detail={"x": object()})

        with pytest.raises(TypeError):
            await store.append(run, [note(0), bad])
        await store.append(run, [])
        await asyncio.gather(*[store.append(run, [note(n), note(n)]) for n in range(10)])

        events = await self.events(store)
        assert [event["seq"] for event in events] == list(range(20))
        ats = [event["data"]["at"] for event in events]
        assert ats[0::2] == ats[1::2] and sorted(ats[0::2]) == list(range(10))
        assert run.next_seq == 20

    async def test_j21_unsynced(self, store: Store, harness: StoreHarness) -> None:
        """An append that need not be synced is there for the next owner, and fenced."""
        run = await self.begin(store)
        for number in range(9):
            await store.append(run, [note(number)], synced=number % 3 == 0)
        assert run.next_seq == 9
        again = await self.take_over(store, harness)

        with pytest.raises(LeaseLost):
            await store.append(run, [note(9)], synced=False)
        assert again.next_seq == 9
        assert [event["data"]["at"] for event in await self.events(store)] == list(range(9))

    async def test_j05_finish(self, store: Store, harness: StoreHarness) -> None:
        """The end comes with its last events, once; who opens the run later gets the result."""
        run = await self.begin(store)
        await store.append(run, [note(0)])
        result = Result(
            task_id="t", status="completed", answer="八点", steps=2, cost=0.25, started_at=1.5
        )

        await store.finish(run, [note(1), note(2)], result)
        await store.finish(run, [note(1), note(2)], result)

        opened = await (await harness.open()).open("t", owner="w2", lease_seconds=1)
        assert (opened.run, opened.result) == (None, result)
        assert await store.result("t") == result
        assert len(await self.events(store)) == 3
        with pytest.raises(LeaseLost):
            await store.append(run, [note(3)])
        with pytest.raises(LeaseLost):
            await store.renew(run, lease_seconds=1)

    @pytest.mark.parametrize("size", [100, 3_000, 70_000, 5_000_000])
    async def test_j07_large_payloads(self, store: Store, size: int) -> None:
        """A payload of any size comes back whole, with any character in it."""
        run = await self.begin(store)
        text = ("行情\x00🙂\ud800" * size)[:size]
        await store.append(run, [note(0, text=text)])

        opened = await store.open("t", owner="w1", lease_seconds=1)
        assert opened.events == (note(0, text=text),)

    async def test_j09_ten_thousand_events(self, store: Store) -> None:
        """A journal of 10,000 events opens in under 2 s."""
        run = await self.begin(store)
        written = [note(number, text="x" * 200) for number in range(10_000)]
        for start in range(0, 10_000, 500):
            await store.append(run, written[start : start + 500])

        began = time.monotonic()
        opened = await store.open("t", owner="w1", lease_seconds=1)
        assert time.monotonic() - began < 2
        assert list(opened.events) == written

    async def test_j10_busy(self, store: Store, harness: StoreHarness) -> None:
        """While its owner renews, nobody else opens a run, and is told how long to wait."""
        run = await self.begin(store)
        for _ in range(3):
            await harness.pass_time(self.lease_seconds * 0.6)
            await store.renew(run, lease_seconds=self.lease_seconds)
            with pytest.raises(RunBusy) as caught:
                await (await harness.open()).open("t", owner="w2", lease_seconds=1)
            left = caught.value.retry_after_seconds
            assert self.lease_seconds * 0.9 < left <= self.lease_seconds
        await store.append(run, [note(0)])

    async def test_j11_release_and_expiry(self, store: Store, harness: StoreHarness) -> None:
        """A released run opens at once; one whose lease ran out too, and is called taken over."""
        await store.release(await self.begin(store))
        released = await store.open("t", owner="w2", lease_seconds=self.lease_seconds)
        await harness.pass_time(self.lease_seconds * 1.1)
        expired = await store.open("t", owner="w3", lease_seconds=self.lease_seconds)

        assert (released.taken_over, expired.taken_over) == (False, True)

    async def test_j12_race(self, harness: StoreHarness) -> None:
        """Of many that open a run at once, one wins, and the others are told that it is busy."""
        stores = [await harness.open() for _ in range(4)]
        opens = [
            stores[number % 4].open("t", owner=f"w{number}", lease_seconds=self.lease_seconds)
            for number in range(64)
        ]

        outcomes = await asyncio.gather(*opens, return_exceptions=True)

        assert sum(isinstance(outcome, RunBusy) for outcome in outcomes) == 63

    async def test_j13_cancelled_appends(self, store: Store) -> None:
        """A cancelled append is there as a whole or not at all, and the next one works."""
        run = await self.begin(store)
        for turns in range(40):
            append = asyncio.create_task(store.append(run, [note(turns), note(turns)]))
            for _ in range(turns % 8):
                await asyncio.sleep(0)
            append.cancel()
            await asyncio.wait([append])
        await store.append(run, [note(99), note(99)])

        events = await self.events(store)
        assert [event["seq"] for event in events] == list(range(len(events)))
        ats = [event["data"]["at"] for event in events]
        assert ats[0::2] == ats[1::2] and len(set(ats[0::2])) == len(ats) // 2
        assert ats[-1] == 99

    async def test_j24_cancelled_opens(self, store: Store, harness: StoreHarness) -> None:
        """Whoever is told afterwards that the task is free can open it, and keeps it."""
        other = await harness.open()
        for turns in range(12):
            names = [f"t{turns}-{number}" for number in range(30)]
            opens = [asyncio.create_task(self.begin(store, name)) for name in names]
            for _ in range(turns):
                await asyncio.sleep(0)
            for each in opens:
                each.cancel()
            outcomes = await asyncio.gather(*opens, return_exceptions=True)
            left = [n for n, run in zip(names, outcomes, strict=True) if not isinstance(run, Run)]
            for name in left:
                await self.begin(other, name, owner="w2")

    async def test_j14_outage(self, store: Store, harness: StoreHarness) -> None:
        """An engine that is out raises StoreUnavailable; afterwards the same write works."""
        run = await self.begin(store)
        async with harness.outage():
            for call in (
                store.append(run, [note(0)]),
                store.renew(run, lease_seconds=1),
                store.finish(run, [], Result(task_id="t", status="error")),
                store.open("u", owner="w1", lease_seconds=1),
            ):
                with pytest.raises(StoreUnavailable):
                    await call

        await store.append(run, [note(0)])
        assert len(await self.events(store)) == 1

    async def test_j15_put_result(self, store: Store) -> None:
        """A result for a task without one ends it, and fences whoever had it; the first stays."""
        first = Result(task_id="t", status="rejected", error="input: missing")
        run = await self.begin(store, "poison")

        assert await store.put_result(first) is True
        assert await store.put_result(Result(task_id="t", status="error")) is False
        assert await store.put_result(Result(task_id="poison", status="error")) is True

        assert await store.result("t") == first
        assert (await store.open("t", owner="w1", lease_seconds=1)).result == first
        with pytest.raises(LeaseLost):
            await store.append(run, [note(0)])
        with pytest.raises(LeaseLost):
            await store.finish(run, [], Result(task_id="poison", status="completed"))

    async def test_j16_cancel(self, store: Store, harness: StoreHarness) -> None:
        """Who asks for a stop is heard by the owner's next write, and by a run not yet begun."""
        other = await harness.open()
        run = await self.begin(store)
        await store.append(run, [note(0)])
        heard = [run.cancel_requested, await store.cancel_requested("t")]

        assert await other.request_cancel("t") is True
        assert await store.cancel_requested("t") is True
        await store.append(run, [note(1)])
        assert [*heard, run.cancel_requested] == [False, False, True]
        assert await other.request_cancel("early") is True
        assert await store.view("early") is None
        assert (await self.begin(store, "early")).cancel_requested is True

        await store.finish(run, [], Result(task_id="t", status="cancelled"))
        assert await other.request_cancel("t") is False
        assert await store.cancel_requested("unknown") is False

    async def test_j17_reopen(self, store: Store) -> None:
        """A redriven task runs again with its events, its result and its cancel forgotten."""
        run = await self.begin(store)
        await store.request_cancel("t")
        await store.finish(run, [note(0)], Result(task_id="t", status="cancelled"))
        await store.reopen("t")
        await store.reopen("unknown")

        assert await store.result("t") is None
        opened = await store.open("t", owner="w1", lease_seconds=1)
        assert opened.events == (note(0),)
        assert opened.run is not None
        assert opened.run.epoch > run.epoch and opened.run.cancel_requested is False

    async def test_j17_reopenings_are_counted(self, store: Store, harness: StoreHarness) -> None:
        """Each result that is forgotten counts, once; run, view and result tell which one it is."""
        other = await harness.open()
        run = await self.begin(store)
        await store.reopen("t")  # has no result yet
        assert run.redrives == 0
        for redrives in (1, 2):
            await store.finish(run, [], Result(task_id="t", status="error", redrives=run.redrives))
            view = await other.view("t")
            assert view is not None and view.result is not None
            assert (view.redrives, view.result.redrives) == (redrives - 1, redrives - 1)
            await other.reopen("t")
            await other.reopen("t")
            run = await self.begin(store)
            assert run.redrives == redrives
        await store.release(run)
        assert await store.put_result(Result(task_id="t", status="error", redrives=2)) is True
        await store.reopen("t", redrives=1)  # of somebody who has not heard of the second
        assert await store.result("t") is not None
        await store.reopen("t", redrives=2)

        assert (await self.begin(store)).redrives == 3
        (recent,) = await store.recent()
        assert recent.redrives == 3

    async def test_j19_renew_many(self, store: Store, harness: StoreHarness) -> None:
        """One heartbeat keeps every run that is still owned, and names the lost ones."""
        runs = [await self.begin(store, name) for name in "abc"]
        await store.finish(runs[1], [], Result(task_id="b", status="completed"))
        await harness.pass_time(self.lease_seconds * 0.6)

        lost = await store.renew_many(runs, lease_seconds=self.lease_seconds)

        assert [run.id for run in lost] == ["b"]
        await harness.pass_time(self.lease_seconds * 0.6)
        with pytest.raises(RunBusy):
            await store.open("a", owner="w2", lease_seconds=1)
        assert await store.renew_many([], lease_seconds=1) == []

    async def test_j06_unknown_version(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """An event of a newer worker stops the opening, named; the run stays open to others."""
        run = await self.begin(store)
        await store.append(run, [note(0)])
        await store.release(run)
        with monkeypatch.context() as patch:
            patch.setitem(codec.VERSIONS, "note_added", 0)
            with pytest.raises(IllegalEvent, match="'note_added' version 1"):
                await store.open("t", owner="w1", lease_seconds=self.lease_seconds)

        assert len((await store.open("t", owner="w2", lease_seconds=1)).events) == 1

    async def test_last_good(self, store: Store, harness: StoreHarness) -> None:
        """The last good value of a key comes back with its time; a newer one replaces it."""
        assert await store.recall("quote:AAPL") is None
        await store.remember("quote:AAPL", "100 \ud800", at=1.0)
        await store.remember("quote:AAPL", "101", at=2.0)
        await store.remember("quote:MSFT", "", at=3.0)

        for key, value, at in (("quote:AAPL", "101", 2.0), ("quote:MSFT", "", 3.0)):
            remembered = await store.recall(key)
            assert remembered is not None
            assert (remembered.value, remembered.at) == (value, at)

    async def test_last_good_outage(self, store: Store, harness: StoreHarness) -> None:
        """A value that cannot be stored right now is not an error of whoever stores it."""
        async with harness.outage():
            await store.remember("k", "v", at=1.0)

    async def test_close(self, store: Store) -> None:
        """Closing twice is harmless."""
        await store.close()
        await store.close()

"""The part of the contract of a store that is about who may have a session (S4 to S7, S13 to S15, S18
to S20)."""

from __future__ import annotations

import asyncio

import pytest

from worker.core.errors import LeaseLost, SessionBusy
from worker.core.task import Result
from worker.store.port import (
    HOLD_PATIENCE_SECONDS,
    LINE_PATIENCE_SECONDS,
    Opened,
    SessionClaim,
    SessionWait,
    Store,
)
from worker.testing.harness import StoreHarness
from worker.testing.session_case import SessionCase, done, turn_of
from worker.testing.store_case import note


class SessionLine(SessionCase):
    """Who has a session, who waits for it, and in which order."""

    async def test_s04_one_at_a_time(self, store: Store, harness: StoreHarness) -> None:
        """While a run has the session, no other begins, on whatever store it is opened."""
        run = await self.run_of(store, "a")
        other = await harness.open()
        for _ in range(3):
            await self.busy(other, "b")
            await harness.pass_time(self.lease_seconds * 0.6)
            await store.renew(run, lease_seconds=self.lease_seconds)

        assert await store.view("b") is None
        assert await store.result("b") is None
        await store.append(run, [note(0)])

    async def test_s05_ends_of_a_hold(self, store: Store) -> None:
        """A finish, a release for good and a result from outside make room for the next."""
        first = await self.run_of(store, "a")
        await store.finish(first, [], done(first))
        await store.release(await self.run_of(store, "b"))
        await self.run_of(store, "c")
        await store.put_result(Result(task_id="c", status="cancelled"))

        assert (await self.have(store, "d")).run is not None

    async def test_s06_kept_between_deliveries(self, store: Store, harness: StoreHarness) -> None:
        """A run that is to be taken up again keeps its session until then, and a while longer."""
        run = await self.run_of(store, "a")
        await store.append(run, [note(0)])
        await store.release(run, hold_seconds=100.0)
        await harness.pass_time(100.0 + HOLD_PATIENCE_SECONDS * 0.9)
        await self.busy(store, "b")

        again = await self.have(store, "a", owner="w2")
        assert again.run is not None and again.run.session is not None
        await self.busy(store, "b")
        await store.release(again.run, hold_seconds=100.0)
        await harness.pass_time(100.0 + HOLD_PATIENCE_SECONDS * 1.1)
        assert (await self.have(store, "b")).run is not None

    async def test_s06_lapsed(self, store: Store, harness: StoreHarness) -> None:
        """After a crash the run's next owner has the session; if none comes, the next run has."""
        run = await self.run_of(store, "a")
        await harness.pass_time(self.lease_seconds * 1.1)
        await self.busy(store, "b")
        taken = await self.have(store, "a", owner="w2")
        assert taken.run is not None and taken.run.session is not None
        with pytest.raises(LeaseLost):
            await store.append(run, [note(0)])
        await harness.pass_time(self.lease_seconds + HOLD_PATIENCE_SECONDS * 1.1)

        assert (await self.have(store, "b")).run is not None
        for write in (
            store.append(taken.run, [note(0)]),
            store.finish(taken.run, [], done(taken.run), turn=turn_of("a")),
            store.release(taken.run, turn=turn_of("a")),
        ):
            with pytest.raises(LeaseLost):
                await write
        assert await self.told(store) == []
        await self.busy(store, "a")

    async def test_s06_lapsed_and_pruned(self, store: Store, harness: StoreHarness) -> None:
        """A run that had a session which was forgotten meanwhile writes no more either."""
        late = await self.run_of(store, "a")
        await harness.pass_time(self.lease_seconds + HOLD_PATIENCE_SECONDS * 1.1)
        await store.prune(older_than_seconds=1e9)
        await self.run_of(store, "b")

        with pytest.raises(LeaseLost):
            await store.append(late, [note(0)])

    async def test_s07_line(self, store: Store) -> None:
        """Who waits gets the session in the order of the places, then of the arrival."""
        runs = [await self.run_of(store, "a")]
        places = {"b": 5.0, "c": 3.0, "d": 5.0, "e": -1.0}
        ahead = [await self.busy(store, name, place=place) for name, place in places.items()]
        order = ["e", "c", "b", "d"]
        for position, name in enumerate(order):
            await store.finish(runs[-1], [], done(runs[-1]), turn=turn_of(runs[-1].id))
            behind = [await self.busy(store, n, place=places[n]) for n in order[position + 1 :]]
            assert behind == list(range(1, len(order) - position))
            runs.append(await self.run_of(store, name, place=places[name]))

        assert ahead == [0, 0, 2, 0]
        assert await self.told(store) == ["a", "e", "c", "b"]

    async def test_s07_newcomers(self, store: Store) -> None:
        """A newcomer goes behind those who wait, unless its place is before theirs."""
        run = await self.run_of(store, "a")
        await self.busy(store, "b", place=5.0)
        await store.finish(run, [], done(run))

        await self.busy(store, "late", place=5.0)
        urgent = await self.run_of(store, "urgent", place=1.0)
        await store.finish(urgent, [], done(urgent))
        assert (await self.run_of(store, "b", place=5.0)).session is not None

    async def test_s07_who_never_comes(self, store: Store, harness: StoreHarness) -> None:
        """Who has ended, or keeps others waiting for too long, holds nobody up."""
        run = await self.run_of(store, "a")
        names = {"cancelled": 1.0, "gone": 2.0, "lost": 2.5, "b": 3.0}
        for name, place in names.items():
            await self.busy(store, name, place=place)
        await harness.pass_time(LINE_PATIENCE_SECONDS * 5)
        await store.put_result(Result(task_id="cancelled", status="cancelled"))
        await store.finish(run, [], done(run))

        for ahead in (2, 1):  # the time of each begins when it could have come, and did not
            assert await self.busy(store, "b", place=3.0) == ahead
            await harness.pass_time(LINE_PATIENCE_SECONDS * 0.9)
            assert await self.busy(store, "b", place=3.0) == ahead
            await harness.pass_time(LINE_PATIENCE_SECONDS * 0.2)
        assert (await self.run_of(store, "b", place=3.0)).session is not None
        await self.busy(store, "gone", place=2.0)

    async def test_s07_pruned(self, store: Store) -> None:
        """Whoever waits for a session keeps the place, also when nothing was said in it yet."""
        first = await self.run_of(store, "first", place=1.0)
        await self.busy(store, "second", place=2.0)
        await store.finish(first, [], done(first))

        await store.prune(older_than_seconds=self.lease_seconds)

        await self.busy(store, "third", place=3.0)
        assert (await self.run_of(store, "second", place=2.0)).session is not None

    async def test_s13_race(self, harness: StoreHarness) -> None:
        """Of many that want a session at once one gets it; all others wait, each in its place."""
        stores = [await harness.open() for _ in range(4)]
        wishes = [self.have(stores[n % 4], f"r{n}", owner=f"w{n}") for n in range(32)]
        outcomes = await asyncio.gather(*wishes, return_exceptions=True)

        ahead = [outcome.ahead for outcome in outcomes if isinstance(outcome, SessionBusy)]
        assert sorted(ahead) == list(range(31))
        assert sum(isinstance(outcome, Opened) for outcome in outcomes) == 1

    async def test_s14_next(self, store: Store) -> None:
        """Whoever lets go is told who waits first, or that nobody does."""
        first = await self.run_of(store, "a")
        await self.busy(store, "c", place=2.0)
        await self.busy(store, "b", place=1.0)
        await store.finish(first, [], done(first), turn=turn_of("a"))
        second = await self.run_of(store, "b", place=1.0)
        await store.release(second)
        third = await self.run_of(store, "c", place=2.0)
        await store.finish(third, [], done(third))

        told = [run.session.next_run for run in (first, second, third) if run.session]
        assert told == ["b", "c", None]

    async def test_s15_without_a_claim(self, store: Store) -> None:
        """A run without a session neither waits for one nor holds one up."""
        await self.run_of(store, "a")
        run = await self.begin(store, "b")
        await store.finish(run, [], done(run))

        assert run.session is None
        assert await store.result("b") is not None
        await self.busy(store, "c")

    async def test_s18_enlist(self, store: Store, harness: StoreHarness) -> None:
        """A place that was kept goes before whoever is opened earlier; twice is once."""
        other = await harness.open()
        for name, place in (("b", 2.0), ("a", 1.0), ("b", 2.0)):
            await other.enlist(name, SessionClaim("s", "", place))
        ahead = [await self.busy(store, "c", place=3.0), await self.busy(store, "b", place=2.0)]
        for name, place in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
            run = await self.run_of(store, name, place=place)
            await store.finish(run, [], done(run), turn=turn_of(name))

        assert ahead == [2, 1]
        assert await self.told(store) == ["a", "b", "c"]

    async def test_s18_enlisted_too_late(self, store: Store) -> None:
        """A run that has been opened, or has ended, needs no place and gets none."""
        first = await self.answer(store, "a")
        second = await self.run_of(store, "b", place=5.0)
        for name in ("a", "b"):
            await store.enlist(name, SessionClaim("s", "", 0.0))
        await store.finish(second, [], done(second), turn=turn_of("b"))

        assert first.session is not None
        assert second.session is not None and second.session.next_run is None
        assert (await self.run_of(store, "c", place=9.0)).session is not None

    async def test_s19_or_without(self, store: Store) -> None:
        """Who can do without a busy session opens its run at once, and keeps nobody waiting."""
        first = await self.run_of(store, "a")
        await self.busy(store, "b", place=1.0)
        await self.busy(store, "c", place=2.0)
        opened = await self.hurried(store, "b")
        assert opened.run is not None
        await store.finish(opened.run, [note(0)], done(opened.run))
        await store.finish(first, [], done(first), turn=turn_of("a"))

        assert (opened.run.session, opened.history) == (None, ())
        assert first.session is not None and first.session.next_run == "c"
        assert (await self.run_of(store, "c", place=2.0)).session is not None

    async def test_s19_of_a_free_session(self, store: Store) -> None:
        """A session that is free is taken, also before those who wait for it."""
        first = await self.answer(store, "a")
        await store.enlist("b", SessionClaim("s", "", 1.0))
        opened = await self.hurried(store, "c")
        assert opened.run is not None and opened.run.session is not None
        await self.busy(store, "b", place=1.0)
        await store.finish(opened.run, [], done(opened.run), turn=turn_of("c"))

        assert first.session is not None
        assert opened.run.session.next_run == "b"
        assert await self.told(store) == ["a", "c"]

    async def test_s20_waits(self, store: Store, harness: StoreHarness) -> None:
        """Who is in the line is told who has the session and how many are in front."""
        assert await store.waits("b") is None
        await store.enlist("c", SessionClaim("s", "", 3.0))
        assert await store.waits("c") == SessionWait("s", None, 0)
        run = await self.run_of(store, "a")
        await self.busy(store, "b", place=2.0)

        other = await harness.open()
        assert await other.waits("b") == SessionWait("s", "a", 0)
        assert await other.waits("c") == SessionWait("s", "a", 1)
        assert await other.waits("a") is None
        await store.finish(run, [], done(run))
        assert await other.waits("b") == SessionWait("s", None, 0)
        await self.run_of(store, "b", place=2.0)
        assert await other.waits("b") is None
        assert await other.waits("c") == SessionWait("s", "b", 0)

    async def hurried(self, store: Store, run_id: str) -> Opened:
        """Open a run that does without its session when that is busy."""
        claim = SessionClaim("s", or_without=True)
        return await store.open(run_id, owner="w9", lease_seconds=self.lease_seconds, session=claim)

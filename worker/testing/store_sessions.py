"""The part of the contract of a store that is about conversations (S1 to S3, S5, S8 to S12, S16, S17)."""

from __future__ import annotations

import pytest

from worker.core.errors import LeaseLost, SessionConflict, StoreUnavailable
from worker.store.port import (
    Store,
    Turn,
)
from worker.testing.batches import for_each
from worker.testing.harness import StoreHarness
from worker.testing.session_case import TTL_SECONDS, SessionCase, done, named, turn_of
from worker.testing.store_case import note


class StoreSessions(SessionCase):
    """What is in a conversation, for how long, and how it gets there."""

    async def test_s01_compare_and_set(self, store: Store) -> None:
        """A save on another version than the present one is refused, told, and writes nothing."""
        await self.answer(store, "a")
        run = await self.run_of(store, "b")
        assert run.session is not None
        for stale in (0, 7):
            run.session.version = stale
            with pytest.raises(SessionConflict) as caught:
                await store.finish(run, [note(1)], done(run), turn=turn_of("b"))
            assert caught.value.version == 1
            with pytest.raises(SessionConflict):
                await store.release(run, turn=turn_of("b"))

        assert await store.result("b") is None
        assert await self.events(store, "b") == []
        assert await self.told(store) == ["a"]
        run.session.version = caught.value.version
        await store.finish(run, [note(1)], done(run), turn=turn_of("b"))
        assert await self.told(store) == ["a", "b"]

    async def test_s02_only_whole_turns(self) -> None:
        """A turn with a call without its result, or the reverse, cannot even be made."""
        good = turn_of("a").messages
        for bad in (good[:2], good[:1] + good[2:], (*good[:2], good[3]), (*good[:2], good[0])):
            with pytest.raises(ValueError, match="paired"):
                Turn(tuple(bad), ttl_seconds=1, bytes_max=1)

    async def test_s03_expiry(self, store: Store, harness: StoreHarness) -> None:
        """The time counts from the last save; afterwards the session is empty and begins anew."""
        await self.answer(store, "a")
        await harness.pass_time(TTL_SECONDS * 0.7)
        await self.answer(store, "b")
        await harness.pass_time(TTL_SECONDS * 0.7)
        assert await self.told(store) == ["a", "b"]
        await harness.pass_time(TTL_SECONDS * 0.4)

        assert await self.told(store) == []
        assert (await self.have(store, "c")).history == ()
        assert await self.told(await harness.open()) == []

    async def test_s03_prune(self, store: Store, harness: StoreHarness) -> None:
        """Old sessions leave with a prune, however many; those that are in use or young stay."""

        async def answer(number: int) -> None:
            run = (await self.have(store, f"r{number}", session=f"s{number}")).run
            assert run is not None
            await store.finish(run, [], done(run), turn=turn_of("x"))

        await for_each(answer, range(450))  # more than one batch
        in_use = await self.run_of(store, "u")
        await harness.pass_time(TTL_SECONDS * 1.1)
        await store.renew(in_use, lease_seconds=self.lease_seconds)
        young = (await self.have(store, "y", session="young")).run
        assert young is not None
        await store.finish(young, [], done(young), turn=turn_of("y"))

        await store.prune(older_than_seconds=TTL_SECONDS * 100)

        assert await self.told(store, "young") == ["y"]
        assert (await self.have(store, "r450", session="s7")).history == ()
        await self.busy(store, "v")
        await store.finish(in_use, [], done(in_use), turn=turn_of("u"))
        assert await self.told(store) == ["u"]

    async def test_s03_used_for_longer_than_kept(self, store: Store, harness: StoreHarness) -> None:
        """What a long run has read stays until its end, and is kept on with it."""
        await self.answer(store, "a")
        run = await self.run_of(store, "b")
        for _ in range(5):
            await harness.pass_time(self.lease_seconds * 0.9)
            await store.renew(run, lease_seconds=self.lease_seconds)
        await harness.pass_time(TTL_SECONDS)
        await store.finish(run, [], done(run), turn=turn_of("b"))

        assert await self.told(store) == ["a", "b"]

    async def test_s05_release_with_a_turn(self, store: Store) -> None:
        """A run that waits for long leaves word in the conversation, and its end replaces that."""
        run = await self.run_of(store, "a")
        await store.release(run, turn=turn_of("waits"))
        other = await self.have(store, "b")
        assert other.run is not None
        await store.finish(other.run, [], done(other.run), turn=turn_of("b"))
        again = await self.run_of(store, "a")
        await store.finish(again, [], done(again), turn=turn_of("a"))

        assert named(other.history) == ["waits"]
        assert await self.told(store) == ["b", "a"]

    async def test_s08_with_the_result(self, store: Store, harness: StoreHarness) -> None:
        """Turn and result come together; whoever delivers the run again adds nothing."""
        run = await self.run_of(store, "a")
        async with harness.outage():
            with pytest.raises(StoreUnavailable):
                await store.finish(run, [], done(run), turn=turn_of("a"))
        assert (await self.told(store), await store.result("a")) == ([], None)

        await store.finish(run, [], done(run), turn=turn_of("a"))
        await store.finish(run, [], done(run), turn=turn_of("a"))
        again = await self.have(store, "a", owner="w2")
        assert (again.run, again.history) == (None, ())
        with pytest.raises(LeaseLost):
            await store.release(run, turn=turn_of("a"))
        assert await self.told(store) == ["a"]

    async def test_s09_one_turn_for_each_run(self, store: Store) -> None:
        """A redriven run replaces what it left the first time, and comes last."""
        await self.answer(store, "a", turn_of("failed"))
        await self.answer(store, "b")
        await store.reopen("a")
        redriven = await self.have(store, "a", owner="w2")
        assert redriven.run is not None
        assert redriven.events == (note(0),)
        await store.finish(redriven.run, [note(1)], done(redriven.run), turn=turn_of("a"))

        assert await self.told(store) == ["b", "a"]

    async def test_s10_history(self, store: Store, harness: StoreHarness) -> None:
        """A new run reads the turns in order; one that has begun has read them already."""
        for name in "abc":
            await self.answer(store, name)
        other = await harness.open()
        fresh = await self.have(other, "d", owner="w2")
        assert fresh.run is not None
        expected = [m for name in "abc" for m in turn_of(name).messages]
        assert list(fresh.history) == expected
        assert list((await self.have(other, "d", owner="w2")).history) == expected

        again = (await self.have(other, "d", owner="w2")).run
        assert again is not None
        await other.append(again, [note(0)])
        assert (await self.have(other, "d", owner="w2")).history == ()

    async def test_s10_never_too_old_for_who_has_it(
        self, store: Store, harness: StoreHarness
    ) -> None:
        """A run that began in time reads the turns again when it is taken up, however late."""
        await self.answer(store, "a")
        await harness.pass_time(TTL_SECONDS * 0.9)
        run = await self.run_of(store, "b")
        await store.renew(run, lease_seconds=TTL_SECONDS)
        await harness.pass_time(TTL_SECONDS * 0.2)

        assert named((await self.have(store, "b")).history) == ["a"]

    async def test_s11_bounded(self, store: Store) -> None:
        """The oldest turns leave when the bound is passed; the newest stays, however large."""
        for number in range(12):
            name = f"t{number}"
            run = await self.answer(store, name, turn_of(name, size=1000, bytes_max=5500))
            assert run.session is not None
            assert 1000 < run.session.size_bytes <= 5500
        kept = await self.told(store)
        await self.answer(store, "huge", turn_of("huge", size=50_000, bytes_max=5500))

        assert kept == ["t8", "t9", "t10", "t11"]
        assert await self.told(store) == ["huge"]

    async def test_s12_tenants(self, store: Store) -> None:
        """The same session of two tenants is two, and neither waits for the other."""
        one = (await self.have(store, "a", tenant="one")).run
        two = (await self.have(store, "b", tenant="two")).run
        none = (await self.have(store, "c")).run
        for run in (one, two, none):
            assert run is not None
            await store.finish(run, [], done(run), turn=turn_of(run.id))

        assert await self.told(store, tenant="one") == ["a"]
        assert await self.told(store, tenant="two") == ["b"]
        assert await self.told(store) == ["c"]

    @pytest.mark.parametrize("size", [100, 70_000, 2_000_000])
    async def test_s16_any_text(self, store: Store, size: int) -> None:
        """A turn of any size and with any characters comes back as it was."""
        text = ("行情\x00🙂\ud800" * size)[:size]
        messages = (
            {"role": "user", "content": text},
            {"role": "assistant", "content": text, "x": 2**70},
        )
        turn = Turn(messages, ttl_seconds=TTL_SECONDS, bytes_max=1000)
        run = await self.run_of(store, "a")
        await store.finish(run, [], done(run), turn=turn)

        assert tuple(await store.conversation("s")) == messages
        assert (await self.have(store, "b")).history == messages

    async def test_s17_unknown(self, store: Store) -> None:
        """A session that nobody has spoken in is empty, also while the first run is at work."""
        await self.run_of(store, "a")

        assert list(await store.conversation("s")) == []
        assert list(await store.conversation("unknown")) == []

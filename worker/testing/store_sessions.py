"""The part of the contract of a store that is about sessions (S1 to S17)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from worker.core.errors import LeaseLost, SessionBusy, SessionConflict, StoreUnavailable
from worker.core.history import RawMessage
from worker.core.task import Result
from worker.store.port import (
    HOLD_PATIENCE_SECONDS,
    LINE_PATIENCE_SECONDS,
    Opened,
    Run,
    SessionClaim,
    Store,
    Turn,
)
from worker.testing.harness import StoreHarness
from worker.testing.store_case import StoreCase, note

TTL_SECONDS = 3600.0


def turn_of(name: str, *, size: int = 0, bytes_max: int = 1_000_000) -> Turn:
    """A turn with a call, that can be told from others."""
    call = {"id": f"c-{name}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[RawMessage] = [
        {"role": "user", "content": f"question {name}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c-{name}", "content": "x" * size or "seen"},
        {"role": "assistant", "content": f"answer {name}"},
    ]
    return Turn(tuple(messages), ttl_seconds=TTL_SECONDS, bytes_max=bytes_max)


def done(run: Run) -> Result:
    """A result for a run."""
    return Result(task_id=run.id, status="completed")


class StoreSessions(StoreCase):
    """Conversations: who has one, who waits, what is in it and for how long."""

    async def have(
        self,
        store: Store,
        run_id: str,
        *,
        owner: str = "w1",
        place: float = 0.0,
        session: str = "s",
        tenant: str = "",
    ) -> Opened:
        """Open a run with its session."""
        claim = SessionClaim(session, tenant, place)
        return await store.open(
            run_id, owner=owner, lease_seconds=self.lease_seconds, session=claim
        )

    async def run_of(self, store: Store, run_id: str, *, place: float = 0.0) -> Run:
        """Open a run that must get the session."""
        opened = await self.have(store, run_id, place=place)
        assert opened.run is not None
        return opened.run

    async def busy(self, store: Store, run_id: str, *, place: float = 0.0) -> int:
        """Be told that the session is busy; returns how many are ahead."""
        with pytest.raises(SessionBusy) as caught:
            await self.have(store, run_id, place=place)
        return caught.value.ahead

    async def answer(self, store: Store, run_id: str, turn: Turn | None = None) -> Run:
        """Take a run of the session from its beginning to its end."""
        run = await self.run_of(store, run_id)
        await store.finish(run, [note(0)], done(run), turn=turn or turn_of(run_id))
        return run

    async def told(self, store: Store, session: str = "s", *, tenant: str = "") -> list[str]:
        """The names of the turns in a conversation."""
        return named(await store.conversation(session, tenant=tenant))

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
        for number in range(450):  # more than one batch
            run = (await self.have(store, f"r{number}", session=f"s{number}")).run
            assert run is not None
            await store.finish(run, [], done(run), turn=turn_of("x"))
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
        """Who has ended, or does not come back in time, holds nobody up."""
        run = await self.run_of(store, "a")
        for name, place in (("cancelled", 1.0), ("gone", 2.0), ("b", 3.0)):
            await self.busy(store, name, place=place)
        await store.put_result(Result(task_id="cancelled", status="cancelled"))
        await store.finish(run, [], done(run))

        assert await self.busy(store, "b", place=3.0) == 1
        await harness.pass_time(LINE_PATIENCE_SECONDS * 1.1)
        assert (await self.run_of(store, "b", place=3.0)).session is not None

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


def named(messages: Sequence[RawMessage]) -> list[str]:
    """The names of the turns in some messages."""
    asked = [str(message["content"]) for message in messages if message["role"] == "user"]
    return [text.removeprefix("question ") for text in asked]

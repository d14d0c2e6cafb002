"""The part of the contract of a store that is about forgetting (J8, J20)."""

from __future__ import annotations

from collections.abc import Sequence

from worker.core.task import Result
from worker.store.port import Store
from worker.testing.batches import for_each
from worker.testing.harness import StoreHarness
from worker.testing.store_case import StoreCase, note


class StorePruning(StoreCase):
    """What leaves, what stays, and who is asked."""

    async def test_j08_prune(self, store: Store, harness: StoreHarness) -> None:
        """Finished runs leave after the time asked for; open, released and young ones stay."""
        for name in ("open", "released", "old"):
            await store.append(await self.begin(store, name), [note(0)])
        await store.release(await self.begin(store, "released"))
        await store.finish(
            await self.begin(store, "old"), [], Result(task_id="old", status="completed")
        )
        await store.put_result(Result(task_id="rejected", status="rejected"))
        await harness.pass_time(self.lease_seconds)
        await store.put_result(Result(task_id="young", status="rejected"))

        assert await store.prune(older_than_seconds=self.lease_seconds * 0.5) == 2

        assert await store.result("old") is None
        assert await store.result("rejected") is None
        assert await store.result("young") is not None
        assert await store.view("old") is None
        for name in ("open", "released"):
            assert len(await self.events(store, name)) == 1
        assert await store.prune(older_than_seconds=self.lease_seconds * 0.5) == 0
        assert (await store.open("old", owner="w1", lease_seconds=1)).events == ()

    async def test_j20_prune_keeps(self, store: Store, harness: StoreHarness) -> None:
        """Of the runs that could leave those stay that are kept; each is asked for once."""
        names = [f"r{number}" for number in range(1200)]  # more than one batch
        results = [Result(task_id=name, status="completed") for name in names]
        await for_each(store.put_result, results)
        await store.request_cancel("early")
        await store.append(await self.begin(store, "open"), [note(0)])
        await harness.pass_time(self.lease_seconds)
        await store.put_result(Result(task_id="young", status="rejected"))
        asked: list[str] = []

        async def kept(ids: Sequence[str]) -> set[str]:
            asked.extend(ids)
            return {"early", *names[::2]} & set(ids)

        gone = await store.prune(older_than_seconds=self.lease_seconds * 0.5, kept=kept)

        assert gone == 600
        assert sorted(asked) == sorted([*names, "early"])
        assert await store.cancel_requested("early") is True
        assert [await store.result(name) is not None for name in names[:4]] == [True, False] * 2
        assert await store.prune(older_than_seconds=self.lease_seconds * 0.5) == 600

    async def test_j20_prune_looks_again(self, store: Store, harness: StoreHarness) -> None:
        """A run that is reopened while the keeper is asked stays, with its events."""
        run = await self.begin(store)
        await store.finish(run, [note(0)], Result(task_id="t", status="error"))
        await harness.pass_time(self.lease_seconds)

        async def kept(ids: Sequence[str]) -> list[str]:
            await store.reopen("t")
            return []

        assert await store.prune(older_than_seconds=0, kept=kept) == 0
        assert (await store.open("t", owner="w2", lease_seconds=1)).events == (note(0),)

    async def test_j20_prune_leaves_a_younger_end(
        self, store: Store, harness: StoreHarness
    ) -> None:
        """A run that is redriven and ends anew while the keeper is asked is no longer old."""
        await store.finish(await self.begin(store), [note(0)], Result(task_id="t", status="error"))
        await harness.pass_time(self.lease_seconds)

        async def kept(ids: Sequence[str]) -> list[str]:
            await store.reopen("t")
            run = await self.begin(store)
            await store.finish(run, [note(1)], Result(task_id="t", status="completed"))
            return []

        assert await store.prune(older_than_seconds=self.lease_seconds * 0.5, kept=kept) == 0
        assert len(await self.events(store)) == 2

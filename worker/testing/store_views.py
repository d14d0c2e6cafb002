"""The part of the contract of a journal that is about looking at it (J18)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from worker.core.events import ToolStarted
from worker.core.task import Result
from worker.store.port import BEYOND_ALL_EVENTS, Store
from worker.testing.harness import StoreHarness
from worker.testing.store_case import StoreCase, note


class StoreViews(StoreCase):
    """What operators and watchers are shown."""

    async def test_j18_view(self, store: Store, harness: StoreHarness) -> None:
        """A view shows state, owner and the events after a number; recent, what changed last."""
        run = await self.begin(store, "a")
        await store.append(run, [note(0), ToolStarted(at=1.0, call_id="c", idempotency_key="k")])
        await store.append(run, [note(2)])
        await harness.pass_time(2)
        await store.finish(
            await self.begin(store, "b"), [], Result(task_id="b", status="completed")
        )

        view = await store.view("a", after_seq=0)
        assert view is not None
        assert (view.state, view.owner, view.epoch) == ("open", "w1", run.epoch)
        assert [event["seq"] for event in view.events] == [1, 2]
        assert view.events[0]["kind"] == "tool_started"
        assert view.events[0]["data"]["idempotency_key"] == "k"
        assert await store.view("unknown") is None
        assert self.names(await store.recent()) == ["b", "a"]
        await harness.pass_time(2)
        await store.append(run, [note(3)])
        assert self.names(await store.recent()) == ["a", "b"]
        assert self.names(await store.recent(limit=1)) == ["a"]

    async def test_j18_view_of_a_lease(self, store: Store, harness: StoreHarness) -> None:
        """How long the owner has a run yet; nothing once that is over, or it has let go."""
        run = await self.begin(store)
        fresh = await self.left(store)
        await harness.pass_time(self.lease_seconds * 0.5)
        half = await self.left(store)
        await harness.pass_time(self.lease_seconds * 0.6)
        over = await self.left(store)
        await store.renew(run, lease_seconds=self.lease_seconds)
        (renewed,) = await store.recent()
        await store.release(run)

        assert self.lease_seconds * 0.9 < fresh <= self.lease_seconds
        assert 0 < half <= self.lease_seconds * 0.5
        assert over == 0
        assert self.lease_seconds * 0.9 < renewed.lease_left <= self.lease_seconds
        assert await self.left(store) == 0

    async def left(self, store: Store) -> float:
        """The seconds that are left of the run's lease."""
        view = await store.view("t", after_seq=BEYOND_ALL_EVENTS)
        assert view is not None
        return view.lease_left

    def names(self, views: Sequence[Any]) -> list[str]:
        """The ids of what `recent` shows, which comes without events."""
        assert all(view.events == () for view in views)
        return [view.id for view in views]

    async def test_j18_view_after_any_number(self, store: Store) -> None:
        """However the events were written, exactly those after the number are shown."""
        run, neighbour = await self.begin(store), await self.begin(store, "neighbour")
        total = 0
        for size in (1, 3, 1, 2, 4):
            await store.append(run, [note(total + place) for place in range(size)])
            await store.append(neighbour, [note(0)])
            total += size

        for after in (-5, *range(-1, total + 2), BEYOND_ALL_EVENTS):
            view = await store.view("t", after_seq=after)
            assert view is not None
            numbers = [(event["seq"], event["data"]["at"]) for event in view.events]
            assert numbers == [(seq, float(seq)) for seq in range(max(0, after + 1), total)]

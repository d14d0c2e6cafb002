"""The contract of a journal that concerns the heartbeat, and what it hears (J22, J23)."""

from __future__ import annotations

import pytest

from worker.core.errors import LeaseLost, RunBusy
from worker.core.task import Result
from worker.store.port import Store
from worker.testing.blocked import call_beside_blocked_loop
from worker.testing.harness import StoreHarness
from worker.testing.store_case import StoreCase, note


class StoreRenewing(StoreCase):
    """What a thread beside the event loop may ask."""

    async def test_j22_renewal_from_another_thread(
        self, store: Store, harness: StoreHarness
    ) -> None:
        """Runs are renewed while the loop is blocked, and their owner goes on as if nothing was."""
        run, done = await self.begin(store), await self.begin(store, "done")
        await store.append(run, [note(0)])
        await store.finish(done, [], Result(task_id="done", status="completed"))
        for _ in range(3):
            await harness.pass_time(self.lease_seconds * 0.6)
            lost = call_beside_blocked_loop(
                lambda: store.renew_many([run, done], lease_seconds=self.lease_seconds)
            )
            assert [one.id for one in lost] == ["done"]

        with pytest.raises(RunBusy):
            await store.open("t", owner="w2", lease_seconds=1)
        assert run.next_seq == 1
        await store.append(run, [note(1)])
        assert len(await self.events(store)) == 2

    async def test_j22_a_lost_run_is_told_in_another_thread(
        self, store: Store, harness: StoreHarness
    ) -> None:
        """The heartbeat hears that a run was taken over, and changes nothing for its new owner."""
        run = await self.begin(store)
        await harness.pass_time(self.lease_seconds * 1.1)
        owner = await self.begin(store, owner="w2")

        lost = call_beside_blocked_loop(
            lambda: store.renew_many([run], lease_seconds=1000 * self.lease_seconds)
        )

        assert lost == [run]
        assert not run.closing
        with pytest.raises(LeaseLost):
            await store.append(run, [note(0)])
        await store.append(owner, [note(0)])
        await harness.pass_time(self.lease_seconds * 1.1)
        await self.begin(store, owner="w3")

    async def test_j23_cancelled_among(self, store: Store, harness: StoreHarness) -> None:
        """Those that were asked to stop are named, by whomever, and nobody else."""
        names = ["a", "b", "c-任务'\"", "d\ud800"]
        for name in names:
            await self.begin(store, name)
        other = await harness.open()
        assert list(await store.cancelled_among(names)) == []
        for name in names[1:]:
            await other.request_cancel(name)

        found = call_beside_blocked_loop(lambda: store.cancelled_among([*names, "unknown"]))

        assert sorted(found) == sorted(names[1:])
        assert list(await store.cancelled_among(["a"])) == []
        assert list(await store.cancelled_among([])) == []

    async def test_who_lets_go_says_so(self, store: Store) -> None:
        """A renewal that crosses the end of a run can tell it from a loss."""
        ended, released = await self.begin(store, "a"), await self.begin(store, "b")
        before = [ended.closing, released.closing]
        await store.finish(ended, [], Result(task_id="a", status="completed"))
        await store.release(released)
        again = await self.begin(store, "b")

        assert before == [False, False]
        assert [ended.closing, released.closing, again.closing] == [True, True, False]

"""Keep every lease of this worker alive, and tell the runs whose lease is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from worker.consuming.delivery import Held
from worker.core.errors import QueueUnavailable, StoreUnavailable
from worker.queues.port import Queue
from worker.store.port import Journal
from worker.telemetry.signals import LeaseRenewed, LeaseWasLost
from worker.telemetry.tell import Telemetry


class Heartbeat:
    """Renews all leases and runs of a worker in one go, every third of the lease.

    A lease that could not be renewed for so long that it must have run out is given up before
    somebody else can take it: `held.lost` is set and `on_lost` is called with the task's key.
    """

    def __init__(
        self,
        queue: Queue,
        journal: Journal,
        telemetry: Telemetry,
        *,
        lease_seconds: float,
        clock: Callable[[], float],
        on_lost: Callable[[str], None],
        on_cancel: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._journal = journal
        self._telemetry = telemetry
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._renewed_at: dict[str, float] = {}

    async def run(self, held: Mapping[str, Held]) -> None:
        """Beat until cancelled. `held` is looked at anew with every beat."""
        while True:
            began = self._clock()
            await asyncio.sleep(self._lease_seconds / 3)
            late = self._clock() - began - self._lease_seconds / 3
            await self.beat(held, late_seconds=max(0.0, late))

    async def beat(self, held: Mapping[str, Held], *, late_seconds: float = 0.0) -> None:
        """Renew everything once."""
        now = self._clock()
        snapshot = dict(held)
        self._renewed_at = {
            key: self._renewed_at.get(key, one.lease.expires_at - self._lease_seconds)
            for key, one in snapshot.items()
        }
        if not snapshot:
            return
        outcome = "success"
        try:
            await self._renew(snapshot)
            self._renewed_at.update(dict.fromkeys(snapshot, now))
        except (QueueUnavailable, StoreUnavailable):
            outcome = "error"
            self._give_up_expired(snapshot)
        self._telemetry.tell(LeaseRenewed(self._queue.name, outcome, late_seconds))

    async def _renew(self, held: dict[str, Held]) -> None:
        # The journal first: then its lease never outlives the queue's, and whoever claims the task
        # after this worker's death can open the run at once.
        runs = {id(one.run): key for key, one in held.items() if one.run is not None}
        opened = [one.run for one in held.values() if one.run is not None]
        lost_runs = await self._journal.renew_many(opened, lease_seconds=self._lease_seconds)
        leases = {one.lease.token: key for key, one in held.items()}
        lost_leases = await self._queue.extend_many(
            [one.lease for one in held.values()], lease_seconds=self._lease_seconds
        )
        for run in lost_runs:
            self._lose(runs.get(id(run)), held)
        for run in opened:
            if run.cancel_requested:
                self._on_cancel(run.id)
        for lease in lost_leases:
            self._lose(leases.get(lease.token), held)

    def _give_up_expired(self, held: dict[str, Held]) -> None:
        margin = self._lease_seconds / 6
        for key in held:
            if self._clock() - self._renewed_at[key] >= self._lease_seconds - margin:
                self._lose(key, held)

    def _lose(self, key: str | None, held: dict[str, Held]) -> None:
        if key is None or held[key].lost:
            return
        held[key].lost = True
        self._telemetry.tell(LeaseWasLost(self._queue.name, held[key].lease.id))
        self._on_lost(key)

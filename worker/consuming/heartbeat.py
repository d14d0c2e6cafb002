"""Keep every lease of this worker alive, and hear what has become of its runs.

Everything here happens in a thread of its own (`beating.py`), so that a tool that blocks the event
loop costs no lease. But a worker whose loop never comes back must not keep its tasks from others:
when the loop has been silent for too long, nothing is renewed until it ticks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from worker.consuming.delivery import Held
from worker.core.errors import QueueUnavailable, StoreUnavailable
from worker.queues.port import Queue
from worker.store.port import Journal
from worker.telemetry.signals import LeaseRenewed, LeaseWasLost, LoopStuck
from worker.telemetry.tell import Telemetry

LOOK_SECONDS = 0.5  # between looks for cancels that another process has noted


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatOptions:
    """How long a lease is, and how long the event loop may be silent before it is let go of."""

    lease_seconds: float
    stuck_seconds: float

    @property
    def look_seconds(self) -> float:
        """Between two looks: a third of the lease at most, for with one of them it is renewed."""
        return min(LOOK_SECONDS, self.lease_seconds / 3)


class Heartbeat:
    """Renews all leases and runs of a worker in one go, every third of the lease.

    A lease that could not be renewed for so long that it must have run out is given up before
    somebody else can take it: `held.lost` is set and `on_lost` is called with the task's key.
    `on_cancel` is called with the id of a run that somebody wants to stop, and may be again.
    `silence` tells how long ago the event loop of the runs last ticked.
    """

    def __init__(
        self,
        queue: Queue,
        journal: Journal,
        telemetry: Telemetry,
        options: HeartbeatOptions,
        *,
        clock: Callable[[], float],
        silence: Callable[[], float],
        on_lost: Callable[[str], None],
        on_cancel: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._journal = journal
        self._telemetry = telemetry
        self._options = options
        self._clock = clock
        self._silence = silence
        self._on_lost = on_lost
        self._on_cancel = on_cancel
        self._renewed_at: dict[str, float] = {}
        self._is_stuck = False

    def __repr__(self) -> str:
        state = "the loop is stuck" if self._is_stuck else "beating"
        return f"Heartbeat({state}, {len(self._renewed_at)} leases)"

    async def run(self, held: Mapping[str, Held]) -> None:
        """Beat until cancelled. `held` is looked at anew each time."""
        due = self._clock() + self._options.lease_seconds / 3
        while True:
            began = self._clock()
            await asyncio.sleep(self._options.look_seconds)
            now = self._clock()
            # What this thread itself was late by, the loop could not tick either: the process was
            # stopped, or the machine asleep.
            if self.is_stuck(missed_seconds=now - began - self._options.look_seconds):
                continue
            if now < due:
                await self.look(held)
            else:
                await self.beat(held, late_seconds=now - due)
                due = now + self._options.lease_seconds / 3

    def is_stuck(self, *, missed_seconds: float = 0.0) -> bool:
        """Whether the event loop has been silent for too long; told once, when it begins."""
        silence = self._silence() - max(0.0, missed_seconds)
        was_stuck, self._is_stuck = self._is_stuck, silence > self._options.stuck_seconds
        if self._is_stuck and not was_stuck:
            self._telemetry.tell(LoopStuck(silence))
        return self._is_stuck

    async def look(self, held: Mapping[str, Held]) -> None:
        """Hear of cancels that were noted elsewhere. An outage is for the next beat to tell."""
        runs = {one.run.id: one.run for one in dict(held).values() if one.run is not None}
        unheard = [run.id for run in runs.values() if not run.cancel_requested]
        if not unheard:
            return
        try:
            for run_id in await self._journal.cancelled_among(unheard):
                runs[run_id].cancel_requested = True
                self._on_cancel(run_id)
        except StoreUnavailable:
            return

    async def beat(self, held: Mapping[str, Held], *, late_seconds: float = 0.0) -> None:
        """Renew everything once."""
        now, lease_seconds = self._clock(), self._options.lease_seconds
        snapshot = dict(held)
        self._renewed_at = {
            key: self._renewed_at.get(key, one.lease.expires_at - lease_seconds)
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
        self._telemetry.tell(LeaseRenewed(self._queue.name, outcome, max(0.0, late_seconds)))

    async def _renew(self, held: dict[str, Held]) -> None:
        # The journal first: then its lease never outlives the queue's, and whoever claims the task
        # after this worker's death can open the run at once.
        runs = {key: run for key, one in held.items() if (run := one.run) is not None}
        keys = {id(run): key for key, run in runs.items()}
        lease_seconds = self._options.lease_seconds
        lost_runs = await self._journal.renew_many([*runs.values()], lease_seconds=lease_seconds)
        leases = {one.lease.token: key for key, one in held.items()}
        lost_leases = await self._queue.extend_many(
            [one.lease for one in held.values()], lease_seconds=lease_seconds
        )
        for run in lost_runs:
            if not run.closing:  # else it has ended, or was handed back, while we asked
                self._lose(keys[id(run)], held)
        for run in runs.values():
            if run.cancel_requested:
                self._on_cancel(run.id)
        for lease in lost_leases:
            self._lose(leases[lease.token], held)

    def _give_up_expired(self, held: dict[str, Held]) -> None:
        lease_seconds = self._options.lease_seconds
        margin = lease_seconds / 6
        for key in held:
            if self._clock() - self._renewed_at[key] >= lease_seconds - margin:
                self._lose(key, held)

    def _lose(self, key: str, held: dict[str, Held]) -> None:
        one = held[key]
        if one.settled or not one.lose():
            return
        self._telemetry.tell(LeaseWasLost(self._queue.name, one.lease.id))
        self._on_lost(key)

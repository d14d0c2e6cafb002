"""Write the facts of one run: journal first, then the loop.

A fact that stands for an effect outlives the machine before the run goes on, with all that came
before it. What would only be found out again (a reply of the model, the result of a read) outlives
the process: a loss of power may cost it, a crash does not.

Facts that arrive while a write is under way go out together with the next one, so that parallel
calls cost few writes and never race for a place in the journal.
"""

from __future__ import annotations

import asyncio

from worker.core.errors import WorkerError
from worker.core.events import Event
from worker.core.loop import Loop
from worker.running.groups import Groups
from worker.store.port import Journal, Run
from worker.telemetry.signals import StepUpdated
from worker.telemetry.tell import Telemetry


class Recorder:
    """The pen of one run. Raises what the journal raises (LeaseLost, StoreUnavailable)."""

    def __init__(self, loop: Loop, run: Run, journal: Journal, telemetry: Telemetry) -> None:
        self.loop = loop
        self.run = run
        self._journal = journal
        self._telemetry = telemetry
        self._deferred: list[Event] = []
        self._waiting: list[Event] = []
        self._waits_for_disk = False  # whether one of the waiting has to outlive the machine
        self._turn = asyncio.Lock()
        self._failure: WorkerError | None = None
        self.broken_rules: set[str] = set()  # hand-off rules that could not be asked
        self.groups: Groups | None = None  # what sequential calls share, once there are any

    def defer(self, event: Event) -> None:
        """Take a fact in now and write it with the next one.

        Only for what would be decided again in the same way after a crash, and for what is
        followed by a write at once, with nothing done in between.
        """
        self._deferred.append(event)
        self.loop.apply(event)

    async def record(self, *events: Event, synced: bool = True) -> None:
        """Write facts, all or none, then let the loop know them.

        Not `synced`: a loss of power may cost them, because they stand for nothing that was done
        in the world. Cancelled: they are in the journal or not; the caller must let go of the run.
        """
        self._waiting += events
        self._waits_for_disk |= synced
        async with self._turn:
            if self._failure is not None:
                # The fact may have been in the write that failed: nobody may go on as if it stood.
                raise self._failure
            if all(fact is not events[-1] for fact in self._waiting):
                return  # they went out with somebody else's write
            batch, self._waiting = self._waiting, []
            deferred, self._deferred = self._deferred, []
            synced, self._waits_for_disk = self._waits_for_disk, False
            try:
                await self._journal.append(self.run, [*deferred, *batch], synced=synced)
            except WorkerError as error:
                self._failure = error
                raise
            for fact in batch:
                self.loop.apply(fact)
        self._telemetry.tell(StepUpdated(self.run.id, self.run.next_seq - 1, "", is_final=False))

    def unwritten(self) -> list[Event]:
        """Take the facts that still have to be written, for the last write of the run."""
        deferred, self._deferred = self._deferred, []
        return deferred

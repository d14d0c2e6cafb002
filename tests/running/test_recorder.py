"""Facts that arrive while a write is under way: one write for all, as durable as one of them asks."""

from __future__ import annotations

import asyncio

from worker.core.events import NoteAdded
from worker.core.limits import Limits
from worker.core.loop import Loop
from worker.running.recorder import Recorder
from worker.store.port import Run
from worker.telemetry.tell import Telemetry
from worker.testing.store_suite import STARTED


class HeldJournal:
    """A journal whose first write lasts until it is let go of."""

    def __init__(self):
        self.writes, self.held = [], asyncio.Event()

    async def append(self, run, events, *, synced=True):
        """Keep what was written, and how."""
        self.writes.append(("".join(event.text for event in events), synced))
        if len(self.writes) == 1:
            await self.held.wait()


async def test_one_write_is_as_durable_as_the_strictest_of_its_facts():
    """An effect among the results of reads brings them all to the disk; the next read waits not."""
    journal = HeldJournal()
    loop = Loop.replay(Limits(), [STARTED])
    recorder = Recorder(loop, Run("t1", 1, "me", 0), journal, Telemetry([]))

    def write(name, *, synced):
        fact = NoteAdded(1.0, "note", name)
        return asyncio.create_task(recorder.record(fact, synced=synced))

    writing = [write("a", synced=False), write("b", synced=False), write("c", synced=True)]
    while not journal.writes:  # noqa: ASYNC110  (a list has no signal)
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    journal.held.set()
    await asyncio.gather(*writing)
    await write("d", synced=False)

    assert journal.writes == [("a", False), ("bc", True), ("d", False)]

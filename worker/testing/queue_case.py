"""What the tests of a queue stand on: fixtures to open one, and claims that pass over repeats."""

from __future__ import annotations

from typing import ClassVar

import pytest

from worker.queues.port import Lease, Queue
from worker.testing.duplicates import duplicating
from worker.testing.harness import PATIENCE_SECONDS, QueueHarness

# Order is promised of tasks that belong together, whatever queue they lie in.
TOGETHER = b'{"input": "?", "session_id": "one"}'


class QueueCase:
    """A queue under test; the base of the suite."""

    duplicates: ClassVar[bool] = False
    lease_seconds: ClassVar[float] = 30.0  # an engine whose time cannot jump wants a short one

    @pytest.fixture
    async def harness(self) -> QueueHarness:
        """The engine under test; to be given by the subclass."""
        raise NotImplementedError("give the suite a harness fixture")

    @pytest.fixture
    async def queue(self, harness: QueueHarness) -> Queue:
        """A queue on the empty engine."""
        return await self.open(harness)

    async def open(
        self,
        harness: QueueHarness,
        *,
        name: str = "tasks",
        max_deliveries: int = 5,
        depth_max: int | None = None,
    ) -> Queue:
        """Open a queue, delivering twice where the suite runs with duplicates."""
        queue = await harness.open(name=name, max_deliveries=max_deliveries, depth_max=depth_max)
        return duplicating(queue) if self.duplicates else queue

    async def take(
        self, queue: Queue, *, limit: int = 1, wait_seconds: float = 0.0, owner: str = "w1"
    ) -> list[Lease]:
        """Claim, and pass over what was handed to us before, as a consumer does."""
        seen: set[str] = self.__dict__.setdefault("_seen", set())
        while True:
            leases = await queue.claim(
                owner=owner,
                lease_seconds=self.lease_seconds,
                wait_seconds=wait_seconds,
                limit=limit,
            )
            fresh = [lease for lease in leases if lease.token not in seen]
            seen.update(lease.token for lease in fresh)
            if fresh or not leases:
                return fresh

    async def take_one(self, queue: Queue, *, owner: str = "w1") -> Lease:
        """Claim exactly one task that must be there."""
        leases = await self.take(queue, owner=owner, wait_seconds=PATIENCE_SECONDS)
        assert len(leases) == 1
        return leases[0]

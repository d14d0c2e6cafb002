"""The queue on NATS JetStream; see the port for what each method promises.

A task is one message of a subject of its own, changed by compare and swap: the server refuses who
has read an older one. So nothing of the contract is missing here.
"""

from __future__ import annotations

from collections.abc import Callable

from worker.queues.linked import LinkedQueue
from worker.queues.nats_link import NatsLink
from worker.queues.nats_shelf import NatsShelf
from worker.queues.nats_work import Claimed, NatsWork
from worker.queues.port import (
    MAX_DELIVERIES,
    Capabilities,
)
from worker.queues.reasons import readable


class NatsQueue(LinkedQueue[Claimed]):
    """A queue on NATS; see the port for what each method promises.

    Takes over one use of `link` and closes it. `shift` moves the clock, for tests.
    """

    capabilities = Capabilities()
    system = "nats"

    def __init__(
        self,
        link: NatsLink,
        *,
        name: str = "tasks",
        max_deliveries: int = MAX_DELIVERIES,
        depth_max: int | None = None,
        shift: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.name = name
        self._link = link
        self._shift = shift
        self._shelf = NatsShelf(link, name, shift)
        self._work = NatsWork(self._shelf, max_deliveries=max_deliveries, depth_max=depth_max)
        super().__init__(link, self._work, self._work)

    def __repr__(self) -> str:
        return f"NatsQueue({self.name!r}, {len(self._held)} leases held, {self._link!r})"

    def check(self) -> None:
        """Ask the server how it and the streams are set up, and block meanwhile.

        Raises ConfigError for what would lose tasks, or lets nobody in. A server that cannot be
        reached is left for the first call, which asks again.
        """
        self._link.check(self._shelf.sync())

    async def cancel(self, task_id: str) -> bool:
        """See the port: remove a waiting task."""
        return await self._link.run(self._work.cancel(readable(task_id)))

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: make a parked task ready; here it is found by its id."""
        return await self._link.run(self._work.wake(readable(task_id), afresh))

    async def body(self, task_id: str) -> bytes | None:
        """See the port: what was put."""
        return await self._link.run(self._work.body(readable(task_id)))

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port: forget settled tasks."""
        return await self._link.run(self._work.prune(older_than_seconds))

    def sibling(self, name: str) -> NatsQueue:
        """See the port: the queue of another name over the same connection."""
        other = NatsQueue(
            self._link.again(),
            name=name,
            max_deliveries=self._work.max_deliveries,
            depth_max=self._work.depth_max,
            shift=self._shift,
        )
        self._siblings.append(other)
        return other

"""The queue on RabbitMQ; see the port for what each method promises.

Any program can put a task in by publishing to the queue that has its name; `message_id` is its id.
What RabbitMQ cannot do stands in the capabilities, and the journal makes up for it.
"""

from __future__ import annotations

from collections.abc import Callable

from worker.queues.linked import LinkedQueue
from worker.queues.port import (
    MAX_DELIVERIES,
    Capabilities,
)
from worker.queues.rabbit_link import RabbitLink
from worker.queues.rabbit_look import RabbitLook
from worker.queues.rabbit_moves import RabbitMoves
from worker.queues.rabbit_work import Claimed, RabbitWork
from worker.queues.reasons import readable


class RabbitQueue(LinkedQueue[Claimed]):
    """A queue on RabbitMQ; see the port for what each method promises.

    Takes over one use of `link` and closes it. `shift` moves the clock of leases, for tests.
    """

    capabilities = Capabilities(extends=False, deduplicates=False, tells_oldest=False, finds=False)
    system = "rabbitmq"

    def __init__(
        self,
        link: RabbitLink,
        *,
        name: str = "tasks",
        max_deliveries: int = MAX_DELIVERIES,
        depth_max: int | None = None,
        shift: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.name = name
        self._shift = shift
        self._link = link
        self._moves = RabbitMoves(link, name)
        self._work = RabbitWork(
            self._moves, max_deliveries=max_deliveries, depth_max=depth_max, shift=shift
        )
        self._look = RabbitLook(self._moves, self._work)
        super().__init__(link, self._work, self._look)

    def __repr__(self) -> str:
        return f"RabbitQueue({self.name!r}, {len(self._held)} leases held, {self._link!r})"

    def check(self) -> None:
        """Make the queues where there are none, look at those that there are, and block meanwhile.

        Raises ConfigError for what would lose tasks, or lets nobody in. A server that cannot be
        reached is left for the first call, which asks again.
        """
        self._link.check(self._moves.opened())

    async def cancel(self, task_id: str) -> bool:
        """See the port: a waiting task cannot be found here, and ends when it is claimed."""
        return False

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: here a second ticket is put beside the parked one."""
        return await self._link.run(self._look.wake(readable(task_id), afresh, body))

    async def body(self, task_id: str) -> bytes | None:
        """See the port: it cannot be looked for here."""
        return None

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port: what is settled is forgotten here at once."""
        return 0

    async def look_at_clock(self) -> None:
        """Put back what is over by a clock that was moved; for tests."""
        await self._link.run(self._work.look_at_clock())

    async def empty(self) -> None:
        """Throw away whatever waits, or is dead; for tests."""
        await self._link.run(self._look.empty())

    def sibling(self, name: str) -> RabbitQueue:
        """See the port: the queue of another name over the same connection."""
        other = RabbitQueue(
            self._link.again(),
            name=name,
            max_deliveries=self._work.max_deliveries,
            depth_max=self._work.depth_max,
            shift=self._shift,
        )
        self._siblings.append(other)
        return other

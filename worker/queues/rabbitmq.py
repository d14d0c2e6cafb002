"""The queue on RabbitMQ; see the port for what each method promises.

Any program can put a task in by publishing to the queue that has its name; `message_id` is its id.
What RabbitMQ cannot do stands in the capabilities, and the journal makes up for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from worker.awaiting import kept
from worker.core.errors import QueueUnavailable
from worker.queues.holding import Holding
from worker.queues.port import (
    MAX_DELIVERIES,
    Capabilities,
    DeadLetter,
    Depth,
    Lease,
    Place,
    Ticket,
)
from worker.queues.rabbit_link import RabbitLink
from worker.queues.rabbit_look import RabbitLook
from worker.queues.rabbit_moves import RabbitMoves
from worker.queues.rabbit_work import Claimed, RabbitWork
from worker.queues.reasons import readable

HAND_BACK_SECONDS = 5.0  # for the leases of a queue that closes


class RabbitQueue:
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
        self._held = Holding()
        self._claims: set[asyncio.Task[Any]] = set()
        self._siblings: list[RabbitQueue] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"RabbitQueue({self.name!r}, {len(self._held)} leases held, {self._link!r})"

    def check(self) -> None:
        """Make the queues where there are none, look at those that there are, and block meanwhile.

        Raises ConfigError for what would lose tasks, or lets nobody in. A server that cannot be
        reached is left for the first call, which asks again.
        """
        self._link.check(self._moves.opened())

    async def put(self, ticket: Ticket) -> bool:
        """See the port: add a task; False when its id is known."""
        return await self._link.run(self._work.put(ticket))

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """See the port: lease up to `limit` tasks, waiting for the first.

        Cancelled while the claim is under way: what it gets is handed back uncounted.
        """
        give_up_at = time.monotonic() + wait_seconds
        while True:
            claiming = self._keep(self._ask(readable(owner), lease_seconds, limit))
            claimed = await kept(claiming, undo=self._undo_claim)
            left = give_up_at - time.monotonic()
            if claimed.leases or left <= 0:
                return claimed.leases
            await self._link.wait(self._work.wait(claimed, left))

    async def extend(self, lease: Lease, *, lease_seconds: float) -> None:
        """See the port: keep the lease from now."""
        if await self.extend_many([lease], lease_seconds=lease_seconds):
            raise self._held.lost(lease)

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """See the port: keep many leases; returns the lost ones."""
        return await self._link.run(self._work.extend_many(leases, lease_seconds))

    async def ack(self, lease: Lease) -> None:
        """See the port: settle for good."""
        await self._settle(lease, self._work.ack(lease))

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port: hand back, hidden for the delay."""
        work = self._work.nack(lease, delay_seconds=delay_seconds, counted=counted, reason=reason)
        await self._settle(lease, work)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port: give the task up."""
        await self._settle(lease, self._work.dead_letter(lease, reason))

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port: the newest dead letters first."""
        return await self._link.run(self._look.dead(limit))

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port: tell of the tasks that claims give up."""
        self._held.listen(told)

    async def redrive(self, task_id: str) -> bool:
        """See the port: put a dead letter back."""
        return await self._link.run(self._look.redrive(readable(task_id)))

    async def cancel(self, task_id: str) -> bool:
        """See the port: a waiting task cannot be found here, and ends when it is claimed."""
        return False

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: here a second ticket is put beside the parked one."""
        return await self._link.run(self._look.wake(readable(task_id), afresh, body))

    async def state(self, task_id: str) -> str | None:
        """See the port: where a task is."""
        place = await self.place(task_id)
        return None if place is None else place.state

    async def place(self, task_id: str) -> Place | None:
        """See the port: where a task is, and why."""
        return await self._link.run(self._look.place(readable(task_id)))

    async def body(self, task_id: str) -> bytes | None:
        """See the port: it cannot be looked for here."""
        return None

    async def depth(self) -> Depth:
        """See the port: tasks by state."""
        return await self._link.run(self._look.depth())

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

    async def close(self) -> None:
        """See the port: hand unsettled leases back uncounted, let go of the connection."""
        if self._closed:
            return
        self._closed = True
        for sibling in self._siblings:
            await sibling.close()
        if self._claims:
            await asyncio.wait(self._claims)
        # A server that is out of reach gets none back: the leases run out by themselves.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_SECONDS):
                await self._hand_back(self._held.take_all(), "handed back")
        await self._link.run(self._work.close())
        with contextlib.suppress(QueueUnavailable):
            await self._link.run(self._moves.close())
        await self._link.close()

    async def _ask(self, owner: str, lease_seconds: float, limit: int) -> Claimed:
        claimed = await self._link.run(self._work.claim(owner, lease_seconds, limit))
        self._held.take(claimed.leases)
        self._held.tell_dead(claimed.dead)
        return claimed

    async def _settle(self, lease: Lease, work: Coroutine[Any, Any, bool]) -> None:
        if not await self._link.run(work):
            raise self._held.lost(lease)
        self._held.let_go(lease)

    async def _undo_claim(self, claimed: Claimed) -> None:
        await self._hand_back(claimed.leases, "claim cancelled")

    async def _hand_back(self, leases: Sequence[Lease], reason: str) -> None:
        """Hand back uncounted; a lost lease needs none, and a server out of reach gets none."""
        back = [
            self._work.nack(lease, delay_seconds=0, counted=False, reason=reason)
            for lease in leases
        ]
        for lease in leases:
            self._held.let_go(lease)
        outcomes = await asyncio.gather(
            *[self._link.run(each) for each in back], return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, QueueUnavailable):
                raise outcome

    def _keep(self, work: Coroutine[Any, Any, Claimed]) -> asyncio.Task[Claimed]:
        task = asyncio.create_task(work)
        self._claims.add(task)
        task.add_done_callback(self._claims.discard)
        return task

"""What one queue object has in hand, on whatever engine: its leases, and who hears of dead tasks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from worker.awaiting import kept
from worker.core.errors import LeaseLost, QueueUnavailable
from worker.queues.port import Lease

HAND_BACK_SECONDS = 5.0  # for the leases of a queue that closes


class Found(Protocol):
    """What one look for tasks has brought."""

    @property
    def leases(self) -> list[Lease]:
        """What was leased."""
        ...


F = TypeVar("F", bound=Found)


class Nack(Protocol):
    """The `nack` of a queue."""

    def __call__(
        self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str
    ) -> Coroutine[Any, Any, None]:
        """Hand a lease back."""
        ...


class Holding:
    """The unsettled leases of a queue object, and its listeners. Only for its own event loop."""

    def __init__(self, nack: Nack) -> None:
        self._nack = nack
        self._leases: dict[str, Lease] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._looks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._leases)

    def take(self, leases: Iterable[Lease]) -> None:
        """Note what a claim has brought."""
        self._leases.update({lease.token: lease for lease in leases})

    def let_go(self, lease: Lease) -> None:
        """Forget a lease that is settled, or lost."""
        self._leases.pop(lease.token, None)

    def lost(self, lease: Lease) -> LeaseLost:
        """Let go of a lease that somebody else has, and return what is to be raised."""
        self.let_go(lease)
        return LeaseLost(f"the lease of task {lease.id} is lost")

    def take_all(self) -> list[Lease]:
        """Let go of everything, for whoever hands it back."""
        leases = list(self._leases.values())
        self._leases.clear()
        return leases

    async def look(self, looking: Coroutine[Any, Any, F]) -> F:
        """Look for tasks once. Cancelled: what it leases is handed back before that is told."""
        task = asyncio.create_task(looking)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        return await kept(task, undo=lambda found: self._back(found.leases, "claim cancelled"))

    async def end(self) -> None:
        """Hand everything back, also what looks under way still bring.

        A server that is out of reach gets none back: the leases run out by themselves.
        """
        if self._looks:
            await asyncio.wait(self._looks)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_SECONDS):
                await self._back(self.take_all(), "handed back")

    async def _back(self, leases: Iterable[Lease], reason: str) -> None:
        """Hand back uncounted; a lost lease needs none, and a server out of reach gets none."""
        back = [
            self._nack(lease, delay_seconds=0, counted=False, reason=reason) for lease in leases
        ]
        for outcome in await asyncio.gather(*back, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(
                outcome, LeaseLost | QueueUnavailable
            ):
                raise outcome

    def listen(self, told: Callable[[str], None]) -> None:
        """Have somebody told of each task that a claim gives up."""
        self._listeners.append(told)

    def tell_dead(self, task_ids: Iterable[str]) -> None:
        """Tell them, one by one."""
        for task_id in task_ids:
            for told in self._listeners:
                told(task_id)

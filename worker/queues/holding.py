"""What one queue object has in hand, on whatever engine: its leases, and who hears of dead tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from worker.core.errors import LeaseLost
from worker.queues.port import Lease


class Holding:
    """The unsettled leases of a queue object, and its listeners. Only for its own event loop."""

    def __init__(self) -> None:
        self._leases: dict[str, Lease] = {}
        self._listeners: list[Callable[[str], None]] = []

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

    def listen(self, told: Callable[[str], None]) -> None:
        """Have somebody told of each task that a claim gives up."""
        self._listeners.append(told)

    def tell_dead(self, task_ids: Iterable[str]) -> None:
        """Tell them, one by one."""
        for task_id in task_ids:
            for told in self._listeners:
                told(task_id)

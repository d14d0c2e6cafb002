"""Which queues of RabbitMQ make up one queue of tasks, and how each has to be set up.

Ready tasks lie in three bands of priority, each with a second queue for what goes before the rest of
its band. What waits for a time lies in queues with that time, from which it comes into `due`.
"""

from __future__ import annotations

from worker.queues.rabbit_calls import QueueForm
from worker.queues.rabbit_link import QUEUES_SAY_HOW_LONG

STEPS = (250, 4_000, 64_000, 1_024_000, 16_384_000)  # milliseconds; longer ones take several
HIDDEN = ("delayed", "parked")
_LONGEST_MS = 7 * 86_400_000  # that a task may be in work before the server asks for it again


class RabbitNames:
    """The names of one queue's queues."""

    def __init__(self, name: str) -> None:
        self.base = name.replace(".", "..")  # so that no name of a queue is that of another's part
        self.dead = f"{self.base}.dead"
        self.due = f"{self.base}.due"
        self.bell = f"{self.base}.bell"
        self.bands = tuple(
            (f"{main}.front", main) for main in (f"{self.base}.high", self.base, f"{self.base}.low")
        )
        self.hidden = {kind: tuple(self.step(kind, ms) for ms in STEPS) for kind in HIDDEN}

    def __repr__(self) -> str:
        return f"RabbitNames({self.base!r})"

    def ready(self, priority: int, *, front: bool = False) -> str:
        """Where a task of that priority waits to be claimed."""
        before, main = self.bands[1 if priority == 0 else 0 if priority > 0 else 2]
        return before if front else main

    def step(self, kind: str, milliseconds: int) -> str:
        """Where a task waits for so long."""
        return f"{self.base}.{kind}.{milliseconds}"

    def step_for(self, kind: str, milliseconds: int) -> tuple[str, int]:
        """Where to wait first, of all that is to be waited, and what is left after that."""
        fitting = [each for each in STEPS if each <= milliseconds]
        first = fitting[-1] if fitting else STEPS[0]
        return self.step(kind, first), max(0, milliseconds - first)

    def everything(self) -> list[str]:
        """All of them, in the order in which tasks go from one to the next."""
        bands = [name for band in self.bands for name in band]
        return [*self.hidden["delayed"], *self.hidden["parked"], self.due, *bands, self.dead]

    def first_forms(self, version: tuple[int, ...]) -> list[QueueForm]:
        """Those that there have to be before anything else."""
        mains = [name for band in self.bands for name in band]
        forms = [_form(self.dead, None, version)]
        return forms + [_form(name, self.dead, version) for name in (*mains, self.due)]

    def step_form(self, name: str, version: tuple[int, ...]) -> QueueForm:
        """A queue in which tasks wait for their time."""
        form = _form(name, self.due, version)
        form.arguments["x-message-ttl"] = int(name.rpartition(".")[2])
        return form


def _form(name: str, then: str | None, version: tuple[int, ...]) -> QueueForm:
    """A replicated queue that refuses rather than forgets; what leaves it by itself goes on to `then`."""
    arguments: dict[str, object] = {"x-queue-type": "quorum", "x-overflow": "reject-publish"}
    if then is not None:
        arguments["x-dead-letter-exchange"] = ""
        arguments["x-dead-letter-routing-key"] = then
        arguments["x-dead-letter-strategy"] = "at-least-once"
    extras: dict[str, object] = {}
    if version >= (4, 0):
        extras["x-delivery-limit"] = -1  # ours is counted by us, and kept with its reason
    if version >= QUEUES_SAY_HOW_LONG:
        extras["x-consumer-timeout"] = _LONGEST_MS
    return QueueForm(name, arguments, extras)

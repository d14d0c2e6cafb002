"""A queue that tells telemetry about every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from worker.core.errors import LeaseLost, QueueFull, QueueUnavailable
from worker.queues.port import Capabilities, DeadLetter, Depth, Lease, Place, Queue, Ticket
from worker.telemetry.signals import QueueCall
from worker.telemetry.tell import Telemetry


class TelledQueue:
    """Wrap any queue. Calls of the hot path are operations; looking and pruning are not told."""

    def __init__(self, queue: Queue, telemetry: Telemetry) -> None:
        self.inner = queue
        self.name = queue.name
        self.system = queue.system
        self.capabilities: Capabilities = queue.capabilities
        # What is measured one by one, of a queue that is split: its shards that are read, and those
        # that are not.
        self.parts: Sequence[Queue] = getattr(queue, "parts", (queue,))
        self.others: Sequence[Queue] = getattr(queue, "others", ())
        self._telemetry = telemetry
        self._siblings: dict[str, TelledQueue] = {}

    def __repr__(self) -> str:
        return f"TelledQueue({self.inner!r})"

    async def put(self, ticket: Ticket) -> bool:
        """See the port; told as `put`."""
        with self._watch("put") as call:
            added = await self.inner.put(ticket)
            call.messages = int(added)
            return added

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """See the port; told as `claim`, with how many leases it returned."""
        with self._watch("claim") as call:
            leases = await self.inner.claim(
                owner=owner,
                lease_seconds=lease_seconds,
                wait_seconds=wait_seconds,
                limit=limit,
            )
            call.messages = len(leases)
            return leases

    async def extend(self, lease: Lease, *, lease_seconds: float) -> None:
        """See the port; told as `extend`."""
        with self._watch("extend", messages=1):
            await self.inner.extend(lease, lease_seconds=lease_seconds)

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """See the port; told as one `extend`."""
        with self._watch("extend", messages=len(leases)):
            return await self.inner.extend_many(leases, lease_seconds=lease_seconds)

    async def ack(self, lease: Lease) -> None:
        """See the port; told as `ack`."""
        with self._watch("ack", messages=1):
            await self.inner.ack(lease)

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port; told as `nack`."""
        with self._watch("nack", messages=1):
            await self.inner.nack(
                lease, delay_seconds=delay_seconds, counted=counted, reason=reason
            )

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port; told as `dead_letter`."""
        with self._watch("dead_letter", messages=1):
            await self.inner.dead_letter(lease, reason=reason)

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port."""
        return await self.inner.dead(limit=limit)

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port."""
        self.inner.on_dead(told)

    async def redrive(self, task_id: str) -> bool:
        """See the port."""
        return await self.inner.redrive(task_id)

    async def cancel(self, task_id: str) -> bool:
        """See the port."""
        return await self.inner.cancel(task_id)

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port."""
        return await self.inner.wake(task_id, afresh=afresh, body=body)

    async def state(self, task_id: str) -> str | None:
        """See the port."""
        return await self.inner.state(task_id)

    async def place(self, task_id: str) -> Place | None:
        """See the port."""
        return await self.inner.place(task_id)

    async def body(self, task_id: str) -> bytes | None:
        """See the port."""
        return await self.inner.body(task_id)

    async def depth(self) -> Depth:
        """See the port."""
        return await self.inner.depth()

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port."""
        return await self.inner.prune(older_than_seconds=older_than_seconds)

    def sibling(self, name: str) -> Queue:
        """See the port; tells as well, and is opened once for each name."""
        if name not in self._siblings:
            self._siblings[name] = TelledQueue(self.inner.sibling(name), self._telemetry)
        return self._siblings[name]

    async def close(self) -> None:
        """See the port."""
        await self.inner.close()

    def _watch(self, name: str, *, messages: int = 0) -> _Told:
        call = QueueCall(queue=self.name, name=name, system=self.system, messages=messages)
        return _Told(self._telemetry, call)


class _Told:
    """One call under watch, its errors in the words of telemetry."""

    __slots__ = ("_call", "_watch")

    def __init__(self, telemetry: Telemetry, call: QueueCall) -> None:
        self._call = call
        self._watch = telemetry.watch(call)

    def __enter__(self) -> QueueCall:
        return self._watch.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, LeaseLost | QueueFull | QueueUnavailable):
            # A lost lease and a full queue are answers; only an outage is the engine's error.
            outage = isinstance(error, QueueUnavailable)
            self._call.error_type = "connection" if outage else "other"
            self._call.error = f"{type(error).__name__}: {error}"
        self._watch.__exit__(kind, error, traceback)

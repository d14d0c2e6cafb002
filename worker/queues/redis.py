"""A stream for whoever puts tasks in, and sets ordered by time; every change of state is one script.

Any program can put a task into the stream that has the queue's name, with the `prefix` of the
address in front of it:

    XADD tasks * id my-id payload '{"input": "…"}'

`id` makes it idempotent; `priority` (-100 to 100) and `not_before` (seconds since the epoch) may be
given as well. The next look of a worker takes it out of the stream, and no consumer group is needed:
a script moves a task from one state to another wholly or not at all, so nothing is ever in between.

The clock is the server's. What a task survives is the server's to say: its `appendfsync`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from worker.core.errors import QueueFull
from worker.core.wireformat import TIMES_END
from worker.queues import redis_scripts as lua
from worker.queues.holding import Holding
from worker.queues.places import history_of, place_from
from worker.queues.port import (
    MAX_DELIVERIES,
    Capabilities,
    DeadLetter,
    Depth,
    Lease,
    Place,
    Ticket,
)
from worker.queues.reasons import readable
from worker.redislink import RedisLink
from worker.redistalk import Script

NEVER = float("inf")


class Looked(NamedTuple):
    """What one look for tasks found: leases, or how long until one may be due; what the bell said."""

    leases: list[Lease]
    due_in: float
    bell: str


class RedisQueue:
    """A queue on a Redis or Valkey server; see the port for what each method promises.

    Takes over one use of `link` and closes it.
    """

    capabilities = Capabilities()
    system = "redis"

    def __init__(
        self,
        link: RedisLink,
        *,
        name: str = "tasks",
        max_deliveries: int = MAX_DELIVERIES,
        depth_max: int | None = None,
    ) -> None:
        self.name = name
        self.max_deliveries = max_deliveries
        self.depth_max = depth_max
        self._link = link
        stream = link.settings.prefix + name
        self.keys = (stream, "{" + stream + "}")  # the stream, and what all other keys begin with
        self._held = Holding(self.nack)
        self._siblings: list[RedisQueue] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"RedisQueue({self.name!r}, {len(self._held)} leases held, {self._link!r})"

    async def put(self, ticket: Ticket) -> bool:
        """See the port: add a task; False when its id is known."""
        most = -1 if self.depth_max is None else self.depth_max
        due = repr(float(ticket.not_before or 0))
        values = (readable(ticket.id), ticket.body, ticket.priority, due, most)
        outcome = await self._link.run(lua.PUT, self.keys, *values, full=QueueFull)
        if outcome < 0:
            raise QueueFull(f"queue {self.name!r} holds {self.depth_max} tasks, its limit")
        return bool(outcome)

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """See the port: lease up to `limit` tasks, waiting for the first.

        Cancelled while the claim is under way: what it gets is handed back uncounted.
        """
        give_up_at = time.monotonic() + wait_seconds
        wish = (readable(owner), lease_seconds, limit)
        while True:
            leases, due_in, bell = await self._held.look(self._ask(wish))
            left = give_up_at - time.monotonic()
            if leases or left <= 0:
                return leases
            if due_in > 0:
                heard = {self.keys[0]: "0-0", f"{self.keys[1]}:bell": bell}
                await self._link.listen(heard, seconds=min(left, due_in))

    async def extend(self, lease: Lease, *, lease_seconds: float) -> None:
        """See the port: keep the lease from now."""
        if await self.extend_many([lease], lease_seconds=lease_seconds):
            raise self._held.lost(lease)

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """See the port: keep many leases; returns the lost ones."""
        if not leases:
            return []
        pairs = [word for lease in leases for word in (lease.id, lease.token)]
        found = await self._link.run(lua.EXTEND, self.keys, lease_seconds, *pairs)
        return [lease for lease, is_ours in zip(leases, found, strict=True) if not is_ours]

    async def ack(self, lease: Lease) -> None:
        """See the port: settle for good."""
        await self._settle(lua.ACK, lease)

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port: hand back, hidden for the delay."""
        await self._settle(lua.NACK, lease, delay_seconds, int(counted), readable(reason))

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port: give the task up."""
        await self._settle(lua.BURY, lease, readable(reason))

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port: the newest dead letters first."""
        found = await self._link.run(lua.DEAD, self.keys, limit) if limit > 0 else []
        return [_dead_letter_of(row) for row in found]

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port: tell of the tasks that claims give up."""
        self._held.listen(told)

    async def redrive(self, task_id: str) -> bool:
        """See the port: put a dead letter back."""
        return bool(await self._link.run(lua.REDRIVE, self.keys, readable(task_id)))

    async def cancel(self, task_id: str) -> bool:
        """See the port: remove a waiting task."""
        return bool(await self._link.run(lua.CANCEL, self.keys, readable(task_id)))

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: make a parked task ready; here it is found by its id."""
        return bool(await self._link.run(lua.WAKE, self.keys, readable(task_id), int(afresh)))

    async def state(self, task_id: str) -> str | None:
        """See the port: where a task is."""
        place = await self.place(task_id)
        return place.state if place else None

    async def place(self, task_id: str) -> Place | None:
        """See the port: where a task is, and why."""
        found = await self._link.run(lua.PLACE, self.keys, readable(task_id))
        return _place_of(found) if found else None

    async def body(self, task_id: str) -> bytes | None:
        """See the port: what was put."""
        found: bytes | None = await self._link.run(lua.BODY, self.keys, readable(task_id))
        return found

    async def depth(self) -> Depth:
        """See the port: tasks by state."""
        *counts, ready_age, leased_age = await self._link.run(lua.DEPTH, self.keys)
        ready, delayed, leased, parked, dead = counts
        return Depth(
            ready=ready,
            delayed=delayed,
            leased=leased,
            parked=parked,
            dead=dead,
            oldest_ready_seconds=float(ready_age) if ready_age else None,
            oldest_leased_seconds=float(leased_age) if leased_age else None,
        )

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port: forget settled tasks, some hundred in each script."""
        total, gone = 0, lua.PRUNE_BATCH
        while gone == lua.PRUNE_BATCH:
            gone = await self._link.run(lua.PRUNE, self.keys, older_than_seconds)
            total += gone
        return total

    def sibling(self, name: str) -> RedisQueue:
        """See the port: the queue of another name on the same server."""
        other = RedisQueue(
            self._link.again(),
            name=name,
            max_deliveries=self.max_deliveries,
            depth_max=self.depth_max,
        )
        self._siblings.append(other)
        return other

    async def close(self) -> None:
        """See the port: hand unsettled leases back uncounted, let go of the connections."""
        if self._closed:
            return
        self._closed = True
        for sibling in self._siblings:
            await sibling.close()
        await self._held.end()
        await self._link.close()

    async def _settle(self, script: Script, lease: Lease, *values: Any) -> None:
        if not await self._link.run(script, self.keys, lease.id, lease.token, *values):
            raise self._held.lost(lease)
        self._held.let_go(lease)

    async def _ask(self, wish: Any) -> Looked:
        expires_at = time.monotonic() + wish[1]
        values = (*wish, self.max_deliveries)
        rows, dead, due_in, bell = await self._link.run(lua.CLAIM, self.keys, *values)
        leases = [_lease_of(row, expires_at) for row in rows]
        self._held.take(leases)
        self._held.tell_dead(map(_text, dead))
        return Looked(leases, float(due_in) if due_in else NEVER, bell.decode())


# What another hand has written into a row, or taken out of it, costs no other task its worker: what
# is no number counts as 0, as it does where tasks are taken in.
def _lease_of(row: Sequence[bytes | None], expires_at: float) -> Lease:
    task_id, body, deliveries, handings, token, enqueued_at, priority, lapses = row
    return Lease(
        id=_text(task_id),
        body=body or b"",
        deliveries=int(_number(deliveries)),
        handings=int(_number(handings)),
        token=_text(token),
        enqueued_at=_number(enqueued_at),
        expires_at=expires_at,
        priority=int(_number(priority)),
        lapses=int(_number(lapses)),
    )


def _dead_letter_of(row: Sequence[bytes | None]) -> DeadLetter:
    task_id, body, reason, deliveries, enqueued_at, died_at, owner, history = row
    return DeadLetter(
        id=_text(task_id),
        body=body or b"",
        reason=_text(reason),
        deliveries=int(_number(deliveries)),
        enqueued_at=_number(enqueued_at),
        died_at=_number(died_at),
        last_owner=_text(owner),
        history=history_of(history or b"[]"),
    )


def _place_of(row: Sequence[bytes]) -> Place:
    written, ready_at, lease_until, owner, deliveries, history, state = row
    lines = history_of(history or b"[]")
    return place_from(
        _text(written),
        _text(state),
        ready_at=_number(ready_at),
        lease_until=_number(lease_until),
        owner=_text(owner),
        deliveries=int(_number(deliveries)),
        last_line=lines[-1] if lines else "",
    )


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "backslashreplace")


def _number(raw: bytes | None) -> float:
    try:
        value = float(raw or 0)
    except ValueError:
        return 0.0
    return value if abs(value) < TIMES_END else 0.0

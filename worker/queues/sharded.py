"""One queue over several: its tasks are spread over shards, each a queue of some engine.

Whatever concerns one task goes to its shard; what asks for a task by its id asks all of them, for an
id does not tell the shard. Nothing here knows the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from worker.core.errors import QueueFull, QueueUnavailable
from worker.core.sharding import Sharding
from worker.queues.port import DeadLetter, Depth, Lease, Place, Queue, Ticket
from worker.queues.room import Room
from worker.queues.shardclaims import ShardClaims

T = TypeVar("T")


class ShardedQueue:
    """A queue split into shards; see the port for what each method promises.

    Priorities hold within a shard; of different shards, claims take in turn. With several servers
    and one away, the rest is worked at: only when none answers do claims raise QueueUnavailable.
    """

    def __init__(
        self,
        shards: Mapping[int, Queue],
        *,
        name: str,
        sharding: Sharding,
        depth_max: int | None = None,
    ) -> None:
        first = shards[0]
        self.name = name
        self.system = first.system
        self.capabilities = first.capabilities
        self.parts = tuple(shards[number] for number in sharding.read)  # that are read here
        self.others = tuple(
            queue for number, queue in shards.items() if number not in sharding.read
        )
        self._shards = shards
        self._sharding = sharding
        self._claims = ShardClaims({number: shards[number] for number in sharding.read})
        self._room = Room(name, depth_max) if depth_max is not None else None
        self._counting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"ShardedQueue({self.name!r}, {len(self.parts)} of {len(self._shards)} shards read)"

    async def put(self, ticket: Ticket) -> bool:
        """See the port: add a task to its shard; False when its id is known there."""
        shard = self._shards[self._sharding.of(ticket.body, task_id=ticket.id)]
        if self._room is not None and not await self._take_room(self._room):
            if await shard.state(ticket.id) is not None:
                return False
            raise QueueFull(f"queue {self.name!r} holds {self._room.depth_max} tasks, its limit")
        return await shard.put(ticket)

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """See the port: lease up to `limit` tasks of whichever shards have some."""
        return await self._claims.claim(
            owner=owner, lease_seconds=lease_seconds, wait_seconds=wait_seconds, limit=limit
        )

    async def extend(self, lease: Lease, *, lease_seconds: float) -> None:
        """See the port: keep the lease from now."""
        shard, lease = self._of(lease)
        await shard.extend(lease, lease_seconds=lease_seconds)

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """See the port: keep many leases; a shard that is away keeps the others from nothing."""
        groups: dict[str, list[Lease]] = {}
        for lease in leases:
            groups.setdefault(lease.token.partition(":")[0], []).append(lease)

        async def extended(number: str, group: list[Lease]) -> list[Lease]:
            shard, inner = self._shards[int(number)], [self._of(lease)[1] for lease in group]
            lost = await shard.extend_many(inner, lease_seconds=lease_seconds)
            tokens = {f"{number}:{lease.token}" for lease in lost}
            return [lease for lease in group if lease.token in tokens]

        found = await _all_of(extended(*group) for group in groups.items())
        return [lease for lost in found for lease in lost]

    async def ack(self, lease: Lease) -> None:
        """See the port: settle for good."""
        shard, lease = self._of(lease)
        await shard.ack(lease)

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port: hand back, hidden for the delay."""
        shard, lease = self._of(lease)
        await shard.nack(lease, delay_seconds=delay_seconds, counted=counted, reason=reason)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port: give the task up."""
        shard, lease = self._of(lease)
        await shard.dead_letter(lease, reason=reason)

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port: the newest dead letters of all shards first."""
        found = await _all_of(shard.dead(limit=limit) for shard in self._shards.values())
        letters = [letter for letters in found for letter in letters]
        return sorted(letters, key=lambda letter: -letter.died_at)[: max(0, limit)]

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port: tell of the tasks that claims give up."""
        for part in self.parts:
            part.on_dead(told)

    async def redrive(self, task_id: str) -> bool:
        """See the port: put a dead letter back, into the shard where it died."""
        return await self._any_of(lambda shard: shard.redrive(task_id))

    async def cancel(self, task_id: str) -> bool:
        """See the port: remove a waiting task, wherever it waits."""
        return await self._any_of(lambda shard: shard.cancel(task_id))

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: make a parked task ready, wherever it is.

        An engine that cannot find it gets the second ticket in the shard of the first, once.
        """
        if self.capabilities.finds or body is None:
            return await self._any_of(lambda shard: shard.wake(task_id, afresh=afresh, body=body))
        shard = self._shards[self._sharding.of(body, task_id=task_id)]
        return await shard.wake(task_id, afresh=afresh, body=body)

    async def state(self, task_id: str) -> str | None:
        """See the port: where a task is."""
        place = await self.place(task_id)
        return None if place is None else place.state

    async def place(self, task_id: str) -> Place | None:
        """See the port: where a task is, and why. Of a task that was put twice, what is not over."""
        found = await _all_of(shard.place(task_id) for shard in self._shards.values())
        places = [place for place in found if place is not None]
        return min(places, key=lambda place: place.state == "done", default=None)

    async def body(self, task_id: str) -> bytes | None:
        """See the port: what was put."""
        found = await _all_of(shard.body(task_id) for shard in self._shards.values())
        return next((body for body in found if body is not None), None)

    async def depth(self) -> Depth:
        """See the port: the tasks of all shards together, by state."""
        depths = await _all_of(shard.depth() for shard in self._shards.values())
        return sum(depths, Depth())

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port: forget settled tasks."""
        shards = self._shards.values()
        return sum(
            await _all_of(each.prune(older_than_seconds=older_than_seconds) for each in shards)
        )

    def sibling(self, name: str) -> Queue:
        """See the port: the queue of another name, not split, on the server of the first shard."""
        return self._shards[0].sibling(name)

    async def close(self) -> None:
        """See the port: hand unsettled leases back uncounted, let go of everything."""
        for number in sorted(self._shards, reverse=True):  # the first may have opened the others
            await self._shards[number].close()

    def _of(self, lease: Lease) -> tuple[Queue, Lease]:
        number, _, token = lease.token.partition(":")
        return self._shards[int(number)], replace(lease, token=token)

    async def _any_of(self, ask: Callable[[Queue], Coroutine[Any, Any, bool]]) -> bool:
        return any(await _all_of(ask(shard) for shard in self._shards.values()))

    async def _take_room(self, room: Room) -> bool:
        async with self._counting:
            if room.is_unknown:
                depths = await asyncio.gather(
                    *(shard.depth() for shard in self._shards.values()), return_exceptions=True
                )
                room.counted(sum(_waiting(depth) for depth in depths))
            if room.left <= 0:
                return False
            room.left -= 1
            return True


def _waiting(depth: Depth | BaseException) -> int:
    """How many tasks wait in a shard; one that is away takes none in any case."""
    if isinstance(depth, QueueUnavailable):
        return 0
    if isinstance(depth, BaseException):
        raise depth
    return depth.ready + depth.delayed + depth.parked


async def _all_of(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all say. If one fails, the others are heard out before it is raised."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]

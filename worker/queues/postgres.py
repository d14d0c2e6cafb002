"""One table, claimed row by row with SKIP LOCKED; every change of state is one statement.

Any program can put a task into it, also within a transaction of its own, with three columns:

    insert into loopworker.task (id, queue, payload) values ('my-id', 'tasks', '{"input": "…"}');

`on conflict do nothing` makes it idempotent. `priority` (-100 to 100) and `ready_at` (seconds since
the epoch, for a later start) may be given as well. The clock is the server's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from worker.awaiting import Bell
from worker.core.errors import QueueFull
from worker.postgres.bells import Bells
from worker.postgres.link import PostgresLink
from worker.postgres.text import storable
from worker.queues import postgres_statements as sql
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
from worker.queues.room import Room
from worker.queues.rows import NEVER, Claimed, lease_key, lease_of, place_of

PRUNE_BATCH = 500  # rows in one transaction, so that it stays short
BURIED_MAX = 100  # tasks that one look gives up, before it lets go of the caller


class PostgresQueue:
    """A queue in a PostgreSQL database; see the port for what each method promises.

    Takes over one use of `link` and closes it. Siblings share `bells`, and only their giver ends it.
    """

    capabilities = Capabilities()
    system = "postgresql"

    def __init__(
        self,
        link: PostgresLink,
        *,
        name: str = "tasks",
        max_deliveries: int = MAX_DELIVERIES,
        depth_max: int | None = None,
        bells: Bells | None = None,
    ) -> None:
        self.name = name
        self.max_deliveries = max_deliveries
        self.depth_max = depth_max
        self._link = link
        self._bells = bells or Bells(link)
        self._owns_bells = bells is None
        self._room = Room(name, depth_max) if depth_max is not None else None
        self._held = Holding(self.nack)
        self._counting = asyncio.Lock()
        self._puts: set[asyncio.Task[int]] = set()
        self._siblings: list[PostgresQueue] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"PostgresQueue({self.name!r}, {len(self._held)} leases held, {self._link!r})"

    async def put(self, ticket: Ticket) -> bool:
        """See the port: add a task; False when its id is known."""
        task_id = storable(ticket.id)
        if self._room is not None and not await self._is_taken(self._room):
            if await self._link.rows(sql.KNOWN, self._named(task_id)):
                return False
            raise QueueFull(f"queue {self.name!r} holds {self.depth_max} tasks, its limit")
        values = {
            **self._named(task_id),
            "body": ticket.body,
            "priority": ticket.priority,
            "not_before": ticket.not_before,
        }
        putting = self._link.count(sql.PUT, values, full=QueueFull)
        added = await (putting if self._room is None else self._seen(putting))
        if added:
            self._bells.ring(self.name)
        return bool(added)

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """See the port: lease up to `limit` tasks, waiting for the first.

        Cancelled while the claim is under way: what it gets is handed back uncounted.
        """
        give_up_at = time.monotonic() + wait_seconds
        wish = (storable(owner), lease_seconds, limit)
        leases = (await self._held.look(self._ask(wish))).leases
        while not leases and (left := give_up_at - time.monotonic()) > 0:
            bell = self._bells.listen(self.name)
            try:
                found = await self._held.look(self._ask(wish))
                leases = found.leases
                if not leases:
                    await self._wait(bell, min(left, found.due_in))
            finally:
                bell.put_away()
        return leases

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
        numbers, tokens = zip(*(lease_key(lease) for lease in leases), strict=True)
        values = {"numbers": list(numbers), "tokens": list(tokens), "seconds": lease_seconds}
        ours = {tuple(row) for row in await self._link.rows(sql.EXTEND, values)}
        return [lease for lease in leases if lease_key(lease) not in ours]

    async def ack(self, lease: Lease) -> None:
        """See the port: settle for good."""
        number, token = lease_key(lease)
        if not await self._link.count(sql.ACK, {"number": number, "token": token}):
            rows = await self._link.rows(sql.SETTLED_BY, {"number": number})
            # Gone means acked and pruned: nothing is left that could be stale.
            if rows and tuple(rows[0]) != ("done", token):
                raise self._held.lost(lease)
        self._held.let_go(lease)

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port: hand back, hidden for the delay."""
        hidden = "delayed" if counted else "parked"
        values = {
            "state": hidden if delay_seconds > 0 else "ready",
            "delay": max(0.0, delay_seconds),
            "keeps": not counted and delay_seconds <= 0,
            "uncounted": not counted,
            "reason": storable(reason),
        }
        await self._settle(sql.NACK, lease, values)
        self._bells.ring(self.name)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port: give the task up."""
        await self._settle(sql.BURY, lease, {"reason": storable(reason)})

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port: the newest dead letters first."""
        rows = await self._link.rows(sql.DEAD, {"queue": self.name, "limit": max(0, limit)})
        return [DeadLetter(*(*row[:7], tuple(map(str, row[7])))) for row in rows]

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port: tell of the tasks that claims give up."""
        self._held.listen(told)

    async def redrive(self, task_id: str) -> bool:
        """See the port: put a dead letter back."""
        redriven = await self._link.count(sql.REDRIVE, self._named(storable(task_id)))
        self._bells.ring(self.name)
        return bool(redriven)

    async def cancel(self, task_id: str) -> bool:
        """See the port: remove a waiting task."""
        return bool(await self._link.count(sql.CANCEL, self._named(storable(task_id))))

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: make a parked task ready; here it is found by its id."""
        values = {**self._named(storable(task_id)), "afresh": afresh}
        woken = [state for (state,) in await self._link.rows(sql.WAKE, values)] == ["ready"]
        if woken:
            self._bells.ring(self.name)
        return woken

    async def state(self, task_id: str) -> str | None:
        """See the port: where a task is."""
        place = await self.place(task_id)
        return place.state if place else None

    async def place(self, task_id: str) -> Place | None:
        """See the port: where a task is, and why."""
        rows = await self._link.rows(sql.PLACE, self._named(storable(task_id)))
        return place_of(rows[0]) if rows else None

    async def body(self, task_id: str) -> bytes | None:
        """See the port: what was put."""
        rows = await self._link.rows(sql.BODY, self._named(storable(task_id)))
        return bytes(rows[0][0]) if rows else None

    async def depth(self) -> Depth:
        """See the port: tasks by state."""
        counts = dict.fromkeys(("ready", "delayed", "parked", "leased", "dead"), 0)
        ages: dict[str, float | None] = {}
        for state, count, age in await self._link.rows(sql.DEPTH, {"queue": self.name}):
            counts[state], ages[state] = count, None if age is None else max(0.0, age)
        return Depth(
            **counts,
            oldest_ready_seconds=ages.get("ready"),
            oldest_leased_seconds=ages.get("leased"),
        )

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port: forget settled tasks, some hundred in each transaction."""
        values = {"queue": self.name, "seconds": older_than_seconds, "limit": PRUNE_BATCH}
        total, gone = 0, PRUNE_BATCH
        while gone == PRUNE_BATCH:
            gone = await self._link.count(sql.PRUNE, values)
            total += gone
        return total

    def sibling(self, name: str) -> PostgresQueue:
        """See the port: the queue of another name in the same schema."""
        other = PostgresQueue(
            self._link.again(),
            name=name,
            max_deliveries=self.max_deliveries,
            depth_max=self.depth_max,
            bells=self._bells,
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
        if self._owns_bells:
            await self._bells.close()
        await self._link.close()

    def _named(self, task_id: str) -> dict[str, Any]:
        return {"queue": self.name, "id": task_id}

    async def _is_taken(self, room: Room) -> bool:
        """Whether there was room for one task more, and it is this one's now."""
        async with self._counting:
            if room.is_unknown:
                if self._puts:  # a count does not see what is under way
                    await asyncio.wait(self._puts)
                values = {"queue": self.name, "limit": room.depth_max}
                [(waiting,)] = await self._link.rows(sql.WAITING, values)
                room.counted(waiting)
            if room.left <= 0:
                return False
            room.left -= 1
            return True

    async def _seen(self, putting: Coroutine[Any, Any, int]) -> int:
        """Put, in such a way that whoever counts the tasks waits for it."""
        task = asyncio.create_task(putting)
        self._puts.add(task)
        task.add_done_callback(self._puts.discard)
        return await asyncio.shield(task)

    async def _settle(self, statement: str, lease: Lease, values: Mapping[str, Any]) -> None:
        number, token = lease_key(lease)
        if not await self._link.count(statement, {**values, "number": number, "token": token}):
            raise self._held.lost(lease)
        self._held.let_go(lease)

    async def _ask(self, wish: Any) -> Claimed:
        owner, lease_seconds, limit = wish
        expires_at = time.monotonic() + lease_seconds
        leases: list[Lease] = []
        dead: list[str] = []
        values = {
            "queue": self.name,
            "owner": owner,
            "seconds": lease_seconds,
            "limit": limit,
            "most": self.max_deliveries,
        }
        while not leases and len(dead) < BURIED_MAX:
            rows = await self._link.rows(sql.CLAIM, values)
            leases = [lease_of(row[:-1], expires_at) for row in rows if row[-1] == "leased"]
            self._held.take(leases)
            died = [row[3] for row in rows if row[-1] == "dead"]
            self._held.tell_dead(died)
            dead += died
            if not leases and not died:
                [(due_in,)] = await self._link.rows(sql.NEXT_DUE, {"queue": self.name})
                return Claimed([], NEVER if due_in is None else due_in, 0, dead)
        return Claimed(leases, 0.0, 0, dead)

    async def _wait(self, bell: Bell, seconds: float) -> None:
        # Due but not ours to lock just now: somebody else is at it, so a moment later.
        await bell.wait(min(max(seconds, 0.01), self._bells.look_seconds))

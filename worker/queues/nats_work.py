"""What a queue on NATS does, in the thread of its connection; `nats.py` is the door to it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from worker.awaiting import happened
from worker.core.errors import QueueFull, QueueUnavailable
from worker.queues.memory_shelf import Row, dead_letter_of, lease_of, place_of
from worker.queues.nats_intake import NatsIntake
from worker.queues.nats_shelf import NatsShelf
from worker.queues.port import DeadLetter, Depth, Lease, Place, Ticket
from worker.queues.reasons import delivered_too_often, handed_back, lease_ran_out, readable

_WAITING = ("ready", "delayed", "parked")
LOOK_SECONDS = 2.0  # how long a claim waits at most before it looks again whether all is well
NEVER = float("inf")


def state_now(row: Row, now: float) -> str:
    """What the state of a row comes to at this moment."""
    over = row.state in ("delayed", "parked") and row.ready_at <= now
    lapsed = row.state == "leased" and row.lease_until <= now
    return "ready" if over or lapsed else row.state


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one look for tasks has brought.

    Without leases: `due_in` seconds until one may be due, and `changed`, which is set when
    something has changed since the look began.
    """

    leases: list[Lease]
    dead: list[str]
    due_in: float
    changed: asyncio.Event


class NatsWork:
    """The tasks of one queue on NATS."""

    def __init__(self, shelf: NatsShelf, *, max_deliveries: int, depth_max: int | None) -> None:
        self.shelf = shelf
        self.max_deliveries = max_deliveries
        self.depth_max = depth_max
        self._intake = NatsIntake(shelf)

    def __repr__(self) -> str:
        return f"NatsWork({self.shelf!r})"

    async def put(self, ticket: Ticket) -> bool:
        """See the port."""
        shelf = self.shelf
        task_id = readable(ticket.id)
        if self.depth_max is not None:
            await shelf.sync()
            waiting = sum(row.state in _WAITING for row in shelf.rows.values())
            if waiting >= self.depth_max:
                if await shelf.read(task_id) is not None:
                    return False
                raise QueueFull(f"queue {shelf.name!r} holds {waiting} tasks, its limit")
        await shelf.opened()
        now = shelf.now()
        due = max(now, ticket.not_before or now)
        row = Row(task_id, bytes(ticket.body), ticket.priority, time.time_ns(), now, due)
        row.state = "delayed" if due > now else "ready"
        return await shelf.add(row)

    async def claim(self, owner: str, lease_seconds: float, limit: int) -> Claimed:
        """Look for tasks once. What is known is tried first; the server is asked if that is none."""
        shelf = self.shelf
        await self._intake.open()
        found = Claimed([], [], NEVER, shelf.changed)
        was_fresh = shelf.is_fresh
        if not was_fresh:
            await shelf.sync()
        await self._claim_known(found, owner, lease_seconds, limit)
        if was_fresh and not found.leases:
            found = replace(found, changed=shelf.changed)
            await shelf.sync()
            await self._claim_known(found, owner, lease_seconds, limit)
        due = shelf.next_moment()
        return found if due is None else replace(found, due_in=max(0.001, due - shelf.now()))

    async def wait(self, claimed: Claimed, seconds: float) -> None:
        """Wait until it is worth looking again, `seconds` at most. May be cancelled."""
        await happened(claimed.changed, within=min(seconds, claimed.due_in, LOOK_SECONDS))

    async def _claim_known(
        self, found: Claimed, owner: str, lease_seconds: float, limit: int
    ) -> None:
        """Lease what the index has, as many at a time as there are to be, until it has no more."""
        shelf = self.shelf
        while picked := shelf.pick(shelf.now(), limit - len(found.leases)):
            tries = [self._lease(row.id, owner, lease_seconds) for row in picked]
            failed: BaseException | None = None
            for row, said in zip(
                picked, await asyncio.gather(*tries, return_exceptions=True), strict=True
            ):
                if isinstance(said, Lease):
                    found.leases.append(said)
                elif isinstance(said, str):
                    found.dead.append(said)
                elif said is not None:
                    failed = said
                    shelf.put_back(row)
            if failed is not None:
                if found.leases and isinstance(failed, QueueUnavailable):
                    return  # what was got is worth more than what was not
                raise failed

    async def _lease(self, task_id: str, owner: str, lease_seconds: float) -> Lease | str | None:
        """Lease one task, or give it up and return its id; None where somebody was faster."""
        token = uuid.uuid4().hex
        expires_at = time.monotonic() + lease_seconds

        def take(row: Row, _: str, now: float) -> str | None:
            if state_now(row, now) != "ready":
                return None
            if row.state == "leased":
                row.lapses += 1
                row.note(lease_ran_out(delivery=row.deliveries, owner=row.owner))
            if row.deliveries >= self.max_deliveries:
                _bury(row, delivered_too_often(row.deliveries), now)
                return token
            row.state, row.owner, row.woken = "leased", owner, False
            row.deliveries += 1
            row.handings += 1
            row.leased_at, row.lease_until = now, now + lease_seconds
            return token

        row = await self.shelf.change(task_id, take)
        if row is None:
            await self.shelf.sync()  # come to know what somebody else did
            return None
        return row.id if row.state == "dead" else lease_of(row, token=token, expires_at=expires_at)

    async def extend_many(self, leases: Sequence[Lease], lease_seconds: float) -> Sequence[Lease]:
        """See the port."""

        def keep(row: Row, now: float) -> None:
            row.lease_until = now + lease_seconds

        keeping = [self._owned(lease, keep) for lease in leases]
        kept = await asyncio.gather(*keeping, return_exceptions=True)
        for said in kept:
            if isinstance(said, BaseException):
                raise said
        return [lease for lease, is_ours in zip(leases, kept, strict=True) if not is_ours]

    async def ack(self, lease: Lease) -> bool:
        """See the port; False, as from the others that settle, when the lease is lost."""

        def done(row: Row, now: float) -> None:
            row.state, row.body, row.finished_at = "done", b"", now

        if await self._owned(lease, done):
            return True
        found = await self.shelf.read(lease.id)
        return found is None or (found[1].state == "done" and found[2] == lease.token)

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> bool:
        """See the port."""

        def back(row: Row, now: float) -> None:
            row.note(handed_back(delivery=row.deliveries, reason=readable(reason)))
            row.deliveries -= not counted
            if delay_seconds > 0 and not (row.woken and not counted):
                row.state = "delayed" if counted else "parked"
                row.ready_at = now + delay_seconds
            else:
                row.state = "ready"
                row.ready_at = now if counted or delay_seconds > 0 else row.ready_at

        return await self._owned(lease, back)

    async def dead_letter(self, lease: Lease, reason: str) -> bool:
        """See the port."""

        def bury(row: Row, now: float) -> None:
            _bury(row, readable(reason), now)

        return await self._owned(lease, bury)

    async def dead(self, limit: int) -> Sequence[DeadLetter]:
        """See the port."""
        await self.shelf.sync()
        rows = [row for row in self.shelf.rows.values() if row.state == "dead"]
        rows.sort(key=lambda row: -row.finished_at)
        found = await asyncio.gather(*[self.shelf.read(row.id) for row in rows[:limit]])
        return [dead_letter_of(one[1]) for one in found if one and one[1].state == "dead"]

    async def redrive(self, task_id: str) -> bool:
        """See the port."""

        def back(row: Row, _: str, now: float) -> str | None:
            if row.state != "dead":
                return None
            row.note("redriven")
            row.state, row.deliveries, row.ready_at, row.reason = "ready", 0, now, ""
            return ""

        return await self.shelf.change(task_id, back) is not None

    async def cancel(self, task_id: str) -> bool:
        """See the port."""

        def done(row: Row, _: str, now: float) -> str | None:
            if row.state not in _WAITING:
                return None
            row.state, row.body, row.finished_at = "done", b"", now
            return ""

        return await self.shelf.change(task_id, done) is not None

    async def wake(self, task_id: str, afresh: bool) -> bool:
        """See the port."""

        def up(row: Row, proof: str, now: float) -> str | None:
            if row.state == "leased" and not row.woken:
                row.woken = True
                return proof
            if row.state != "parked":
                return None
            row.state, row.ready_at = "ready", now if afresh else row.enqueued_at
            return ""

        row = await self.shelf.change(task_id, up)
        return row is not None and row.state == "ready"

    async def place(self, task_id: str) -> Place | None:
        """See the port."""
        found = await self.shelf.read(task_id)
        if found is None:
            return None
        return place_of(found[1], state_now(found[1], self.shelf.now()))

    async def body(self, task_id: str) -> bytes | None:
        """See the port."""
        found = await self.shelf.read(task_id)
        return None if found is None or found[1].state == "done" else found[1].body

    async def depth(self) -> Depth:
        """See the port."""
        await self.shelf.sync()
        now = self.shelf.now()
        counts = dict.fromkeys(("ready", "delayed", "leased", "parked", "dead"), 0)
        ready_since, leased_since = [], []
        for row in self.shelf.rows.values():
            state = state_now(row, now)
            counts[state] += 1
            if state == "ready":
                ready_since.append(row.lease_until if row.state == "leased" else row.ready_at)
            elif state == "leased":
                leased_since.append(row.leased_at)
        return Depth(
            **counts,
            oldest_ready_seconds=now - min(ready_since) if ready_since else None,
            oldest_leased_seconds=now - min(leased_since) if leased_since else None,
        )

    async def prune(self, older_than_seconds: float) -> int:
        """See the port."""
        await self.shelf.sync()
        before = self.shelf.now() - older_than_seconds
        old = [(k, number) for k, (at, number) in self.shelf.settled.items() if at <= before]
        if not old:
            return 0
        await self.shelf.mark()
        return sum([await self.shelf.forget(task_id, number) for task_id, number in old])

    async def close(self) -> None:
        """Let go of the streams."""
        await self._intake.close()
        await self.shelf.stop()

    async def _owned(self, lease: Lease, change: Callable[[Row, float], None]) -> bool:
        """Change the row of a lease; False when somebody else has it."""

        def guarded(row: Row, proof: str, now: float) -> str | None:
            if row.state != "leased" or proof != lease.token:
                return None
            change(row, now)
            return proof

        return await self.shelf.change(lease.id, guarded) is not None


def _bury(row: Row, reason: str, now: float) -> None:
    row.state, row.reason, row.finished_at = "dead", reason, now
    row.note(reason)

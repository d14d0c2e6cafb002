"""What a queue on RabbitMQ does, in the thread of its connection; `rabbitmq.py` is the door to it.

A lease is a message that was taken and not acknowledged, so it ends with its connection; its time
is kept here, and what has run out is put back. A change of a task is a new message, which is on the
disk before the old one is acknowledged: between the two there are two tickets, never none.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from worker.awaiting import happened
from worker.core.errors import QueueFull, QueueUnavailable
from worker.queues.memory_shelf import Row, lease_of
from worker.queues.port import AGEING_SECONDS, Lease, Ticket
from worker.queues.rabbit_link import Connection
from worker.queues.rabbit_moves import AGAIN_SECONDS, RabbitMoves
from worker.queues.rabbit_rows import id_in, row_from, sent_from
from worker.queues.reasons import delivered_too_often, handed_back, lease_ran_out, readable

LOOK_SECONDS = 1.0  # how long a claim waits at most for a bell, before it looks again
_ACKED_KEPT = 1000
_CUT_OFF = "a worker that was cut off"


@dataclass(slots=True, eq=False)
class Held:
    """A task in hand: its row, the message that stands for it, until when it is ours."""

    row: Row
    message: Any = field(repr=False)
    connection: Connection = field(repr=False)
    ends_at: float = 0.0
    woken: bool = False


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one look for tasks has brought, and what is set when it is worth looking again."""

    leases: list[Lease]
    dead: list[str]
    changed: asyncio.Event


class RabbitWork:
    """The tasks of one queue on RabbitMQ."""

    def __init__(
        self,
        moves: RabbitMoves,
        *,
        max_deliveries: int,
        depth_max: int | None,
        shift: Callable[[], float],
    ) -> None:
        self.max_deliveries = max_deliveries
        self.depth_max = depth_max
        self._shift = shift
        self._moves = moves
        self._held: dict[str, Held] = {}
        self._acked: OrderedDict[str, None] = OrderedDict()
        self._deadlines = asyncio.Event()
        self._claiming = asyncio.Lock()
        self._keeper: asyncio.Task[None] | None = None
        moves.link.on_lost.append(self._went)

    def __repr__(self) -> str:
        return f"RabbitWork({self._moves.name!r}, {len(self._held)} held)"

    async def put(self, ticket: Ticket) -> bool:
        """See the port; an id that is known is not told here."""
        connection = await self._moves.opened()
        if self.depth_max is not None:
            counts = await self._moves.counts(connection)
            if counts["ready"] + counts["delayed"] + counts["parked"] >= self.depth_max:
                raise QueueFull(
                    f"queue {self._moves.name!r} holds {self.depth_max} tasks, its limit"
                )
        now = time.time()
        body = bytes(ticket.body)
        row = Row(readable(ticket.id), body, ticket.priority, time.time_ns(), now, now)
        wait = (ticket.not_before or now) - now
        if wait > 0:
            await self._moves.hide(connection, row, "delayed", wait, full=QueueFull)
        else:
            await self._moves.show(connection, row, full=QueueFull)
        return True

    # --- claiming --------------------------------------------------------------------------------

    async def claim(self, owner: str, lease_seconds: float, limit: int) -> Claimed:
        """Look for tasks once: in each band the first, and of these the one that goes before."""
        async with self._claiming:
            found = Claimed([], [], self._moves.changed)
            connection = await self._moves.opened()
            heads: dict[int, Held] = {}
            left = await self._moves.waiting(connection)
            if limit > 1:
                await self._batch(connection, left, found, (owner, lease_seconds, limit))
            while len(found.leases) < limit:
                for band in range(len(self._moves.names.bands)):
                    if band not in heads and (head := await self._head(connection, band, left)):
                        heads[band] = head
                if not heads:
                    break
                band = min(heads, key=lambda each: rank(heads[each].row))
                await self._lease(heads.pop(band), found, owner, lease_seconds)
            for held in heads.values():  # another claim shall have them, in their place
                sending = self._moves.show(connection, held.row, front=True)
                with contextlib.suppress(QueueUnavailable):  # what was got is worth more
                    await self._send_on(held, sending)
            return found

    async def wait(self, claimed: Claimed, seconds: float) -> None:
        """Wait until it is worth looking again, `seconds` at most. May be cancelled."""
        await happened(claimed.changed, within=min(seconds, LOOK_SECONDS))

    async def _batch(
        self,
        connection: Connection,
        left: dict[str, int],
        found: Claimed,
        wish: tuple[str, float, int],
    ) -> None:
        """Take many at once, where all are of one band: then they come in their order."""
        owner, lease_seconds, limit = wish
        bands = [band for band in self._moves.names.bands if any(left[name] for name in band)]
        if len(bands) != 1:
            return
        for name in bands[0]:
            most = min(limit - len(found.leases), left[name])
            if most < 2:
                continue
            for message in await self._moves.calls.take_many(connection, name, most):
                left[name] -= 1
                held = await self._taken(connection, message)
                if held is not None:
                    await self._lease(held, found, owner, lease_seconds)

    async def _head(self, connection: Connection, band: int, left: dict[str, int]) -> Held | None:
        for name in self._moves.names.bands[band]:
            while left[name] > 0:
                message = await self._moves.calls.take(connection, name)
                if message is None:
                    left[name] = 0
                    break
                held = await self._taken(connection, message)
                if held is not None:
                    return held
        return None

    async def _taken(self, connection: Connection, message: Any) -> Held | None:
        """What a message says; one that another program sent gets an id, or its delay, first."""
        row = row_from(message)
        if row is None:
            row, wait = sent_from(message, now=time.time())
            if wait > 0 or not id_in(message):
                hides = self._moves.hide(connection, row, "delayed", wait) if wait > 0 else None
                sending = hides or self._moves.show(connection, row)
                with contextlib.suppress(QueueUnavailable):  # it is still in hand, and comes again
                    await self._send_on(Held(row, message, connection), sending)
                return None
        cut_off = message.headers.get("x-delivery-count")
        if (
            isinstance(cut_off, int) and cut_off > 0
        ):  # the server's own: another program may write text
            row.deliveries += cut_off
            row.handings += cut_off
            row.lapses += cut_off
            row.note(lease_ran_out(delivery=row.deliveries, owner=row.owner or _CUT_OFF))
        return Held(row, message, connection)

    async def _lease(self, held: Held, found: Claimed, owner: str, lease_seconds: float) -> None:
        row = held.row
        if row.deliveries >= self.max_deliveries:
            with contextlib.suppress(QueueUnavailable):  # then it is still in hand, and comes again
                await self._bury(held, delivered_too_often(row.deliveries))
                found.dead.append(row.id)
            return
        row.owner = owner
        row.deliveries += 1
        row.handings += 1
        row.leased_at = time.time()
        token = uuid.uuid4().hex
        held.ends_at = self._now() + lease_seconds
        self._held[token] = held
        self._moves.memory.note(row, "leased", until=time.time() + lease_seconds)
        self._watch_time()
        expires_at = time.monotonic() + lease_seconds
        found.leases.append(lease_of(row, token=token, expires_at=expires_at))

    # --- leases ----------------------------------------------------------------------------------

    async def extend_many(self, leases: Sequence[Lease], lease_seconds: float) -> Sequence[Lease]:
        """See the port."""
        await self._moves.link.connected()
        lost = []
        for lease in leases:
            held = self._mine(lease)
            if held is None:
                lost.append(lease)
            else:
                held.ends_at = self._now() + lease_seconds
                self._moves.memory.note(held.row, "leased", until=time.time() + lease_seconds)
        return lost

    async def ack(self, lease: Lease) -> bool:
        """See the port; False, as from the others that settle, when the lease is lost."""
        connection = await self._moves.opened()
        if lease.token in self._acked:
            return True
        held = self._let_go(lease)
        if held is None:
            return False
        await self._moves.calls.acknowledge(connection, held.message, surely=True)
        self._moves.memory.note(held.row, "done")
        self._acked[lease.token] = None
        while len(self._acked) > _ACKED_KEPT:
            self._acked.popitem(last=False)
        return True

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> bool:
        """See the port."""
        connection = await self._moves.opened()
        held = self._let_go(lease)
        if held is None:
            return False
        row = replace(held.row)
        row.note(handed_back(delivery=row.deliveries, reason=readable(reason)))
        row.deliveries -= not counted
        if delay_seconds > 0 and (counted or not held.woken):
            kind = "delayed" if counted else "parked"
            sending = self._moves.hide(connection, row, kind, delay_seconds)
        elif counted or delay_seconds > 0:
            row.ready_at = time.time()
            sending = self._moves.show(connection, row)
        else:
            sending = self._moves.show(connection, row, front=True)
        await self._send_on(held, sending, token=lease.token)
        return True

    async def dead_letter(self, lease: Lease, reason: str) -> bool:
        """See the port."""
        await self._moves.opened()
        held = self._let_go(lease)
        if held is None:
            return False
        await self._bury(held, readable(reason), token=lease.token)
        return True

    def _mine(self, lease: Lease) -> Held | None:
        held = self._held.get(lease.token)
        if held is None or (held.connection.lives and held.ends_at > self._now()):
            return held
        return None

    def _let_go(self, lease: Lease) -> Held | None:
        held = self._mine(lease)
        if held is not None:
            del self._held[lease.token]
        return held

    async def _bury(self, held: Held, reason: str, *, token: str = "") -> None:
        row = replace(held.row, reason=reason, finished_at=time.time())
        row.note(reason)
        sending = self._moves.send(held.connection, self._moves.names.dead, row)
        await self._send_on(held, sending, token=token)
        self._moves.memory.note(row, "dead")

    async def _send_on(
        self, held: Held, sending: Coroutine[Any, Any, None], *, token: str = ""
    ) -> None:
        """Send a task on as a new message, and let go of the old one.

        Where the server refuses the new one, the task stays in hand, as the lease `token` if it is
        one, and is put back after a while: as long as the connection lives nobody else is given it.
        """
        try:
            await sending
        except QueueUnavailable:
            if held.connection.lives:
                held.ends_at = max(held.ends_at, self._now() + AGAIN_SECONDS)
                held.row.leased_at = held.row.leased_at if token else time.time()
                self._held[token or uuid.uuid4().hex] = held
                self._watch_time()
            raise
        await self._moves.calls.acknowledge(held.connection, held.message)

    def _now(self) -> float:
        return time.monotonic() + self._shift()

    async def look_at_clock(self) -> None:
        """Put back what is over by a clock that was moved."""
        await self._put_back()

    def _watch_time(self) -> None:
        self._deadlines.set()
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_time())

    async def _keep_time(self) -> None:
        """Put back what was neither settled nor extended in its time."""
        while True:
            self._deadlines.clear()
            first = min((held.ends_at for held in self._held.values()), default=None)
            within = None if first is None else max(0.0, first - self._now())
            if not await happened(self._deadlines, within=within):
                await self._put_back()

    async def _put_back(self) -> None:
        now = self._now()
        for token, held in list(self._held.items()):
            if held.ends_at > now:
                continue
            self._held.pop(token, None)
            row = replace(held.row, lapses=held.row.lapses + 1)
            row.note(lease_ran_out(delivery=row.deliveries, owner=row.owner))
            sending = self._moves.show(held.connection, row, front=True)
            with contextlib.suppress(QueueUnavailable):  # it comes back, later
                await self._send_on(held, sending)

    def wake_held(self, task_id: str) -> bool:
        """Have a task woken that is in hand here as soon as it is parked; whether it is."""
        found = [held for held in self._live() if held.row.id == task_id]
        for held in found:
            held.woken = True
        return bool(found)

    def ages(self) -> list[float]:
        """For how many seconds each of the tasks has been in hand."""
        return [time.time() - held.row.leased_at for held in self._live()]

    async def close(self) -> None:
        """Keep no time any more, and let go of what was begun on the connection."""
        self._moves.link.on_lost.remove(self._went)
        if self._keeper is not None:
            self._keeper.cancel()
        with contextlib.suppress(QueueUnavailable):
            await self._moves.close()

    def _live(self) -> list[Held]:
        now = self._now()
        held = self._held.values()
        return [each for each in held if each.connection.lives and each.ends_at > now]

    def _went(self) -> None:
        for token, held in list(self._held.items()):
            if not held.connection.lives:
                del self._held[token]


def rank(row: Row) -> tuple[float, int]:
    """Which of several tasks goes before: each point of priority is worth so much waiting."""
    return row.ready_at - AGEING_SECONDS * row.priority, row.number

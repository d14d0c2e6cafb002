"""What can be told of a queue on RabbitMQ: how many tasks there are, where one is, which are dead."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from worker.queues.memory_shelf import Row, dead_letter_of
from worker.queues.port import DeadLetter, Depth, Place
from worker.queues.rabbit_link import Connection
from worker.queues.rabbit_memory import newest
from worker.queues.rabbit_moves import RabbitMoves
from worker.queues.rabbit_rows import broker_said, row_from, sent_from
from worker.queues.rabbit_talk import Answer
from worker.queues.rabbit_work import RabbitWork

BROWSED_MAX = 10_000  # dead letters that are looked through
BACK_SECONDS = 2.0  # until the server has put back what was looked at


class RabbitLook:
    """Questions to the broker, and to all processes that share the queue."""

    def __init__(self, moves: RabbitMoves, work: RabbitWork) -> None:
        self._moves = moves
        self._work = work
        self._looking = asyncio.Lock()  # two at once would take the letters from each other
        moves.answer = self._answer

    def __repr__(self) -> str:
        return f"RabbitLook({self._moves!r})"

    async def dead(self, limit: int) -> Sequence[DeadLetter]:
        """See the port."""
        connection = await self._moves.opened()
        async with self._dead_letters(connection) as found:
            rows = [_dead_row(message) for message in found]
        rows.sort(key=lambda row: -row.finished_at)
        return [dead_letter_of(row) for row in rows[:limit]]

    async def redrive(self, task_id: str) -> bool:
        """See the port."""
        connection = await self._moves.opened()
        async with self._dead_letters(connection) as found:
            wanted = [message for message in found if _dead_row(message).id == task_id]
            for message in wanted:
                row = _dead_row(message)
                row.note("redriven")
                row.deliveries, row.ready_at, row.reason = 0, time.time(), ""
                await self._moves.show(connection, row)
                await self._moves.link.told(connection, message.ack())
                found.remove(message)
        return bool(wanted)

    async def _has_dead(self, connection: Connection) -> bool:
        async with self._looking:  # not while somebody has them in hand
            return (await self._moves.calls.count(connection, self._moves.names.dead))[0] > 0

    @contextlib.asynccontextmanager
    async def _dead_letters(self, connection: Connection) -> AsyncIterator[list[Any]]:
        """Take the dead letters out to look at them; those that are left in the list go back."""
        name = self._moves.names.dead
        async with self._looking:
            found, put_back = await self._moves.calls.browse(connection, name, BROWSED_MAX)
            try:
                yield found
            finally:
                await put_back()
            # The server does that a moment later, and who looked meanwhile would find nothing.
            ends = time.monotonic() + BACK_SECONDS
            while time.monotonic() < ends:
                if (await self._moves.calls.count(connection, name))[0] >= len(found):
                    break
                await asyncio.sleep(0.01)

    async def wake(self, task_id: str, afresh: bool, body: bytes | None) -> bool:
        """See the port: whoever has it hears of it, else a second ticket is put beside the parked one."""
        connection = await self._moves.opened()
        if any(one["has"] for one in await self._ask(connection, {"wake": task_id})):
            return False
        if body is None:
            return False
        now = time.time()
        row = Row(task_id, body, 0, time.time_ns(), now, now)
        await self._moves.show(connection, row, front=not afresh)
        return True

    async def place(self, task_id: str) -> Place | None:
        """See the port: what somebody remembers who had it in hand, or a dead letter."""
        connection = await self._moves.opened()
        told = await self._ask(connection, {"place": task_id})
        place = newest([one["place"] for one in told])
        if place is None and await self._has_dead(connection):
            for letter in await self.dead(BROWSED_MAX):
                if letter.id == task_id:
                    note = letter.reason
                    return Place("dead", deliveries=letter.deliveries, note=note)
        return place

    async def depth(self) -> Depth:
        """See the port."""
        connection = await self._moves.opened()
        counts = await self._moves.counts(connection)
        dead, _ = await self._moves.calls.count(connection, self._moves.names.dead)
        before = await self._members(connection)
        told = await self._ask(connection, {"held": 1})
        members = min(before, await self._members(connection))  # not who has just come or gone
        # Who does not answer may be cut off with a task in hand: a queue must not look empty then.
        silent = max(0, members - len(told))
        oldest = [one["oldest"] for one in told if one["oldest"] is not None]
        return Depth(
            **counts,
            leased=sum(one["held"] for one in told) + silent,
            dead=dead,
            oldest_leased_seconds=max(oldest, default=None),
        )

    async def empty(self) -> None:
        """Throw away whatever waits, or is dead."""
        connection = await self._moves.opened()
        await self._moves.counts(connection)  # which makes what is missing
        await self._moves.calls.purge(connection, self._moves.names.everything())

    async def _ask(self, connection: Connection, question: Answer) -> list[Answer]:
        members = await self._members(connection)
        return await self._moves.talk.ask(connection, question, members=members)

    async def _members(self, connection: Connection) -> int:
        return (await self._moves.calls.count(connection, self._moves.names.due))[1]

    def _answer(self, asked: Answer) -> Answer:
        if "place" in asked:
            return {"place": self._moves.memory.of(asked["place"])}
        if "wake" in asked:
            return {"has": self._work.wake_held(asked["wake"])}
        ages = self._work.ages()
        return {"held": len(ages), "oldest": max(ages, default=None)}


def _dead_row(message: Any) -> Row:
    row = row_from(message) or sent_from(message, now=time.time())[0]
    row.reason = row.reason or broker_said(message)
    return row

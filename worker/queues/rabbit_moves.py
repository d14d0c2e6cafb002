"""How tasks get from one queue of RabbitMQ to another, and what has to be there for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from worker.core.errors import QueueUnavailable
from worker.queues.memory_shelf import Row
from worker.queues.rabbit_calls import Ending, RabbitCalls
from worker.queues.rabbit_link import Connection, RabbitLink
from worker.queues.rabbit_memory import RabbitMemory
from worker.queues.rabbit_names import HIDDEN, RabbitNames
from worker.queues.rabbit_rows import noted_in, sent_from
from worker.queues.rabbit_talk import Answer, RabbitTalk
from worker.queues.row_text import header_of

AGAIN_SECONDS = 1.0  # until a message in hand that could not be sent on is tried again


class RabbitMoves:
    """The queues of one queue of tasks, and whatever is put into them."""

    def __init__(self, link: RabbitLink, name: str) -> None:
        self.link = link
        self.calls = RabbitCalls(link)
        self.name = name
        self.names = RabbitNames(link.prefix + name)
        self.memory = RabbitMemory()
        self.changed = asyncio.Event()
        self.answer: Callable[[Answer], Answer] = lambda _: {}
        self.talk = RabbitTalk(
            self.calls, self.names.bell, answer=lambda asked: self.answer(asked), rung=self.wake_up
        )
        self._opening = asyncio.Lock()
        self._open: Connection | None = None
        self._end_hops: Ending | None = None
        self._is_closed = False
        link.on_lost.append(self.wake_up)

    def __repr__(self) -> str:
        return f"RabbitMoves({self.name!r})"

    async def opened(self) -> Connection:
        """A connection on which everything is there that this queue needs."""
        async with self._opening:
            connection = await self.link.connected()
            if self._open is connection and self.names.due in connection.declared:
                return connection
            await self.calls.declare(connection, self.names.first_forms(connection.version))
            if self._open is not connection:
                await self.talk.begin(connection)
                # What waits there comes at once, before it is known here that all is open.
                hop = partial(self._hop, connection)
                self._end_hops = await self.calls.consume(connection, self.names.due, hop)
                self._open = connection
            return connection

    async def close(self) -> None:
        """Let go of what was begun on the connection, which others may use."""
        self._is_closed = True
        if self.wake_up in self.link.on_lost:
            self.link.on_lost.remove(self.wake_up)
        if self._open is not None and self._open.lives and self._end_hops is not None:
            await self._end_hops()
            await self.talk.end()

    def wake_up(self) -> None:
        """Let those who wait for a task look again."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def waiting(self, connection: Connection) -> dict[str, int]:
        """How many messages wait in each queue of ready tasks: to ask for none costs much more."""
        names = [name for band in self.names.bands for name in band]
        return {name: (await self.calls.count(connection, name))[0] for name in names}

    async def counts(self, connection: Connection) -> dict[str, int]:
        """How many tasks are ready, delayed and parked."""
        ready = sum((await self.waiting(connection)).values())
        counts = {"ready": ready, "delayed": 0, "parked": 0}
        steps = [name for kind in HIDDEN for name in self.names.hidden[kind]]
        forms = [self.names.step_form(name, connection.version) for name in steps]
        await self.calls.declare(connection, forms)
        for kind in HIDDEN:
            for name in self.names.hidden[kind]:
                counts[kind] += (await self.calls.count(connection, name))[0]
        return counts

    async def show(
        self, connection: Connection, row: Row, *, front: bool = False, full: Any = QueueUnavailable
    ) -> None:
        """Put a task where it can be claimed; `front`: before the others of its band."""
        self.memory.note(row, "ready")
        await self.send(connection, self.names.ready(row.priority, front=front), row, full=full)
        self.talk.ring()

    async def hide(
        self,
        connection: Connection,
        row: Row,
        kind: str,
        seconds: float,
        *,
        full: Any = QueueUnavailable,
    ) -> None:
        """Put a task where it waits for so long, delayed or parked."""
        self.memory.note(row, kind, until=time.time() + seconds)
        name, left = self.names.step_for(kind, max(1, round(seconds * 1000)))
        await self.calls.declare(connection, [self.names.step_form(name, connection.version)])
        await self.send(connection, name, row, full=full, kind=kind, left=left)

    async def send(
        self,
        connection: Connection,
        name: str,
        row: Row,
        *,
        full: Any = QueueUnavailable,
        **more: Any,
    ) -> None:
        """Send a task to one of the queues, with what else is to be noted."""
        header = header_of(row, **more)
        await self.calls.send(
            connection, name, row.body, header=header, message_id=row.id, full=full
        )

    async def _hop(self, connection: Connection, message: Any) -> None:
        """A task has waited for one step of its time: there may be another one."""
        while connection.lives and not self._is_closed:  # so long nobody else is given it
            try:
                await self._send_on(connection, message)
                await self.link.told(connection, message.ack())
                return
            except QueueUnavailable:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _send_on(self, connection: Connection, message: Any) -> None:
        noted = noted_in(message)
        if noted and noted[1].get("left"):
            await self.hide(connection, noted[0], noted[1]["kind"], noted[1]["left"] / 1000)
            return
        row = noted[0] if noted else sent_from(message, now=time.time())[0]
        row.ready_at = time.time()
        await self.show(connection, row)

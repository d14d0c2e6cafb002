"""What is asked of RabbitMQ: queues declared, messages sent, taken and acknowledged, told to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import aio_pika
from aio_pika import exceptions as pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

from worker.awaiting import happened
from worker.core.errors import QueueUnavailable, WorkerError
from worker.queues.ownlink import Refused
from worker.queues.rabbit_link import Connection, RabbitLink

HEADER = "loopworker"
_NO_MORE_SECONDS = 0.1
_FIRST_SECONDS = 1.0
Ending = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class QueueForm:
    """How a queue has to be set up. `extras` may be missing where an older server made it."""

    name: str
    arguments: dict[str, Any]
    extras: dict[str, Any] = field(default_factory=dict)


class RabbitCalls:
    """Calls to one server. Each belongs into the thread of the link."""

    def __init__(self, link: RabbitLink) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"RabbitCalls({self._link!r})"

    async def declare(self, connection: Connection, forms: Sequence[QueueForm]) -> None:
        """Make queues where there are none. Raises Refused for one that is set up otherwise."""
        missing = [form for form in forms if form.name not in connection.declared]
        if not missing:
            return
        channel = await self._link.told(connection, _opened(connection.pika))
        for form in missing:
            try:
                await self._declare(connection, channel, form, {**form.arguments, **form.extras})
            except pika.ChannelPreconditionFailed:  # which closes the channel
                channel = await self._link.told(connection, _opened(connection.pika))
                await self._declare_again(connection, channel, form)
            connection.declared.add(form.name)
        await self._link.told(connection, _closed(channel))

    async def count(self, connection: Connection, name: str) -> tuple[int, int]:
        """How many messages of a declared queue wait, and how many consume from it."""
        work = connection.work.declare_queue(name, passive=True)
        found = (await self._link.told(connection, work)).declaration_result
        return int(found.message_count or 0), int(found.consumer_count or 0)

    async def send(
        self,
        connection: Connection,
        queue: str,
        body: bytes,
        *,
        header: str,
        message_id: str = "",
        full: type[WorkerError] = QueueUnavailable,
    ) -> None:
        """Send a message that is on the disk when this returns. Raises `full`, if refused."""
        message = aio_pika.Message(
            body,
            headers={HEADER: header},
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            message_id=message_id if len(message_id.encode()) < 256 else None,
        )
        try:
            async with connection.turns:  # the time limit is for the server, not for the line here
                sending = connection.out.default_exchange.publish(message, queue, mandatory=True)
                await self._link.told(connection, sending)
        except pika.DeliveryError as error:
            # Returned: nobody has the queue any more. Refused: it may hold no more.
            connection.declared.clear()
            raise full(f"RabbitMQ at {self._link.where} refuses more in {queue!r}") from error

    async def take(self, connection: Connection, name: str) -> AbstractIncomingMessage | None:
        """Take one message; until it is acknowledged, it belongs to this connection."""
        queue = await connection.work.get_queue(name, ensure=False)
        return await self._link.told(connection, queue.get(fail=False, timeout=None))

    async def take_many(
        self, connection: Connection, name: str, most: int
    ) -> list[AbstractIncomingMessage]:
        """Take up to so many messages, in one go; an end is made when no more come."""
        taken: list[AbstractIncomingMessage] = []
        came = asyncio.Event()
        is_over = False

        async def took(message: AbstractIncomingMessage) -> None:
            if is_over:
                await message.nack(requeue=True)
                return
            taken.append(message)
            came.set()

        async def take() -> None:
            queue = await connection.work.get_queue(name, ensure=False)
            async with connection.bounding:
                await connection.work.set_qos(prefetch_count=most)
                tag = await queue.consume(took)
            while len(taken) < most:
                came.clear()
                within = _NO_MORE_SECONDS if taken else _FIRST_SECONDS
                if not await happened(came, within=within):
                    break
            await queue.cancel(tag)  # what was on its way has come before the answer to this

        await self._link.told(connection, take())
        is_over = True
        return taken

    async def acknowledge(
        self, connection: Connection, message: AbstractIncomingMessage, *, surely: bool = False
    ) -> None:
        """Let go of a message for good. `surely`: come back when the server has heard of it."""
        await self._link.told(connection, message.ack())
        if surely:  # it answers nothing to that, but in turn to what comes after
            await self._link.told(connection, _heard(connection))

    async def hear(
        self, connection: Connection, exchange: str, heard: Callable[[bytes], Any]
    ) -> tuple[str, Ending]:
        """Have `heard` called with whatever is told to everybody, or to this queue: its name."""

        async def told(message: AbstractIncomingMessage) -> None:
            heard(message.body)

        channel = await self._link.told(connection, _opened(connection.pika))
        channel.close_callbacks.add(connection.end)

        async def begin() -> str:
            fanout = aio_pika.ExchangeType.FANOUT
            hall = await channel.declare_exchange(exchange, fanout, durable=True)
            own = await channel.declare_queue(exclusive=True)
            await own.bind(hall)
            await own.consume(told, no_ack=True)
            return own.name

        return await self._link.told(connection, begin()), self._ending(connection, channel)

    async def tell(
        self, connection: Connection, said: bytes, *, exchange: str = "", queue: str = ""
    ) -> None:
        """Tell everybody, or one queue, what may be lost."""

        async def send() -> None:
            hall = await connection.work.get_exchange(exchange, ensure=False)
            await hall.publish(aio_pika.Message(said), queue, mandatory=False)

        await self._link.told(connection, send())

    async def consume(
        self,
        connection: Connection,
        queue: str,
        took: Callable[[AbstractIncomingMessage], Coroutine[Any, Any, None]],
    ) -> Ending:
        """Have `took` called with each message, some at a time; returns what ends that."""
        channel = await self._link.told(connection, _opened(connection.pika))
        channel.close_callbacks.add(connection.end)

        async def begin() -> None:
            await channel.set_qos(prefetch_count=20)
            await (await channel.get_queue(queue, ensure=False)).consume(took)

        await self._link.told(connection, begin())
        return self._ending(connection, channel)

    async def browse(
        self, connection: Connection, name: str, most: int
    ) -> tuple[list[AbstractIncomingMessage], Ending]:
        """Take out what is in a queue, and return it with what puts back whatever is not settled."""
        channel = await self._link.told(connection, _opened(connection.pika))
        found: list[AbstractIncomingMessage] = []
        queue = await channel.get_queue(name, ensure=False)
        while len(found) < most:
            message = await self._link.told(connection, queue.get(fail=False, timeout=None))
            if message is None:
                break
            found.append(message)
        return found, self._ending(connection, channel)

    async def purge(self, connection: Connection, names: Sequence[str]) -> None:
        """Throw away whatever waits in some queues."""

        async def purge() -> None:
            for name in names:
                await (await connection.work.get_queue(name, ensure=False)).purge()

        await self._link.told(connection, purge())

    def _ending(self, connection: Connection, channel: AbstractChannel) -> Ending:
        async def end() -> None:
            channel.close_callbacks.discard(connection.end)
            await self._link.told(connection, _closed(channel))

        return end

    async def _declare_again(
        self, connection: Connection, channel: AbstractChannel, form: QueueForm
    ) -> None:
        """Declare a queue as an older server may have made it, which knew less."""
        try:
            await self._declare(connection, channel, form, form.arguments)
        except pika.ChannelPreconditionFailed as error:
            raise Refused(
                f"RabbitMQ at {self._link.where}: {form.name!r} exists and is no queue of loopworker"
                f" ({error}); delete it, or choose names of your own with ?prefix=name-"
            ) from error

    async def _declare(
        self,
        connection: Connection,
        channel: AbstractChannel,
        form: QueueForm,
        arguments: dict[str, Any],
    ) -> None:
        declaring = channel.declare_queue(form.name, durable=True, arguments=arguments)
        await self._link.told(connection, declaring)


async def _opened(connection: AbstractConnection) -> AbstractChannel:
    return await connection.channel(publisher_confirms=False)


async def _closed(channel: AbstractChannel) -> None:
    await channel.close()


async def _heard(connection: Connection) -> None:
    """Come back when the server has dealt with all that was said in the channel of messages."""
    async with connection.bounding:
        await connection.work.set_qos(prefetch_count=0)

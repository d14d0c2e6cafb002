"""The connection to RabbitMQ.

Whatever goes wrong comes out as QueueUnavailable, in its time, without a password.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aio_pika
from aio_pika import exceptions as pika
from aio_pika.abc import AbstractChannel, AbstractConnection

from worker.core.errors import QueueUnavailable
from worker.queues.brokeraddress import tls_of
from worker.queues.ownlink import OwnLink, Refused
from worker.queues.ownloop import Unanswered, unless_lost
from worker.queues.rabbit_address import FORM, RabbitAddress
from worker.queues.rabbit_patience import be_patient

be_patient()
T = TypeVar("T")
ANSWER_SECONDS = 5.0  # without an answer so long, the connection is given up
SENDS_MAX = 128  # messages that wait for their confirmation at a time
HEARTBEAT_SECONDS = 5  # after three without one, either side gives the other up
VERSION_MIN = (3, 10)
QUEUES_SAY_HOW_LONG = (3, 12)
_USUAL_PATIENCE_SECONDS = 1800.0


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """One connection; `lost` comes to its end with it, or with one of its two channels.

    `work` is where messages are taken and acknowledged, `out` where they are sent and confirmed.
    `bounding` is for who says how many messages the next consumer of `work` may have, until it is one.
    """

    pika: AbstractConnection
    work: AbstractChannel
    out: AbstractChannel
    version: tuple[int, ...]
    lost: asyncio.Future[None]
    declared: set[str] = field(default_factory=set)
    bounding: asyncio.Lock = field(default_factory=asyncio.Lock)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SENDS_MAX))

    @property
    def lives(self) -> bool:
        """Whether it can still be used, as far as is known."""
        return not (self.lost.done() or self.pika.is_closed)

    def end(self, *_: Any) -> None:
        """Let go of everybody who waits for an answer."""
        if not self.lost.done():
            self.lost.set_result(None)


class RabbitLink(OwnLink[Connection]):
    """The connection of one process to RabbitMQ; its calls may come from any event loop."""

    def __init__(self, address: RabbitAddress, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        super().__init__(
            "rabbitmq", address.where, prefix=address.prefix, answer_seconds=answer_seconds
        )
        self._address = address

    async def told(self, connection: Connection, asking: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer for as long as there is a connection, and no longer than its time."""
        try:
            return await unless_lost(asking, connection.lost, seconds=self.answer_seconds)
        except Unanswered as error:
            connection.end()
            raise QueueUnavailable(f"RabbitMQ at {self.where}: {error}") from None
        except (pika.ChannelPreconditionFailed, pika.DeliveryError):
            raise
        except pika.CONNECTION_EXCEPTIONS as error:
            connection.end()
            raise self._unavailable(error) from error

    async def _open(self) -> Connection:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            return await unless_lost(self._made(lost), lost, seconds=3 * self.answer_seconds)
        except Unanswered as error:
            raise QueueUnavailable(f"RabbitMQ at {self.where}: {error}") from None
        except pika.CONNECTION_EXCEPTIONS as error:
            raise self._unavailable(error) from error

    async def _made(self, lost: asyncio.Future[None]) -> Connection:
        connection = await aio_pika.connect(
            f"{self._address.url}?heartbeat={HEARTBEAT_SECONDS}",
            ssl_context=tls_of(self._address.options) if self._address.is_tls else None,
            timeout=self.answer_seconds,
            client_properties={"connection_name": "loopworker"},
        )
        try:
            version = version_of(connection)
            if wrong := unfit(version):
                raise Refused(f"RabbitMQ at {self.where}: {wrong}")
            work = await connection.channel(publisher_confirms=False)
            out = await connection.channel(publisher_confirms=True, on_return_raises=True)
        except BaseException:
            await connection.close()
            raise
        made = Connection(connection, work, out, version, lost)
        for each in (connection, work, out):
            each.close_callbacks.add(made.end)
        return made

    async def _end(self, connection: Connection) -> None:
        connection.end()
        try:
            async with asyncio.timeout(self.answer_seconds):
                await connection.pika.close()
        except (TimeoutError, *pika.CONNECTION_EXCEPTIONS):
            return  # it could not say goodbye

    def _unavailable(self, error: BaseException) -> QueueUnavailable:
        if isinstance(error, Refused):
            return error
        said = str(error) or type(error).__name__
        if isinstance(error, pika.AuthenticationError | pika.ProbableAuthenticationError):
            return Refused(f"RabbitMQ at {self.where} lets nobody in: {said}; write {FORM}")
        if isinstance(
            error, pika.InvalidFrameError
        ):  # it ends what is not open yet, and says no more
            return Refused(
                f"RabbitMQ at {self.where} does not allow it: is there such a virtual host, and may"
                " the account use it?"
            )
        if "NOT_ALLOWED" in said or "ACCESS_REFUSED" in said:
            return Refused(f"RabbitMQ at {self.where} does not allow it: {said}")
        if isinstance(error, ssl.SSLError):
            return Refused(f"RabbitMQ at {self.where}: {said}; tls_ca=FILE names who is trusted")
        return QueueUnavailable(f"RabbitMQ at {self.where} cannot be used: {said}")


def unfit(version: tuple[int, ...]) -> str:
    """Why a server cannot be entrusted with tasks; empty when it can."""
    if version >= VERSION_MIN:
        return ""
    said, least = (".".join(map(str, each)) for each in (version, VERSION_MIN))
    return f"the server is version {said}; {least} or a later one is needed"


def impatient(version: tuple[int, ...], *, longest_seconds: float) -> str:
    """Why a server may take a task away while it is in work; empty when it does not.

    A later one is told by the queues how long that may take. What an earlier one has set cannot be
    asked for over AMQP: its usual value counts.
    """
    if version >= QUEUES_SAY_HOW_LONG or longest_seconds < _USUAL_PATIENCE_SECONDS:
        return ""
    said = ".".join(map(str, version))
    return (
        f"the server is version {said}, and takes a task away that is in work for longer than its"
        f" consumer_timeout, {_USUAL_PATIENCE_SECONDS:g} s unless it says otherwise;"
        f" LOOPWORKER_DEADLINE is {longest_seconds:g} s: set consumer_timeout above it in rabbitmq.conf"
    )


def version_of(connection: Any) -> tuple[int, ...]:
    """The version of a server, as far as it is made of numbers."""
    said = str(connection.transport.connection.server_properties.get("version", ""))
    return tuple(int(part) for part in said.split(".")[:2] if part.isdigit())

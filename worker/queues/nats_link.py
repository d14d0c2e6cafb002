"""The connection to NATS.

The driver does not reconnect by itself: it would keep what it could not send, and send it after the
call was told that it failed. Whatever goes wrong comes out as QueueUnavailable, in its time, without
a password.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client

from worker.core.errors import QueueUnavailable, WorkerError
from worker.queues.brokeraddress import tls_of
from worker.queues.nats_address import FORM, NatsAddress
from worker.queues.ownlink import OwnLink, Refused
from worker.queues.ownloop import Unanswered, unless_lost

T = TypeVar("T")
ANSWER_SECONDS = 5.0  # without an answer so long, the connection is given up
PING_SECONDS = 5.0  # after two without an answer the connection is given up
VERSION_MIN = (2, 10)
_WRONG_SEQUENCE = (10071, 10164)  # what a server answers when somebody else wrote before us
_NO_ROOM = (10023, 10047, 10077, 10122)  # of the server, of the account, of the stream


class Conflict(Exception):
    """Somebody else has written the row since it was read."""


class _NotSent(QueueUnavailable):
    """The connection was closed before anything was sent."""


class _Client(Client):
    """The driver's client, which does not try to send on its way out what it could not send."""

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        # On a connection that is cut that fails, and leaves tasks behind that nobody ends.
        self._pending, self._pending_data_size = [], 0
        await super()._close(status, do_cbs)


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """One connection; `lost` comes to its end with it."""

    client: Client
    lost: asyncio.Future[None]

    @property
    def lives(self) -> bool:
        """Whether it can still be used, as far as is known."""
        return self.client.is_connected and not self.lost.done()

    def end(self) -> None:
        """Let go of everybody who waits for an answer."""
        if not self.lost.done():
            self.lost.set_result(None)


class NatsLink(OwnLink[Connection]):
    """The connection of one process to NATS; its calls may come from any event loop."""

    def __init__(self, address: NatsAddress, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        super().__init__(
            "nats", address.where, prefix=address.prefix, answer_seconds=answer_seconds
        )
        self._address = address

    async def _open(self) -> Connection:
        connection = Connection(_Client(), asyncio.get_running_loop().create_future())
        options = self._options(connection)
        try:
            await self.told(connection, connection.client.connect(**options))
            await self.told(connection, self._look(connection.client))
        except QueueUnavailable:
            connection.end()
            await connection.client.close()
            raise
        return connection

    async def _end(self, connection: Connection) -> None:
        try:
            await connection.client.close()
        except OSError:
            pass  # it could not say goodbye
        connection.end()

    def _options(self, connection: Connection) -> dict[str, Any]:
        async def closed() -> None:
            connection.end()

        async def failed(error: Exception) -> None:
            # The driver's last word on some connections, for it may fail to close them.
            is_last = isinstance(error, OSError | EOFError | nats.errors.UnexpectedEOF)
            if is_last and connection.client.is_connected:
                connection.end()

        return {
            "servers": list(self._address.servers),
            "name": "loopworker",
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,  # of one connecting: its servers in turn, then it gives up
            "reconnect_time_wait": 0,
            "connect_timeout": self.answer_seconds,
            "ping_interval": PING_SECONDS,
            "max_outstanding_pings": 2,
            "closed_cb": closed,
            "error_cb": failed,
            "tls": tls_of(self._address.options) if self._address.is_tls else None,
            "user_credentials": self._address.options.get("creds"),
        }

    async def _look(self, client: Client) -> None:
        version = client.connected_server_version
        has_jetstream = True
        try:
            await client.jetstream(timeout=self.answer_seconds).account_info()
        except (nats.js.errors.ServiceUnavailableError, nats.errors.NoRespondersError):
            has_jetstream = False
        wrong = unfit((version.major, version.minor), has_jetstream=has_jetstream)
        if wrong:
            raise Refused(f"NATS at {self.where}: {wrong}")

    async def call(
        self,
        ask: Callable[[Client], Coroutine[Any, Any, T]],
        *,
        full: type[WorkerError] = QueueUnavailable,
    ) -> T:
        """Ask the server something; once more where the connection was closed before that."""
        connection = await self.connected()
        try:
            return await self.told(connection, ask(connection.client), full=full)
        except _NotSent:
            connection.end()
            connection = await self.connected()
            return await self.told(connection, ask(connection.client), full=full)

    async def told(
        self,
        connection: Connection,
        asking: Coroutine[Any, Any, T],
        *,
        full: type[WorkerError] = QueueUnavailable,
    ) -> T:
        """Wait for an answer for as long as there is a connection, and no longer than its time."""
        try:
            return await unless_lost(asking, connection.lost, seconds=3 * self.answer_seconds)
        except Unanswered as error:
            raise QueueUnavailable(f"NATS at {self.where}: {error}") from None
        except nats.js.errors.NotFoundError as error:
            raise LookupError from error
        except nats.js.errors.APIError as error:
            if error.err_code in _WRONG_SEQUENCE:
                raise Conflict from error
            kind = full if error.err_code in _NO_ROOM else QueueUnavailable
            raise kind(f"NATS at {self.where}: {error.description}; nothing written") from error
        except nats.errors.ConnectionClosedError as error:
            raise _NotSent(f"NATS at {self.where}: the connection was closed") from error
        except (nats.errors.Error, TimeoutError, OSError, EOFError) as error:
            if isinstance(error, TimeoutError):
                connection.end()  # it may be cut without a word: the next call makes another
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> QueueUnavailable:
        said = str(error) or type(error).__name__
        if "authorization" in said.lower():
            return Refused(f"NATS at {self.where} lets nobody in: {said}; write {FORM}")
        if isinstance(error, ssl.SSLError):
            return Refused(f"NATS at {self.where}: {said}; tls_ca=FILE names who is trusted")
        return QueueUnavailable(f"NATS at {self.where} cannot be used: {said}")


def unfit(version: tuple[int, int], *, has_jetstream: bool) -> str:
    """Why a server cannot be entrusted with tasks; empty when it can."""
    if version < VERSION_MIN:
        least = ".".join(map(str, VERSION_MIN))
        return f"the server is version {version[0]}.{version[1]}; {least} or a later one is needed"
    if not has_jetstream:
        return "JetStream is off; start the server with -js, or write jetstream {} in its file"
    return ""

"""A connection to NATS, in a thread of its own, which no blocked loop stops.

The driver does not reconnect by itself: it would keep what it could not send, and send it after the
call was told that it failed. Each connection begins with nothing to send, made by the first call
that needs one. Whatever goes wrong comes out as QueueUnavailable, in its time, without a password.
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

from worker.core.errors import ConfigError, QueueUnavailable, WorkerError
from worker.queues.nats_address import FORM, NatsAddress
from worker.queues.ownloop import OwnLoop, Unanswered, unless_lost

T = TypeVar("T")
ANSWER_SECONDS = 5.0  # without an answer so long, the connection is given up
PING_SECONDS = 5.0  # after two without an answer the connection is given up
VERSION_MIN = (2, 10)
_WRONG_SEQUENCE = (10071, 10164)  # what a server answers when somebody else wrote before us
_NO_ROOM = (10023, 10047, 10077, 10122)  # of the server, of the account, of the stream


class Conflict(Exception):
    """Somebody else has written the row since it was read."""


class Refused(QueueUnavailable):
    """The server is there, and cannot be used as it is set up."""


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


class NatsLink:
    """The connection of one process to NATS; its calls may come from any event loop.

    Each use closes once. `on_lost` are called, in the link's thread, when a connection has ended.
    """

    def __init__(self, address: NatsAddress, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.where = address.where
        self.prefix = address.prefix
        self.on_lost: list[Callable[[], None]] = []
        self._address = address
        self.answer_seconds = answer_seconds
        self._connection: Connection | None = None
        self._attempt: asyncio.Task[Connection] | None = None
        self._uses = 1
        self._own = OwnLoop("loopworker-nats")

    def __repr__(self) -> str:
        connection = self._connection
        state = "open" if connection is not None and connection.lives else "not connected"
        return f"NatsLink({self.where}, {state})"

    def again(self) -> NatsLink:
        """Note one use more."""
        self._uses += 1
        return self

    # --- from any thread -------------------------------------------------------------------------

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the link's thread. Cancelled: it is done there all the same."""
        return await self._own.run(work)

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for something in the link's thread. Cancelled: so is it."""
        return await self._own.wait(work)

    def check(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something before any event loop runs, and block.

        Raises ConfigError for a server that refuses; one that is out of reach is left alone.
        """
        try:
            self._own.begin(work).result()
        except Refused as error:
            self._own.end(self._disconnect())
            raise ConfigError(str(error)) from error
        except QueueUnavailable:
            return

    async def close(self) -> None:
        """Close the connection and end the thread with the last use."""
        self._uses -= 1
        if self._uses > 0 or self._own.is_over:
            return
        await asyncio.to_thread(self._own.end, self._disconnect())

    # --- connections -----------------------------------------------------------------------------

    async def connected(self) -> Connection:
        """The connection, made anew where there is none. Raises QueueUnavailable."""
        if self._connection is not None and self._connection.lives:
            return self._connection
        if self._attempt is None or self._attempt.done():  # one attempt for all who wait
            self._attempt = asyncio.create_task(self._connect())
        return await asyncio.shield(self._attempt)

    async def _connect(self) -> Connection:
        await self._disconnect()
        connection = Connection(_Client(), asyncio.get_running_loop().create_future())
        options = self._options(connection)
        try:
            await self.told(connection, connection.client.connect(**options))
            await self.told(connection, self._look(connection.client))
        except QueueUnavailable:
            connection.end()
            await connection.client.close()
            raise
        connection.lost.add_done_callback(self._tell_lost)
        self._connection = connection
        return connection

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
            "tls": _tls_of(self._address),
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

    def _tell_lost(self, _: Any) -> None:
        for each in list(self.on_lost):
            each()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await connection.client.close()
            except OSError:
                pass  # it could not say goodbye
            connection.end()

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


def _tls_of(address: NatsAddress) -> ssl.SSLContext | None:
    if not address.is_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=address.options.get("tls_ca"))
        if "tls_cert" in address.options:
            context.load_cert_chain(address.options["tls_cert"], address.options["tls_key"])
    except OSError as error:  # a wrong certificate is one as well
        raise Refused(f"tls_ca, tls_cert or tls_key of the nats:// address: {error}") from error
    return context

"""The connections to a PostgreSQL server, as queue and store share them.

A pool that opens connections as they are needed, for the event loop that used it first; another loop
gets a connection for each call. Every statement has its time: when it is over, the connection's socket
is shut down, which ends the wait also where the network has gone silent. No state of a session is
relied upon, so a proxy that pools by transaction may stand in between.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import psycopg

from worker.core.errors import ConfigError, WorkerError
from worker.postgres.schema import SETTINGS, Part, bring_up, is_up, qualified, unfit
from worker.postgres.url import LinkSettings
from worker.shownurl import HIDDEN

T = TypeVar("T")
IDLE = psycopg.pq.TransactionStatus.IDLE
CONNECTIONS_MAX = 8  # at once for statements; more of them wait for their turn
TRIES_MAX = 4  # of a transaction that the server has rolled back to resolve a conflict
_ALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
_REFUSED = ("password authentication failed", "no pg_hba.conf entry", "does not exist")
_CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_FULL = (psycopg.errors.DiskFull,)


class PostgresLink:
    """Connections to one database, in which the tables of `part` are.

    `unavailable` is what is raised when the server cannot be reached, or refuses.
    """

    def __init__(
        self, settings: LinkSettings, *, part: Part, unavailable: type[WorkerError]
    ) -> None:
        self.settings = settings
        self._part = part
        self._unavailable = unavailable
        self._uses = 1
        self._is_sound = False
        self._home: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(CONNECTIONS_MAX)
        self._free: list[psycopg.AsyncConnection[Any]] = []
        self._working: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"PostgresLink({self.settings.where}, {len(self._free)} connections free)"

    def again(self) -> PostgresLink:
        """Note one use more; each use closes once."""
        self._uses += 1
        return self

    def check(self) -> None:
        """See whether the server and its tables are in order, and block meanwhile.

        Raises ConfigError for a server that would lose what is in it, or lets nobody in. One that
        cannot be reached is left for the first call, which looks again.
        """
        found: list[BaseException] = []

        def look() -> None:  # in a thread: the caller's may have a loop that runs
            try:
                asyncio.run(self._look_once())
            except (ConfigError, psycopg.Error, OSError, TimeoutError) as error:
                found.append(error)

        thread = threading.Thread(target=look, name="postgres-check")
        thread.start()
        thread.join()
        for error in found:
            if isinstance(error, ConfigError):
                raise error
            if _is_refusal(error):
                raise ConfigError(self._told("lets nobody in", error)) from None

    async def rows(
        self, statement: str, values: Mapping[str, Any], *, full: type[WorkerError] | None = None
    ) -> Sequence[Any]:
        """Run one statement as a transaction of its own, and return its rows.

        `full` is raised when the server's disk is full. Cancelled: it goes on, wholly or not.
        """

        async def work(connection: psycopg.AsyncConnection[Any]) -> Sequence[Any]:
            return await (await self._execute(connection, statement, values)).fetchall()

        return await self._kept(work, full)

    async def count(
        self, statement: str, values: Mapping[str, Any], *, full: type[WorkerError] | None = None
    ) -> int:
        """As `rows`, for a statement that returns none: how many it has changed."""

        async def work(connection: psycopg.AsyncConnection[Any]) -> int:
            return (await self._execute(connection, statement, values)).rowcount

        return await self._kept(work, full)

    async def hear(self, channel: str, told: Callable[[str], None], *, quiet: float) -> None:
        """Listen to notifications on a connection of its own, for as long as it holds.

        Asks after `quiet` seconds without any whether the server is still there. Never returns;
        raises when the connection fails.
        """
        async with self._ours(None), self._opened() as connection:
            with self._limited(connection):
                await connection.execute(f'listen "{channel}"')
            told("")
            while True:
                async for note in connection.notifies(timeout=quiet):
                    told(note.payload)
                with self._limited(connection):
                    await connection.execute("select 1")

    async def close(self) -> None:
        """Wait for what is under way, and let go of the connections. Idempotent."""
        self._uses -= 1
        if self._uses > 0:
            return
        if self._home is asyncio.get_running_loop():
            if self._working:
                await asyncio.wait(self._working)
            for connection in self._free:
                await connection.close()
        self._free.clear()
        self._home = None

    # --- statements ------------------------------------------------------------------------------

    async def _execute(
        self, connection: psycopg.AsyncConnection[Any], statement: str, values: Mapping[str, Any]
    ) -> psycopg.AsyncCursor[Any]:
        text = qualified(statement, self.settings.schema)
        cursor = connection.cursor(binary=True)
        return await cursor.execute(text, {**values, "shift": self.settings.shift()})

    async def _kept(
        self,
        work: Callable[[psycopg.AsyncConnection[Any]], Coroutine[Any, Any, T]],
        full: type[WorkerError] | None,
    ) -> T:
        loop = asyncio.get_running_loop()
        if self._home is None or self._home.is_closed():
            self._home, self._places = loop, asyncio.Semaphore(CONNECTIONS_MAX)
            self._free = []
        if self._home is not loop:
            async with self._ours(full), self._opened() as connection:
                return await self._tried(connection, work)
        task = loop.create_task(self._worked(work, full))
        self._working.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._working.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it may be gone

    async def _worked(
        self,
        work: Callable[[psycopg.AsyncConnection[Any]], Coroutine[Any, Any, T]],
        full: type[WorkerError] | None,
    ) -> T:
        async with self._ours(full), self._taken() as connection:
            return await self._tried(connection, work)

    async def _tried(
        self,
        connection: psycopg.AsyncConnection[Any],
        work: Callable[[psycopg.AsyncConnection[Any]], Coroutine[Any, Any, T]],
    ) -> T:
        """Do it; again, when the server has rolled it back only because of others at work."""
        for left in reversed(range(TRIES_MAX)):
            try:
                with self._limited(connection):
                    return await work(connection)
            except _CONFLICTS:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    # --- connections -----------------------------------------------------------------------------

    @asynccontextmanager
    async def _taken(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with asyncio.timeout(3 * self.settings.answer_seconds):
            await self._places.acquire()
        try:
            connection = await self._fresh()
            try:
                yield connection
            finally:
                if connection.closed or connection.info.transaction_status != IDLE:
                    await connection.close()
                else:
                    self._free.append(connection)
        finally:
            self._places.release()

    async def _fresh(self) -> psycopg.AsyncConnection[Any]:
        while self._free:
            connection = self._free.pop()
            if not connection.closed and not _has_spoken(connection):
                return connection
            await connection.close()
        return await self._open()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        connection = await self._open()
        try:
            yield connection
        finally:
            await connection.close()

    async def _open(self) -> psycopg.AsyncConnection[Any]:
        connection = await self._connect()
        try:
            if not self._is_sound:
                await self._look(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        limit = self.settings.answer_seconds
        options: dict[str, Any] = {
            **_ALIVE,
            "tcp_user_timeout": int(2000 * limit),
            "connect_timeout": max(2, int(limit)),
            "application_name": "loopworker",
            "client_encoding": "utf8",
            **self.settings.options,
        }
        async with asyncio.timeout(limit + 1):
            return await psycopg.AsyncConnection.connect(
                autocommit=True, prepare_threshold=None, **options
            )

    async def _look_once(self) -> None:
        async with self._opened():
            pass

    async def _look(self, connection: psycopg.AsyncConnection[Any]) -> None:
        async def execute(statement: str, values: Mapping[str, Any]) -> Sequence[Any]:
            text = qualified(statement, self.settings.schema)
            cursor = await connection.execute(text, values or None)
            return await cursor.fetchall() if cursor.description else []

        try:
            with self._limited(connection):
                wrong = unfit(dict(await execute(SETTINGS, {})))
                if wrong:
                    raise ConfigError(wrong)
                if not await is_up(execute, self._part, self.settings.schema):
                    async with connection.transaction():
                        await bring_up(execute, self._part, self.settings.schema)
        except psycopg.errors.InsufficientPrivilege as error:
            raise ConfigError(self._told("gives too few rights", error) + self._grant()) from None
        except ConfigError as error:
            raise ConfigError(f"PostgreSQL at {self.settings.where}: {error}") from None
        self._is_sound = True

    def _grant(self) -> str:
        user = self.settings.options.get("user", "the worker's role")
        schema = self.settings.schema
        return f'; as its owner: create schema if not exists "{schema}" authorization "{user}"'

    @contextmanager
    def _limited(self, connection: psycopg.AsyncConnection[Any]) -> Iterator[None]:
        """Let what waits for an answer fail when its time is over."""
        seconds = self.settings.answer_seconds
        timer = asyncio.get_running_loop().call_later(seconds, _sever, connection)
        try:
            yield
        finally:
            timer.cancel()

    @asynccontextmanager
    async def _ours(self, full: type[WorkerError] | None) -> AsyncIterator[None]:
        try:
            yield
        except _FULL as error:
            raise (full or self._unavailable)(self._told("has no room left", error)) from None
        except ConfigError as error:
            raise self._unavailable(str(error)) from None
        except (psycopg.Error, OSError, TimeoutError) as error:
            raise self._unavailable(self._told("cannot be used", error)) from None

    def _told(self, what: str, error: BaseException) -> str:
        said = " ".join(str(error).split()) or type(error).__name__
        password = str(self.settings.options.get("password") or "")
        if password:
            said = said.replace(password, HIDDEN)
        return f"PostgreSQL at {self.settings.where} {what}: {said}"


def _has_spoken(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether a connection at rest has something to read: most often that it has ended."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _sever(connection: psycopg.AsyncConnection[Any]) -> None:
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
    except (psycopg.Error, OSError):
        pass  # it is closed already


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, psycopg.OperationalError) and any(
        words in str(error) for words in _REFUSED
    )

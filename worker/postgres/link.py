"""What queue or store ask of a PostgreSQL server: statements, transactions, notifications.

A statement is a transaction of its own, in one round trip. Whoever asked for it may go away: it is
done all the same, wholly or not. One that only others at work have made fail is tried again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg

from worker.core.errors import ConfigError, WorkerError
from worker.postgres.pool import IDLE, Connection, Pool
from worker.postgres.schema import Part, qualified
from worker.postgres.url import LinkSettings

T = TypeVar("T")
TRIES_MAX = 4  # of a transaction that the server has rolled back to resolve a conflict
# Of a worker that went silent within a transaction, the server itself lets go: else its locks would
# hold up everybody for as long as the network needs to find it dead.
STRAY_SECONDS = 10
_BEGIN = (
    "begin isolation level read committed;"
    f" set local idle_in_transaction_session_timeout = '{STRAY_SECONDS}s'"
)
_REFUSED = ("password authentication failed", "no pg_hba.conf entry", "does not exist")
_FULL = (psycopg.errors.DiskFull,)


class Again(psycopg.OperationalError):
    """Raised within a transaction to have it undone and tried again."""

    def __str__(self) -> str:
        return "others have changed the same rows again and again"


_CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected, Again)


class Statements:
    """Runs statements on one connection, each when the one before it is done."""

    def __init__(self, connection: Connection, settings: LinkSettings) -> None:
        self._connection = connection
        self._settings = settings

    async def rows(self, statement: str, values: Mapping[str, Any]) -> Sequence[Any]:
        """The rows that a statement returns."""
        return await (await self._execute(statement, values)).fetchall()

    async def count(self, statement: str, values: Mapping[str, Any]) -> int:
        """How many rows a statement has changed."""
        return (await self._execute(statement, values)).rowcount

    async def _execute(self, statement: str, values: Mapping[str, Any]) -> psycopg.AsyncCursor[Any]:
        text = qualified(statement, self._settings.schema)
        cursor = self._connection.cursor(binary=True)
        return await cursor.execute(text, {**values, "shift": self._settings.shift()})


class PostgresLink:
    """One use of a pool, for the tables of `part`.

    `unavailable` is what is raised when the server cannot be reached, or refuses. Errors within are
    told in its words; cancelled calls go on by themselves.
    """

    def __init__(
        self,
        settings: LinkSettings,
        *,
        part: Part,
        unavailable: type[WorkerError],
        pool: Pool | None = None,
    ) -> None:
        self.settings = settings
        self._pool = pool or Pool(settings)
        self._pool.add(part)
        self._part = part
        self._unavailable = unavailable
        self._latest: dict[Hashable, asyncio.Task[Any]] = {}  # of what goes in turn

    @classmethod
    def shared(
        cls, settings: LinkSettings, *, part: Part, unavailable: type[WorkerError]
    ) -> PostgresLink:
        """A link whose connections the whole process shares."""
        pool = Pool.shared(settings)
        return cls(settings, part=part, unavailable=unavailable, pool=pool)

    def __repr__(self) -> str:
        return f"PostgresLink({self._part.name!r}, {self._pool!r})"

    def again(self) -> PostgresLink:
        """One use more of the same connections; each use closes once."""
        return PostgresLink(
            self.settings, part=self._part, unavailable=self._unavailable, pool=self._pool.again()
        )

    def check(self) -> None:
        """See whether the server and its tables are in order, and block meanwhile.

        Raises ConfigError for a server that would lose what is in it, or lets nobody in, and is of
        no use then. One that cannot be reached is left for the first call, which looks again.
        """
        found: list[BaseException] = []

        async def open_one() -> None:
            async with self._pool.opened():
                pass

        def look() -> None:  # in a thread: the caller's may have a loop that runs
            try:
                asyncio.run(open_one())
            except (ConfigError, psycopg.Error, OSError, TimeoutError) as error:
                found.append(error)

        thread = threading.Thread(target=look, name="postgres-check")
        thread.start()
        thread.join()
        for error in found:
            if isinstance(error, ConfigError):
                self._pool.release()
                raise error
            if _is_refusal(error):
                self._pool.release()
                raise ConfigError(self._pool.told("lets nobody in", error)) from None

    async def rows(
        self,
        statement: str,
        values: Mapping[str, Any],
        *,
        full: type[WorkerError] | None = None,
        in_turn: Hashable = None,
    ) -> Sequence[Any]:
        """Run one statement as a transaction of its own, and return its rows.

        `full` is raised when the server's disk is full. What is `in_turn` goes after what was asked
        for with the same word before, also where nobody waits for that any more. Cancelled: it goes
        on, wholly or not.
        """
        return await self._kept(
            lambda connection: self._on(connection).rows(statement, values), full, in_turn
        )

    async def count(
        self,
        statement: str,
        values: Mapping[str, Any],
        *,
        full: type[WorkerError] | None = None,
        in_turn: Hashable = None,
    ) -> int:
        """As `rows`, for a statement that returns none: how many it has changed."""
        return await self._kept(
            lambda connection: self._on(connection).count(statement, values), full, in_turn
        )

    async def run(
        self, work: Callable[[Statements], Awaitable[T]], *, in_turn: Hashable = None
    ) -> T:
        """Do some statements one after the other, each a transaction of its own."""
        return await self._kept(lambda connection: work(self._on(connection)), None, in_turn)

    async def transact(
        self, work: Callable[[Statements], Awaitable[T]], *, in_turn: Hashable = None
    ) -> T:
        """Do some statements in one transaction; what `work` returns is committed by then.

        It may be called again, after a conflict, so it changes nothing but the database. Cancelled:
        it goes on, wholly or not.
        """

        async def transaction(connection: Connection) -> T:
            await connection.execute(_BEGIN)
            try:
                outcome = await work(Statements(connection, self.settings))
                await connection.execute("commit")
            except psycopg.Error:
                if not connection.closed and connection.info.transaction_status != IDLE:
                    await connection.execute("rollback")
                raise
            return outcome

        return await self._kept(transaction, None, in_turn)

    async def hear(self, channel: str, told: Callable[[str], None], *, quiet: float) -> None:
        """Listen to notifications on a connection of its own, for as long as it holds.

        Asks after `quiet` seconds without any whether the server is still there. Never returns;
        raises when the connection fails.
        """
        async with self._ours(None), self._pool.opened() as connection:
            with self._pool.limited(connection):
                await connection.execute(f'listen "{channel}"')
            told("")
            while True:
                async for note in connection.notifies(timeout=quiet):
                    told(note.payload)
                with self._pool.limited(connection):
                    await connection.execute("select 1")

    async def close(self) -> None:
        """Let go of this use; the last one waits for what is under way. Idempotent then."""
        await self._pool.close()

    def _on(self, connection: Connection) -> Statements:
        return Statements(connection, self.settings)

    async def _kept(
        self,
        work: Callable[[Connection], Awaitable[T]],
        full: type[WorkerError] | None,
        in_turn: Hashable,
    ) -> T:
        before = self._latest.get(in_turn)
        task = asyncio.create_task(self._worked(work, full, before))
        self._pool.keep(task)
        if in_turn is not None:
            self._latest[in_turn] = task
        task.add_done_callback(partial(self._done, in_turn))
        return await asyncio.shield(task)

    def _done(self, in_turn: Hashable, task: asyncio.Task[Any]) -> None:
        if self._latest.get(in_turn) is task:
            del self._latest[in_turn]
        if not task.cancelled():
            task.exception()  # whoever waited for it may be gone

    async def _worked(
        self,
        work: Callable[[Connection], Awaitable[T]],
        full: type[WorkerError] | None,
        before: asyncio.Task[Any] | None,
    ) -> T:
        """Do it; again, when the server has rolled it back only because of others at work."""
        if before is not None and not before.done():
            await asyncio.wait([before])
        async with self._ours(full), self._pool.taken() as connection:
            for left in reversed(range(TRIES_MAX)):
                try:
                    with self._pool.limited(connection):
                        return await work(connection)
                except _CONFLICTS:
                    if not left:
                        raise
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def _ours(self, full: type[WorkerError] | None) -> AsyncIterator[None]:
        try:
            yield
        except _FULL as error:
            raise (full or self._unavailable)(self._pool.told("has no room left", error)) from None
        except ConfigError as error:
            raise self._unavailable(str(error)) from None
        except (psycopg.Error, OSError, TimeoutError) as error:
            self._pool.doubt()
            raise self._unavailable(self._pool.told("cannot be used", error)) from None


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, psycopg.OperationalError) and any(
        words in str(error) for words in _REFUSED
    )

"""The connections to one PostgreSQL database: how many, for which event loop, and how they end.

Connections are opened as they are needed and kept for the event loop that asked for them. Every
statement has its time: when it is over, the connection's socket is shut down, which ends the wait
also where the network has gone silent. No state of a session is relied upon, so a proxy that pools
by transaction may stand in between.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg

from worker.core.errors import ConfigError
from worker.postgres.schema import SETTINGS, Part, bring_up, is_up, qualified, unfit
from worker.postgres.url import LinkSettings
from worker.shownurl import HIDDEN

Connection = psycopg.AsyncConnection[Any]

IDLE = psycopg.pq.TransactionStatus.IDLE
CONNECTIONS_MAX = 8  # at once for statements of one loop; more of them wait for their turn
_ALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}


class _Home:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(CONNECTIONS_MAX)
        self.free: list[Connection] = []
        self.working: set[asyncio.Task[Any]] = set()

    async def empty(self) -> None:
        """Close what is at rest, from any loop: nobody waits on it."""
        while self.free:
            await self.free.pop().close()


class Pool:
    """Connections to one database, in which the tables of some parts are.

    Use `Pool.shared` so that queue and store of a process have the same.
    """

    _open: dict[object, Pool] = {}  # noqa: RUF012  (the process's own)
    _lock = threading.Lock()

    def __init__(self, settings: LinkSettings) -> None:
        self.settings = settings
        self._key = (tuple(sorted(settings.options.items())), settings.schema)
        self._uses = 1
        self._parts: dict[str, Part] = {}
        self._is_sound = False
        self._homes: dict[asyncio.AbstractEventLoop, _Home] = {}
        self._left_behind: list[_Home] = []  # of loops that have ended, or not to be used again

    @classmethod
    def shared(cls, settings: LinkSettings) -> Pool:
        """The pool as this process has it, or a new one."""
        fresh = cls(settings)
        with cls._lock:
            pool = cls._open.setdefault(fresh._key, fresh)
            if pool is not fresh:
                pool._uses += 1
            return pool

    def __repr__(self) -> str:
        free = sum(len(home.free) for home in tuple(self._homes.values()))
        return f"Pool({self.settings.where}, {free} connections free)"

    def again(self) -> Pool:
        """Note one use more; each use closes once."""
        with self._lock:
            self._uses += 1
        return self

    def add(self, part: Part) -> None:
        """Have the tables of a part as well; they are looked at with the next connection."""
        if part.name not in self._parts:
            self._parts[part.name] = part
            self._is_sound = False

    def doubt(self) -> None:
        """After a failure: use none of this loop's connections at rest again, and look anew.

        They may be as dead and as silent, and each would cost its time; the server may have come
        back another.
        """
        self._is_sound = False
        home = self._home()
        if home.free:
            dead = _Home()
            dead.free, home.free = home.free, dead.free
            self._left_behind.append(dead)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Have `close` wait for a task of this loop."""
        working = self._home().working
        working.add(task)
        task.add_done_callback(working.discard)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Connection]:
        """A connection for some statements; it is kept if nothing is left open in it."""
        home = self._home()
        while self._left_behind:
            await self._left_behind.pop().empty()
        async with asyncio.timeout(3 * self.settings.answer_seconds):
            await home.places.acquire()
        try:
            connection = await self._sound(home)
            try:
                yield connection
            finally:
                is_idle = not connection.closed and connection.info.transaction_status == IDLE
                if is_idle and self._uses:
                    home.free.append(connection)
                else:
                    await connection.close()
        finally:
            home.places.release()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Connection]:
        """A connection of one's own, beside the others."""
        connection = await self._sound(_Home())
        try:
            yield connection
        finally:
            await connection.close()

    @contextmanager
    def limited(self, connection: Connection) -> Iterator[None]:
        """Let what waits for an answer fail when its time is over."""
        seconds = self.settings.answer_seconds
        timer = asyncio.get_running_loop().call_later(seconds, _sever, connection)
        try:
            yield
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Wait for what is under way in this loop, and let go of the connections, with the last use."""
        if not self.release():
            return
        home = self._homes.get(asyncio.get_running_loop())
        if home is not None and home.working:
            await asyncio.wait(home.working)
        for each in (*self._homes.values(), *self._left_behind):
            await each.empty()

    def release(self) -> bool:
        """Note one use less; true with the last one."""
        with self._lock:
            self._uses = max(0, self._uses - 1)
            if self._uses == 0 and self._open.get(self._key) is self:
                del self._open[self._key]
            return self._uses == 0

    def told(self, what: str, error: BaseException) -> str:
        """What to say of an error of the driver, without the password."""
        said = " ".join(str(error).split()) or type(error).__name__
        password = str(self.settings.options.get("password") or "")
        if password:
            said = said.replace(password, HIDDEN)
        return f"PostgreSQL at {self.settings.where} {what}: {said}"

    # --- connections -----------------------------------------------------------------------------

    def _home(self) -> _Home:
        loop = asyncio.get_running_loop()
        home = self._homes.get(loop)
        if home is None:
            with self._lock:
                closed = [each for each in self._homes if each.is_closed()]
                self._left_behind += [self._homes.pop(each) for each in closed]
                home = self._homes[loop] = _Home()
        return home

    async def _fresh(self, home: _Home) -> Connection:
        while home.free:
            connection = home.free.pop()
            if not connection.closed and not _has_spoken(connection):
                return connection
            await connection.close()
        return await self._connect()

    async def _sound(self, home: _Home) -> Connection:
        connection = await self._fresh(home)
        try:
            if not self._is_sound:
                await self._look(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _connect(self) -> Connection:
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

    async def _look(self, connection: Connection) -> None:
        async def execute(statement: str, values: Mapping[str, Any]) -> Sequence[Any]:
            text = qualified(statement, self.settings.schema)
            cursor = await connection.execute(text, values or None)
            return await cursor.fetchall() if cursor.description else []

        schema, parts = self.settings.schema, tuple(self._parts.values())
        try:
            with self.limited(connection):
                wrong = unfit(dict(await execute(SETTINGS, {})))
                if wrong:
                    raise ConfigError(wrong)
                for part in parts:
                    if not await is_up(execute, part, schema):
                        async with connection.transaction():
                            await bring_up(execute, part, schema)
        except psycopg.errors.InsufficientPrivilege as error:
            raise ConfigError(self.told("gives too few rights", error) + self._grant()) from None
        except ConfigError as error:
            raise ConfigError(f"PostgreSQL at {self.settings.where}: {error}") from None
        self._is_sound = len(parts) == len(self._parts)

    def _grant(self) -> str:
        user = self.settings.options.get("user", "the worker's role")
        schema = self.settings.schema
        return f'; as its owner: create schema if not exists "{schema}" authorization "{user}"'


def _has_spoken(connection: Connection) -> bool:
    """Whether a connection at rest has something to read: most often that it has ended."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _sever(connection: Connection) -> None:
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
    except (psycopg.Error, OSError):
        pass  # it is closed already

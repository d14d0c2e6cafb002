"""The one connection of a process to a broker, in a thread of its own, which no blocked loop stops.

Each connection is made by the first call that needs one, and nothing is sent again by itself: what
was told to have failed does not come later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, Self, TypeVar

from worker.core.errors import ConfigError, QueueUnavailable
from worker.queues.ownloop import OwnLoop

T = TypeVar("T")


class Refused(QueueUnavailable):
    """The server is there, and cannot be used as it is set up."""


class Losable(Protocol):
    """A connection; `lost` comes to its end with it."""

    @property
    def lost(self) -> asyncio.Future[None]:
        """Set when nobody can use it any more."""
        ...

    @property
    def lives(self) -> bool:
        """Whether it can still be used, as far as is known."""
        ...


C = TypeVar("C", bound=Losable)


class OwnLink(Generic[C]):
    """A connection whose calls may come from any event loop; an engine says how it opens and ends.

    Each use closes once. `on_lost` are called, in the link's thread, when a connection has ended.
    """

    def __init__(self, engine: str, where: str, *, prefix: str, answer_seconds: float) -> None:
        self.where = where
        self.prefix = prefix
        self.answer_seconds = answer_seconds
        self.on_lost: list[Callable[[], None]] = []
        self._connection: C | None = None
        self._attempt: asyncio.Task[C] | None = None
        self._uses = 1
        self._own = OwnLoop(f"loopworker-{engine}")

    def __repr__(self) -> str:
        connection = self._connection
        state = "open" if connection is not None and connection.lives else "not connected"
        return f"{type(self).__name__}({self.where}, {state})"

    async def _open(self) -> C:
        """Make a connection; to be given by the engine. Raises QueueUnavailable."""
        raise NotImplementedError

    async def _end(self, connection: C) -> None:
        """End a connection, whatever state it is in; to be given by the engine."""
        raise NotImplementedError

    # --- from any thread -------------------------------------------------------------------------

    def again(self) -> Self:
        """Note one use more."""
        self._uses += 1
        return self

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

    # --- in the link's thread --------------------------------------------------------------------

    async def connected(self) -> C:
        """The connection, made anew where there is none. Raises QueueUnavailable."""
        if self._connection is not None and self._connection.lives:
            return self._connection
        if self._attempt is None or self._attempt.done():  # one attempt for all who wait
            self._attempt = asyncio.create_task(self._connect())
        return await asyncio.shield(self._attempt)

    async def _connect(self) -> C:
        await self._disconnect()
        connection = await self._open()
        connection.lost.add_done_callback(self._tell_lost)
        self._connection = connection
        return connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._end(connection)

    def _tell_lost(self, _: Any) -> None:
        for each in list(self.on_lost):
            each()

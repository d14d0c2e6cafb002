"""Who waits for a task of a PostgreSQL queue, and how it hears that one has come.

A notification is a hint and no more: it is sent after the commit, may be lost, and does not pass a
proxy that pools by transaction. So whoever waits looks again anyway, soon where nothing was heard so
far. One notification at a time is under way from each process, and stands for all that came up
meanwhile: the server lets only one transaction that notifies commit at a time.
"""

from __future__ import annotations

import asyncio

from worker.awaiting import Bell
from worker.core.errors import WorkerError
from worker.postgres.link import PostgresLink

LOOK_SECONDS = 2.0  # between two looks while notifications are heard
LOOK_DEAF_SECONDS = 0.5
QUIET_SECONDS = 10.0  # without a notification: is the server still there?
BACK_SECONDS = 1.0  # until the next attempt to listen
_SEND = "select pg_notify(%(channel)s, name) from unnest(%(names)s::text[]) as name"


class Bells:
    """The bells of one link, for the event loop that listened first.

    `deaf_seconds` lie between two looks as long as nothing was heard.
    """

    def __init__(self, link: PostgresLink, *, deaf_seconds: float = LOOK_DEAF_SECONDS) -> None:
        self._link = link
        self._deaf_seconds = deaf_seconds
        self._channel = f"loopworker_{link.settings.schema}"
        self._bells: dict[str, set[Bell]] = {}
        self._to_ring: set[str] = set()
        self._sending: asyncio.Task[None] | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._hears = False

    def __repr__(self) -> str:
        return f"Bells({self._channel!r}, {'hears' if self._hears else 'deaf'})"

    @property
    def look_seconds(self) -> float:
        """How long a waiting claim may rely on hearing of a task."""
        return LOOK_SECONDS if self._hears else self._deaf_seconds

    def listen(self, name: str) -> Bell:
        """A bell that rings when a task of the queue `name` may have come."""
        if self._hearing is None:
            self._hearing = asyncio.create_task(self._hear())
        return Bell(self._bells.setdefault(name, set()))

    def ring(self, name: str) -> None:
        """Wake who waits for `name`, here at once and elsewhere soon."""
        self._ring_here(name)
        self._to_ring.add(name)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Send what is still to be sent, and hear nothing more. Idempotent."""
        if self._sending is not None:
            await asyncio.wait([self._sending])
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait([self._hearing])
            self._hearing = None

    def _ring_here(self, name: str) -> None:
        for bell in tuple(self._bells.get(name, ())):
            bell.ring()

    def _heard(self, name: str) -> None:
        # The first word comes from the link itself, when it begins to listen.
        self._hears = self._hears or bool(name)
        for each in (name,) if name else tuple(self._bells):
            self._ring_here(each)

    async def _send(self) -> None:
        try:
            while self._to_ring:
                names, self._to_ring = sorted(self._to_ring), set()
                await self._link.rows(_SEND, {"channel": self._channel, "names": names})
        except WorkerError:
            self._to_ring.clear()  # those who wait look again by themselves
        finally:
            self._sending = None

    async def _hear(self) -> None:
        while True:
            try:
                await self._link.hear(self._channel, self._heard, quiet=QUIET_SECONDS)
            except WorkerError:
                self._hears = False
            await asyncio.sleep(BACK_SECONDS)

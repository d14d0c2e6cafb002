"""What other programs publish into a queue on NATS, and how it becomes a task.

A stream of its own keeps it until a worker has written it down; of several workers each message is
given to one, and comes again when that one dies with it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from worker.core.errors import QueueFull, QueueUnavailable
from worker.queues.nats_names import intake_of, token_of
from worker.queues.nats_shelf import NatsShelf, unfit_stream
from worker.queues.nats_streams import Listening
from worker.queues.ownlink import Refused
from worker.queues.row_text import task_of

_ID = "Nats-Msg-Id"


class NatsIntake:
    """The stream beside a shelf that anybody may publish to."""

    def __init__(self, shelf: NatsShelf) -> None:
        self._shelf = shelf
        self._stream, self.subject = intake_of(shelf.name)
        self._share: Listening | None = None
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"NatsIntake({self.subject!r})"

    async def open(self) -> None:
        """Take in what comes from now on, and what waits; for as long as the connection lives."""
        async with self._opening:
            if self._share is None or not self._share.lives:
                self._share = await self._begin()

    async def _begin(self) -> Listening:
        streams = self._shelf.streams
        told = await streams.info(self._stream)
        if told is None:
            await streams.create(self._stream, self.subject, keeps_last=False)
        wrong = "" if told is None else unfit_stream(told[0]["config"], keeps_last=False)
        if wrong:
            raise Refused(f"NATS at {self._shelf.link.where}: stream {self._stream}: {wrong}")
        deliver = f"loopworker-taken.{token_of(self._shelf.name)}"
        return await streams.share(self._stream, self.subject, deliver, self._take)

    async def close(self) -> None:
        """Take nothing in any more."""
        share, self._share = self._share, None
        if share is not None:
            await self._shelf.streams.unlisten(share)

    async def _take(self, message: Any) -> None:
        number = f"{message.metadata.sequence.stream}-{message.metadata.timestamp.timestamp():.6f}"
        headers = message.headers or {}
        row = task_of(
            headers, message.data, task_id=headers.get(_ID) or number, now=self._shelf.now()
        )
        try:
            await self._shelf.add(row)
        except (QueueFull, QueueUnavailable):
            return  # it comes again, to whoever can write it then
        await message.ack()

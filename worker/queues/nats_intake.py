"""What other programs publish into a queue on NATS, and how it becomes a task.

A stream of its own keeps it until a worker has written it down; of several workers each message is
given to one, and comes again when that one dies with it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from worker.core.errors import QueueFull, QueueUnavailable
from worker.core.wireformat import TIMES_END
from worker.queues.memory_shelf import Row
from worker.queues.nats_link import Refused
from worker.queues.nats_rows import intake_of, token_of
from worker.queues.nats_shelf import NatsShelf, unfit_stream
from worker.queues.nats_streams import Listening
from worker.queues.reasons import readable

_ID = "nats-msg-id"


class NatsIntake:
    """The stream beside a shelf that anybody may publish to."""

    def __init__(self, shelf: NatsShelf) -> None:
        self._shelf = shelf
        self._stream, self.subject = intake_of(shelf.name)
        self._share: Listening | None = None

    def __repr__(self) -> str:
        return f"NatsIntake({self.subject!r})"

    async def open(self) -> None:
        """Take in what comes from now on, and what waits; for as long as the connection lives."""
        if self._share is not None and self._share.lives:
            return
        streams = self._shelf.streams
        told = await streams.info(self._stream)
        if told is None:
            await streams.create(self._stream, self.subject, keeps_last=False)
        wrong = "" if told is None else unfit_stream(told[0]["config"], keeps_last=False)
        if wrong:
            raise Refused(f"NATS: stream {self._stream}: {wrong}")
        deliver = f"loopworker-taken.{token_of(self._shelf.name)}"
        self._share = await streams.share(self._stream, self.subject, deliver, self._take)

    async def close(self) -> None:
        """Take nothing in any more."""
        share, self._share = self._share, None
        if share is not None:
            await self._shelf.streams.unlisten(share)

    async def _take(self, message: Any) -> None:
        number = f"{message.metadata.sequence.stream}-{message.metadata.timestamp.timestamp():.6f}"
        row = task_of(message.headers or {}, message.data, number=number, now=self._shelf.now())
        try:
            await self._shelf.add(row)
        except (QueueFull, QueueUnavailable):
            return  # it comes again, to whoever can write it then
        await message.ack()


def task_of(headers: Mapping[str, str], body: bytes, *, number: str, now: float) -> Row:
    """The task of a message. `number` is its id when it has none; what is no number counts as 0."""
    given = {key.lower(): value for key, value in headers.items()}
    due = max(now, _figure(given.get("not_before")))
    row = Row(
        id=readable(given.get(_ID) or number),
        body=body,
        priority=int(max(-100, min(100, _figure(given.get("priority"))))),
        number=time.time_ns(),
        enqueued_at=now,
        ready_at=due,
    )
    row.state = "delayed" if due > now else "ready"
    return row


def _figure(text: str | None) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and abs(value) < TIMES_END else 0.0

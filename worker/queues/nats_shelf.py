"""What one process knows of a queue on NATS: an index of rows, and rows changed by compare and swap.

The stream is the truth; each row is one message, and a change is written only when nobody else has
written since it was read. So a stale owner is refused by the server itself. All of this runs in the
thread of the connection.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from worker.awaiting import happened
from worker.core.errors import QueueFull, QueueUnavailable
from worker.queues.memory_shelf import Row, Shelf
from worker.queues.nats_link import Conflict, NatsLink
from worker.queues.nats_names import HEADER, stream_of, token_of
from worker.queues.nats_streams import Listening, NatsStreams
from worker.queues.ownlink import Refused
from worker.queues.row_text import bare, header_of, row_of

_TRIES = 100
_DOUBTS_MAX = 1000
_FRESH_SECONDS = 2.0  # so long what is known of a stream is believed without asking
Decide = Callable[[Row, str, float], str | None]


class NatsShelf(Shelf):
    """The rows of one queue. `shift` moves the clock, for tests."""

    def __init__(self, link: NatsLink, name: str, shift: Callable[[], float]) -> None:
        super().__init__()
        self.link = link
        self.streams = NatsStreams(link)
        self.name = link.prefix + name
        self.stream = stream_of(self.name)
        self.prefix = f"loopworker.{token_of(self.name)}"
        self.settled: dict[str, tuple[float, int]] = {}  # done rows: when, and their number
        self._shift = shift
        self._offset = -math.inf
        self._numbers: dict[str, int] = {}
        self._doubts: dict[str, int] = {}  # ids whose put failed, with the number of their row
        self._watch: Listening | None = None
        self._opening = asyncio.Lock()
        self._created = ""
        self._seen = 0
        self._synced_at = -_FRESH_SECONDS
        self._caught_up = asyncio.Event()
        link.on_lost.append(self.wake)

    def __repr__(self) -> str:
        return f"NatsShelf({self.stream!r}, {len(self.rows)} rows known)"

    @property
    def is_fresh(self) -> bool:
        """Whether the index may be believed for now."""
        watches = self._watch is not None and self._watch.lives
        return watches and time.monotonic() - self._synced_at < _FRESH_SECONDS

    def now(self) -> float:
        """The server's clock, wall seconds."""
        return time.monotonic() + self._offset + self._shift()

    async def sync(self) -> None:
        """Come to know all that was written before this call."""
        asked = time.monotonic()
        told = await self._told()
        self._reckon(asked, told[1])
        last = int(told[0]["state"]["last_seq"])
        async with self._opening:
            created = told[0]["created"]
            if self._watch is None or not self._watch.lives or self._created != created:
                await self._look(last, created=created)
        ends = asked + 2 * self.link.answer_seconds
        while self._seen < last:
            self._caught_up.clear()
            if not await happened(self._caught_up, within=max(0.0, ends - time.monotonic())):
                await self._give_up_watch()
                raise QueueUnavailable(f"NATS at {self.link.where} is behind")
        self._synced_at = asked

    async def opened(self) -> None:
        """Make sure that there is a stream, and that its clock is known."""
        if self._watch is None or not self._watch.lives:
            await self.sync()

    async def read(self, task_id: str) -> tuple[int, Row, str] | None:
        """A row as the server has it now, with its number and the token of its lease."""
        await self.opened()
        found = await self.streams.read(self.stream, self._subject(task_id))
        row = None if found is None else row_of(found[1].get(HEADER, ""), found[2])
        return None if found is None or row is None else (found[0], row[0], row[1].get("proof", ""))

    async def add(self, row: Row) -> bool:
        """Write a new row; False when there is one of that id.

        A row is also new when it was written by a call like this one that was told of a failure.
        """
        headers = {HEADER: header_of(row, proof="")}
        try:
            number = await self.streams.write(
                self._subject(row.id), headers, row.body, after=0, full=QueueFull
            )
        except Conflict:
            doubt = self._doubts.pop(row.id, None)
            found = None if doubt is None else await self.read(row.id)
            return found is not None and found[1].number == doubt
        except QueueUnavailable:
            self._doubts[row.id] = row.number
            if len(self._doubts) > _DOUBTS_MAX:
                del self._doubts[next(iter(self._doubts))]
            raise
        self._doubts.pop(row.id, None)
        self.learn(row, number)
        return True

    async def change(self, task_id: str, decide: Decide) -> Row | None:
        """Change a row by what `decide` makes of it, once, whoever else tries to.

        `decide` gets the row, the token of its lease and the time; it changes the row and returns
        the token to write, or None to leave it. Returns the row, or None when nothing was changed.
        """
        for _ in range(_TRIES):
            found = await self.read(task_id)
            if found is None:
                return None
            number, row, proof = found
            new = decide(row, proof, self.now())
            if new is None:
                return None
            headers = {HEADER: header_of(row, proof=new)}
            try:
                number = await self.streams.write(
                    self._subject(task_id), headers, row.body, after=number
                )
            except Conflict:
                continue
            self.learn(row, number)
            return row
        raise QueueUnavailable(f"task {task_id} is changed by too many at once")

    def learn(self, row: Row, number: int) -> None:
        """Take a row into the index, if it is newer than what is known. Its bytes are left out."""
        if self._numbers.get(row.id, 0) >= number:
            return
        self._numbers[row.id] = number
        self.leased.pop(row.id, None)
        self.rows.pop(row.id, None)
        self.settled.pop(row.id, None)
        if row.state == "done":
            self.settled[row.id] = (row.finished_at, number)
            return
        known = bare(row)
        self.rows[row.id] = known
        if row.state == "ready":
            self.show(known)
        elif row.state == "leased":
            self.leased[row.id] = known
            self.wake()
        elif row.state in ("delayed", "parked"):
            self.hide(known, state=row.state, until=row.ready_at)

    def put_back(self, row: Row) -> None:
        """Put a row back that was picked for a claim which failed."""
        if row.state == "ready" and self.rows.get(row.id) is row:
            self.show(row)

    def pick(self, now: float, most: int) -> list[Row]:
        """The rows to claim next: leases that ran out first."""
        self.wake_due(now)
        over = [row for row in self.leased.values() if row.lease_until <= now]
        picked = sorted(over, key=lambda row: row.lease_until)[:most]
        while len(picked) < most and (row := self.next_ready()) is not None:
            picked.append(row)
        return picked

    async def forget(self, task_id: str, number: int) -> bool:
        """Delete a settled row for good."""
        gone = await self.streams.forget(self.stream, number)
        self.settled.pop(task_id, None)
        self._numbers.pop(task_id, None)
        return gone

    async def mark(self) -> None:
        """Write a message that is no row, so that the last number of the stream can be seen."""
        subject = f"{self.prefix}.mark"
        found = await self.streams.read(self.stream, subject)
        try:
            await self.streams.write(subject, {}, b"", after=0 if found is None else found[0])
        except Conflict:
            return  # somebody else has marked it

    async def stop(self) -> None:
        """End the watch."""
        if self.wake in self.link.on_lost:
            self.link.on_lost.remove(self.wake)
        await self._give_up_watch()

    def _subject(self, task_id: str) -> str:
        return f"{self.prefix}.task.{token_of(task_id)}"

    async def _told(self) -> tuple[dict[str, Any], float]:
        told = await self.streams.info(self.stream)
        if told is None:
            await self.streams.create(self.stream, f"{self.prefix}.>", keeps_last=True)
            told = await self.streams.info(self.stream)
        if told is None:
            raise QueueUnavailable(f"NATS at {self.link.where} has no stream {self.stream}")
        wrong = unfit_stream(told[0]["config"], keeps_last=True)
        if wrong:
            raise Refused(f"NATS at {self.link.where}: stream {self.stream}: {wrong}")
        return told

    def _reckon(self, asked: float, server: float) -> None:
        # Of what is possible the least is believed, and more of it with each answer that came faster:
        # ages would shrink if the clock went back. Only a server that has set its own does that.
        least, most = server - time.monotonic(), server - asked
        self._offset = max(self._offset, least) if self._offset <= most else least

    async def _look(self, last: int, *, created: str) -> None:
        await self._give_up_watch()
        if self._created not in ("", created) or last < self._seen:  # the stream was made anew
            self._seen = 0
            for known in (self.rows, self.leased, self.settled, self._numbers):
                known.clear()
            self.ready.clear()
            self.hidden.clear()
        self._created = created
        self._watch = await self.streams.watch(
            self.stream, f"{self.prefix}.>", self._saw, after=self._seen
        )

    async def _give_up_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            await self.streams.unlisten(watch)

    def _saw(self, subject: str, number: int, headers: Mapping[str, str]) -> None:
        self._seen = max(self._seen, number)
        row = row_of(headers.get(HEADER, ""), b"")
        if row is not None and subject == self._subject(row[0].id):
            self.learn(row[0], number)
        self._caught_up.set()


def unfit_stream(config: Mapping[str, Any], *, keeps_last: bool) -> str:
    """Why a stream could lose tasks, or stand still with them; empty when it cannot."""
    wanted = {
        "storage": "file",
        "discard": "new",
        "retention": "limits" if keeps_last else "workqueue",
        "max_age": 0,
        "max_msgs": -1,
        "max_bytes": -1,  # an ack is a message as well, and a full stream would refuse it
        "max_msgs_per_subject": 1 if keeps_last else -1,
        "no_ack": False,
        "sealed": False,
        "deny_delete": False,
    }
    wrong = {key: config[key] for key, fine in wanted.items() if config.get(key, fine) != fine}
    if not wrong:
        return ""
    said = ", ".join(f"{key} is {value}" for key, value in wrong.items())
    fix = ", ".join(f"{key} {wanted[key]}" for key in wrong)
    return f"it may lose tasks or stand still ({said}); set {fix}, or delete the stream when empty"

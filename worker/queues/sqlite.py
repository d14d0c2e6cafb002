"""One file, one machine, the same promises.

Any program can put a task into the file, with the three columns that are needed:

    INSERT INTO task (id, queue, payload) VALUES ('my-id', 'tasks', '{"input": "…"}');

`ON CONFLICT DO NOTHING` makes it idempotent; a worker sees it within a tenth of a second. `priority`
(-100 to 100) and `ready_at` (seconds since the epoch, for a later start) may be given as well.

The file's clock is this machine's wall clock, guarded against falling back; the file must lie on a
local disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from worker.awaiting import kept
from worker.core.errors import QueueFull, QueueUnavailable, WorkerError
from worker.queues import sqlite_statements as sql
from worker.queues.holding import Holding
from worker.queues.places import history_of
from worker.queues.port import (
    MAX_DELIVERIES,
    Capabilities,
    DeadLetter,
    Depth,
    Lease,
    Place,
    Ticket,
)
from worker.queues.reasons import readable
from worker.queues.rows import NEVER, Claimed, lease_key, place_of
from worker.queues.sqlite_changes import PRUNE_BATCH, Rows
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import GuardedClock

T = TypeVar("T")
FEW = 16  # so many leases are soon claimed or extended, in the caller's thread
POLL_SECONDS = 0.1  # how often a waiting claim asks whether another process has put something


class SqliteQueue:
    """A queue in a SQLite file; see the port for what each method promises.

    Takes over one use of `file` and closes it. `clock` gives wall clock seconds.
    """

    capabilities = Capabilities()
    system = "sqlite"

    def __init__(
        self,
        file: SqliteFile,
        *,
        name: str = "tasks",
        max_deliveries: int = MAX_DELIVERIES,
        depth_max: int | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.max_deliveries = max_deliveries
        self.depth_max = depth_max
        self._file = file
        self._clock = clock or GuardedClock()
        self._held = Holding(self.nack)
        self._siblings: list[SqliteQueue] = []
        self._closed = False
        self._rows = Rows(
            name,
            max_deliveries=max_deliveries,
            depth_max=depth_max,
            clock=self._clock,
            ring=file.ring,
        )

    def __repr__(self) -> str:
        return f"SqliteQueue({self.name!r}, {len(self._held)} leases held, {self._file!r})"

    async def put(self, ticket: Ticket) -> bool:
        """See the port: add a task; False when its id is known."""
        return bool(await _ours(self._file.write(self._rows.put, ticket), full=QueueFull))

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """See the port: lease up to `limit` tasks, waiting for the first.

        Cancelled while the claim is under way: what it gets is handed back uncounted.
        """
        give_up_at = time.monotonic() + wait_seconds
        wish = (owner, lease_seconds, limit)
        leases = (await self._claim_once(wish)).leases
        while not leases and (left := give_up_at - time.monotonic()) > 0:
            bell = self._file.listen(self.name)
            try:
                leases, due_in, version, _ = await self._claim_once(wish)
                if not leases:
                    await self._wait(bell, min(left, max(due_in, 0.001)), version)
            finally:
                bell.put_away()
        return leases

    async def extend(self, lease: Lease, *, lease_seconds: float) -> None:
        """See the port: keep the lease from now."""
        await self._settle_lease(self._rows.extend, lease, lease_seconds)

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """See the port: keep many leases; returns the lost ones."""
        if not leases:
            return []
        keys = [lease_key(lease) for lease in leases]
        few = len(keys) <= FEW
        kept = await _ours(
            self._file.write(
                self._rows.extend_many, (keys, lease_seconds), synced=False, at_once=few
            )
        )
        return [lease for lease, found in zip(leases, kept, strict=True) if not found]

    async def ack(self, lease: Lease) -> None:
        """See the port: settle for good."""
        await self._settle_lease(self._rows.ack, lease)
        self._held.let_go(lease)

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port: hand back, hidden for the delay."""
        await self._settle_lease(self._rows.nack, lease, delay_seconds, counted, readable(reason))
        self._held.let_go(lease)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port: give the task up."""
        if not await self._write(self._rows.bury, (lease_key(lease), readable(reason))):
            raise self._held.lost(lease)
        self._held.let_go(lease)

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port: the newest dead letters first."""
        rows = await self._read(sql.DEAD, (self.name, limit))
        return [DeadLetter(*(*row[:7], history_of(row[7]))) for row in rows]

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port: tell of the tasks that claims give up."""
        self._held.listen(told)

    async def redrive(self, task_id: str) -> bool:
        """See the port: put a dead letter back."""
        return bool(await self._write(self._rows.redrive, task_id))

    async def cancel(self, task_id: str) -> bool:
        """See the port: remove a waiting task."""
        return bool(await self._write(self._rows.cancel, task_id))

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: make a parked task ready; here it is found by its id."""
        return bool(await self._write(self._rows.wake, (readable(task_id), afresh)))

    async def state(self, task_id: str) -> str | None:
        """See the port: where a task is."""
        values = {"now": self._clock(), "queue": self.name, "id": readable(task_id)}
        return next((str(state) for (state,) in await self._read(sql.STATE, values)), None)

    async def place(self, task_id: str) -> Place | None:
        """See the port: where a task is, and why."""
        values = {"now": self._clock(), "queue": self.name, "id": readable(task_id)}
        rows = await self._read(sql.PLACE, values)
        return place_of(rows[0]) if rows else None

    async def body(self, task_id: str) -> bytes | None:
        """See the port: what was put."""
        rows = await self._read(sql.BODY, (self.name, readable(task_id)))
        return bytes(rows[0][0]) if rows else None

    async def depth(self) -> Depth:
        """See the port: tasks by state."""
        now = self._clock()
        counts = dict.fromkeys(("ready", "delayed", "parked", "leased", "dead"), 0)
        oldest: dict[str, float] = {}
        for state, count, since in await self._read(sql.DEPTH, {"queue": self.name, "now": now}):
            counts[state] += count
            if since is not None:
                oldest[state] = min(since, oldest.get(state, NEVER))
        return Depth(
            **counts,
            oldest_ready_seconds=max(0.0, now - oldest["ready"]) if "ready" in oldest else None,
            oldest_leased_seconds=max(0.0, now - oldest["leased"]) if "leased" in oldest else None,
        )

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port: forget settled tasks, some hundred in each transaction."""
        before, total, gone = self._clock() - older_than_seconds, 0, PRUNE_BATCH
        while gone == PRUNE_BATCH:
            gone = await self._write(self._rows.prune, before)
            total += gone
        return total

    def sibling(self, name: str) -> SqliteQueue:
        """See the port: the queue of another name in the same file."""
        other = SqliteQueue(
            self._file.again(),
            name=name,
            max_deliveries=self.max_deliveries,
            depth_max=self.depth_max,
            clock=self._clock,
        )
        self._siblings.append(other)
        return other

    async def close(self) -> None:
        """See the port: hand unsettled leases back uncounted, let go of the file."""
        if self._closed:
            return
        self._closed = True
        for sibling in self._siblings:
            await sibling.close()
        held = [(lease, 0.0, False, "handed back") for lease in self._held.take_all()]
        back = [
            self._file.write(self._rows.nack, (lease_key(lease), *rest)) for lease, *rest in held
        ]
        # A lost lease needs no handing back, and a file that is out of reach gets none.
        await asyncio.gather(*back, return_exceptions=True)
        await self._file.close()

    # --- between the caller and the writer thread ------------------------------------------------

    async def _write(self, work: Any, argument: Any) -> Any:
        return await _ours(self._file.write(work, argument))

    async def _read(self, statement: str, values: Any) -> list[Any]:
        return await _ours(self._file.read(lambda c: c.execute(statement, values).fetchall()))

    async def _settle_lease(self, work: Any, lease: Lease, *values: Any) -> None:
        # If the machine dies before it is on the disk, the task is delivered once more.
        wish = (lease_key(lease), *values)
        if not await _ours(self._file.write(work, wish, synced=False, at_once=True)):
            raise self._held.lost(lease)

    async def _claim_once(self, wish: Any) -> Claimed:
        claiming = self._file.write(self._rows.claim, wish, synced=False, at_once=wish[2] <= FEW)
        claimed: Claimed = await _ours(kept(claiming, undo=self._hand_back))
        self._held.take(claimed.leases)
        self._held.tell_dead(claimed.dead)
        return claimed

    async def _hand_back(self, claimed: Claimed) -> None:
        self._held.tell_dead(claimed.dead)
        back = [(lease_key(lease), 0.0, False, "claim cancelled") for lease in claimed.leases]
        writes = [self._file.write(self._rows.nack, wish) for wish in back]
        await asyncio.gather(*writes, return_exceptions=True)  # else the leases run out

    async def _wait(self, bell: Any, seconds: float, version: int) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if await bell.wait(min(left, POLL_SECONDS)):
                return
            if await _ours(self._file.version()) != version:
                return


async def _ours(outcome: Awaitable[T], *, full: type[WorkerError] = QueueUnavailable) -> T:
    # A full disk refuses a submit; to whoever claims or settles it is an outage like any other.
    try:
        return await outcome
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise full("the disk or the file is full; nothing was written") from error
        raise QueueUnavailable(f"the queue's file cannot be used: {error}") from error

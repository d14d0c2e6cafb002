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
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from worker.core.errors import LeaseLost, QueueFull, QueueUnavailable, WorkerError
from worker.queues import sqlite_statements as sql
from worker.queues.port import MAX_DELIVERIES, Capabilities, DeadLetter, Depth, Lease, Ticket
from worker.queues.reasons import delivered_too_often, readable
from worker.queues.sqlite_room import Room
from worker.queues.sqlite_rows import Claimed, lease_key, lease_of
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import GuardedClock

T = TypeVar("T")
POLL_SECONDS = 0.1  # how often a waiting claim asks whether another process has put something
PRUNE_BATCH = 500  # rows in one transaction, so that nobody waits long for the lock
_NEVER = float("inf")


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
        self._held: dict[str, Lease] = {}
        self._siblings: list[SqliteQueue] = []
        self._closed = False
        self._room = Room(name, depth_max) if depth_max is not None else None
        self._listeners: list[Callable[[str], None]] = []

    def __repr__(self) -> str:
        return f"SqliteQueue({self.name!r}, {len(self._held)} leases held, {self._file!r})"

    async def put(self, ticket: Ticket) -> bool:
        """See the port: add a task; False when its id is known."""
        return bool(await _ours(self._file.write(self._put, ticket), full=QueueFull))

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
        await self._settle_lease(self._extend, lease, lease_seconds)

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """See the port: keep many leases; returns the lost ones."""
        if not leases:
            return []
        keys = [lease_key(lease) for lease in leases]
        kept = await self._write(self._extend_many, (keys, lease_seconds))
        return [lease for lease, found in zip(leases, kept, strict=True) if not found]

    async def ack(self, lease: Lease) -> None:
        """See the port: settle for good."""
        await self._settle_lease(self._ack, lease)
        self._held.pop(lease.token, None)

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """See the port: hand back, hidden for the delay."""
        await self._settle_lease(self._nack, lease, delay_seconds, counted, readable(reason))
        self._held.pop(lease.token, None)

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """See the port: give the task up."""
        await self._settle_lease(self._bury, lease, readable(reason))
        self._held.pop(lease.token, None)

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """See the port: the newest dead letters first."""
        rows = await self._read(sql.DEAD, (self.name, limit))
        return [DeadLetter(*(*row[:7], tuple(json.loads(row[7])))) for row in rows]

    def on_dead(self, told: Callable[[str], None]) -> None:
        """See the port: tell of the tasks that claims give up."""
        self._listeners.append(told)

    async def redrive(self, task_id: str) -> bool:
        """See the port: put a dead letter back."""
        return bool(await self._write(self._redrive, task_id))

    async def cancel(self, task_id: str) -> bool:
        """See the port: remove a waiting task."""
        return bool(await self._write(self._cancel, task_id))

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """See the port: make a parked task ready; here it is found by its id."""
        return bool(await self._write(self._wake, (readable(task_id), afresh)))

    async def state(self, task_id: str) -> str | None:
        """See the port: where a task is."""
        values = {"now": self._clock(), "queue": self.name, "id": readable(task_id)}
        return next((str(state) for (state,) in await self._read(sql.STATE, values)), None)

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
                oldest[state] = min(since, oldest.get(state, _NEVER))
        return Depth(
            **counts,
            oldest_ready_seconds=now - oldest["ready"] if "ready" in oldest else None,
            oldest_leased_seconds=now - oldest["leased"] if "leased" in oldest else None,
        )

    async def prune(self, *, older_than_seconds: float) -> int:
        """See the port: forget settled tasks, some hundred in each transaction."""
        before, total, gone = self._clock() - older_than_seconds, 0, PRUNE_BATCH
        while gone == PRUNE_BATCH:
            gone = await self._write(self._prune, before)
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
        held = [(lease, 0.0, False, "handed back") for lease in self._held.values()]
        back = [self._file.write(self._nack, (lease_key(lease), *rest)) for lease, *rest in held]
        # A lost lease needs no handing back, and a file that is out of reach gets none.
        await asyncio.gather(*back, return_exceptions=True)
        self._held.clear()
        await self._file.close()

    # --- between the caller and the writer thread ------------------------------------------------

    async def _write(self, work: Any, argument: Any) -> Any:
        return await _ours(self._file.write(work, argument))

    async def _read(self, statement: str, values: Any) -> list[Any]:
        return await _ours(self._file.read(lambda c: c.execute(statement, values).fetchall()))

    async def _settle_lease(self, work: Any, lease: Lease, *values: Any) -> None:
        if not await self._write(work, (lease_key(lease), *values)):
            self._held.pop(lease.token, None)
            raise LeaseLost(f"the lease of task {lease.id} is lost")

    async def _claim_once(self, wish: Any) -> Claimed:
        claiming = self._file.write(self._claim, wish, orphaned=self._hand_back)
        try:
            claimed: Claimed = await _ours(claiming)
        except asyncio.CancelledError:
            if claiming.done() and not claiming.cancelled() and not claiming.exception():
                self._hand_back(claiming.result())
            raise
        self._held.update({lease.token: lease for lease in claimed.leases})
        self._tell_dead(claimed.dead)
        return claimed

    def _tell_dead(self, ids: list[str]) -> None:
        for task_id in ids:
            for told in self._listeners:
                told(task_id)

    def _hand_back(self, claimed: Claimed) -> None:
        self._tell_dead(claimed.dead)
        for lease in claimed.leases:
            back = self._file.write(self._nack, (lease_key(lease), 0.0, False, "claim cancelled"))
            back.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _wait(self, bell: Any, seconds: float, version: int) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if await bell.wait(min(left, POLL_SECONDS)):
                return
            if await _ours(self._file.version()) != version:
                return

    # --- in the writer thread --------------------------------------------------------------------

    def _put(self, connection: sqlite3.Connection, tickets: list[Ticket]) -> list[Any]:
        now = self._clock()
        return [self._put_one(connection, ticket, now) for ticket in tickets]

    def _put_one(self, connection: sqlite3.Connection, ticket: Ticket, now: float) -> Any:
        task_id = readable(ticket.id)
        if self._room is not None and not self._room.is_left(connection):
            if connection.execute(sql.KNOWN, (self.name, task_id)).fetchone():
                return False
            return QueueFull(f"queue {self.name!r} holds {self.depth_max} tasks, its limit")
        due = max(now, ticket.not_before or now)
        state = "delayed" if due > now else "ready"
        row = (task_id, self.name, ticket.body, ticket.priority, state, due, now)
        added = connection.execute(sql.PUT, row).rowcount
        if added:
            if self._room is not None:
                self._room.left -= 1
            self._file.ring(self.name)
        return bool(added)

    def _claim(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        expires_from = time.monotonic()
        connection.execute(sql.WAKE, (self.name, now))
        return [self._claim_for(connection, wish, now, expires_from) for wish in wishes]

    def _claim_for(
        self, connection: sqlite3.Connection, wish: Any, now: float, expires_from: float
    ) -> Claimed:
        owner, lease_seconds, limit = wish
        leases: list[Lease] = []
        dead: list[str] = []
        values = {"queue": self.name, "now": now, "owner": owner, "until": now + lease_seconds}
        for statement in (sql.CLAIM_EXPIRED, sql.CLAIM_READY):
            while len(leases) < limit:
                values["limit"] = limit - len(leases)
                rows = connection.execute(statement, values).fetchall()
                rows.sort()  # RETURNING promises no order; the rank is in front
                for row in rows:
                    lease = lease_of(row, expires_from + lease_seconds)
                    if lease.deliveries > self.max_deliveries:
                        self._give_up(connection, lease, now)
                        dead.append(lease.id)
                    else:
                        leases.append(lease)
                if len(rows) < values["limit"]:
                    break
        if leases:
            return Claimed(leases, 0.0, 0, dead)
        due = connection.execute(sql.NEXT_DUE, {"queue": self.name}).fetchone()[0]
        version = connection.execute("pragma data_version").fetchone()[0]
        return Claimed(leases, _NEVER if due is None else due - now, version, dead)

    def _give_up(self, connection: sqlite3.Connection, lease: Lease, now: float) -> None:
        """Dead-letter a task that a claim found used up; this handing did not take place."""
        number, _ = lease_key(lease)
        reason = delivered_too_often(lease.deliveries - 1)
        connection.execute(sql.GIVE_UP, {"number": number, "reason": reason, "now": now})

    def _extend(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        return [
            connection.execute(sql.EXTEND, (now + seconds, number, token)).rowcount
            for (number, token), seconds in wishes
        ]

    def _extend_many(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        return [
            self._extend(connection, [(key, seconds) for key in keys]) for keys, seconds in wishes
        ]

    def _ack(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        return [self._ack_one(connection, key, now) for (key,) in wishes]

    def _ack_one(self, connection: sqlite3.Connection, key: tuple[int, int], now: float) -> bool:
        if connection.execute(sql.ACK, (now, *key)).rowcount:
            return True
        row = connection.execute(sql.SETTLED_BY, (key[0],)).fetchone()
        # Gone means acked and pruned: nothing is left that could be stale.
        return row is None or (row[0] == "done" and row[1] == key[1])

    def _nack(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        outcomes = []
        for (number, token), delay, counted, reason in wishes:
            hidden = "delayed" if counted else "parked"
            values = {
                "number": number,
                "token": token,
                "state": hidden if delay > 0 else "ready",
                # Handed back without fault, a task keeps its place in the queue.
                "ready_at": now + max(0.0, delay) if delay > 0 or counted else None,
                "uncounted": not counted,
                "now": now,
                "reason": reason,
            }
            outcomes.append(connection.execute(sql.NACK, values).rowcount)
            self._file.ring(self.name)
        return outcomes

    def _bury(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        now = self._clock()
        return [
            connection.execute(
                sql.BURY, {"number": number, "token": token, "reason": reason, "now": now}
            ).rowcount
            for (number, token), reason in wishes
        ]

    def _redrive(self, connection: sqlite3.Connection, ids: list[str]) -> list[Any]:
        self._file.ring(self.name)
        now = self._clock()
        return [
            connection.execute(sql.REDRIVE, (now, self.name, readable(task_id))).rowcount
            for task_id in ids
        ]

    def _wake(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        self._file.ring(self.name)
        now, outcomes = self._clock(), []
        for task_id, afresh in wishes:
            values = {"queue": self.name, "id": task_id, "now": now if afresh else None}
            woken = connection.execute(sql.WAKE_ONE, values).rowcount
            outcomes.append(woken)
            if not woken:
                connection.execute(sql.WAKE_LATER, values)
        return outcomes

    def _cancel(self, connection: sqlite3.Connection, ids: list[str]) -> list[Any]:
        now = self._clock()
        return [
            connection.execute(sql.CANCEL, (now, self.name, readable(task_id))).rowcount
            for task_id in ids
        ]

    def _prune(self, connection: sqlite3.Connection, bounds: list[float]) -> list[Any]:
        return [
            connection.execute(sql.PRUNE, (self.name, before, PRUNE_BATCH)).rowcount
            for before in bounds
        ]


async def _ours(outcome: Awaitable[T], *, full: type[WorkerError] = QueueUnavailable) -> T:
    # A full disk refuses a submit; to whoever claims or settles it is an outage like any other.
    try:
        return await outcome
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise full("the disk or the file is full; nothing was written") from error
        raise QueueUnavailable(f"the queue's file cannot be used: {error}") from error

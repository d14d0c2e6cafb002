"""The changes to the rows of one SQLite queue, made for many callers at once.

Each public method is the work of a transaction (`Bulk` of the file): it takes the wishes of all
who wait for the same, and returns their outcomes in that order.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Any

from worker.core.errors import QueueFull
from worker.queues import sqlite_statements as sql
from worker.queues.port import Lease, Ticket
from worker.queues.reasons import delivered_too_often, readable
from worker.queues.room import Room
from worker.queues.rows import NEVER, Claimed, lease_key, lease_of

PRUNE_BATCH = 500  # rows in one transaction, so that nobody waits long for the lock


class Rows:
    """The rows of the queue `name`. `ring` wakes those who wait for a task, after the commit."""

    def __init__(
        self,
        name: str,
        *,
        max_deliveries: int,
        depth_max: int | None,
        clock: Callable[[], float],
        ring: Callable[[str], None],
    ) -> None:
        self.name = name
        self.max_deliveries = max_deliveries
        self.depth_max = depth_max
        self._clock = clock
        self._tell = ring
        self._room = Room(name, depth_max) if depth_max is not None else None

    def __repr__(self) -> str:
        return f"Rows({self.name!r}, {self._room!r})"

    def put(self, connection: sqlite3.Connection, tickets: list[Ticket]) -> list[Any]:
        """Add tasks; False for an id that is known, QueueFull for one that finds no room."""
        now = self._clock()
        return [self._put_one(connection, ticket, now) for ticket in tickets]

    def _put_one(self, connection: sqlite3.Connection, ticket: Ticket, now: float) -> Any:
        task_id = readable(ticket.id)
        if self._room is not None and not self._is_left(connection, self._room):
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
            self._tell(self.name)
        return bool(added)

    def _is_left(self, connection: sqlite3.Connection, room: Room) -> bool:
        if room.is_unknown:
            values = {"queue": self.name, "limit": room.depth_max}
            room.counted(connection.execute(sql.WAITING, values).fetchone()[0])
        return room.left > 0

    def claim(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Lease tasks: of those whose lease is over first, then of those that are ready."""
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
        return Claimed(leases, NEVER if due is None else due - now, version, dead)

    def _give_up(self, connection: sqlite3.Connection, lease: Lease, now: float) -> None:
        """Dead-letter a task that a claim found used up; this handing did not take place."""
        number, _ = lease_key(lease)
        reason = delivered_too_often(lease.deliveries - 1)
        connection.execute(sql.GIVE_UP, {"number": number, "reason": reason, "now": now})

    def extend(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Keep leases from now; 0 for a lost one."""
        now = self._clock()
        return [
            connection.execute(sql.EXTEND, (now + seconds, number, token)).rowcount
            for (number, token), seconds in wishes
        ]

    def extend_many(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Keep many leases for each caller."""
        return [
            self.extend(connection, [(key, seconds) for key in keys]) for keys, seconds in wishes
        ]

    def ack(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Settle for good; False for a lost lease."""
        now = self._clock()
        return [self._ack_one(connection, key, now) for (key,) in wishes]

    def _ack_one(self, connection: sqlite3.Connection, key: tuple[int, int], now: float) -> bool:
        if connection.execute(sql.ACK, (now, *key)).rowcount:
            return True
        row = connection.execute(sql.SETTLED_BY, (key[0],)).fetchone()
        # Gone means acked and pruned: nothing is left that could be stale.
        return row is None or (row[0] == "done" and row[1] == key[1])

    def nack(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Hand back, hidden for a delay; 0 for a lost lease."""
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
            self._tell(self.name)
        return outcomes

    def bury(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Dead-letter; 0 for a lost lease."""
        now = self._clock()
        return [
            connection.execute(
                sql.BURY, {"number": number, "token": token, "reason": reason, "now": now}
            ).rowcount
            for (number, token), reason in wishes
        ]

    def redrive(self, connection: sqlite3.Connection, ids: list[str]) -> list[Any]:
        """Put dead letters back."""
        self._tell(self.name)
        now = self._clock()
        return [
            connection.execute(sql.REDRIVE, (now, self.name, readable(task_id))).rowcount
            for task_id in ids
        ]

    def wake(self, connection: sqlite3.Connection, wishes: list[Any]) -> list[Any]:
        """Make parked tasks ready, or note that they are to be woken."""
        self._tell(self.name)
        now, outcomes = self._clock(), []
        for task_id, afresh in wishes:
            values = {"queue": self.name, "id": task_id, "now": now if afresh else None}
            woken = connection.execute(sql.WAKE_ONE, values).rowcount
            outcomes.append(woken)
            if not woken:
                connection.execute(sql.WAKE_LATER, values)
        return outcomes

    def cancel(self, connection: sqlite3.Connection, ids: list[str]) -> list[Any]:
        """Remove waiting tasks."""
        now = self._clock()
        return [
            connection.execute(sql.CANCEL, (now, self.name, readable(task_id))).rowcount
            for task_id in ids
        ]

    def prune(self, connection: sqlite3.Connection, bounds: list[float]) -> list[Any]:
        """Forget some settled tasks of before a moment."""
        return [
            connection.execute(sql.PRUNE, (self.name, before, PRUNE_BATCH)).rowcount
            for before in bounds
        ]

"""Between the rows of a queue in an SQL database and leases."""

from __future__ import annotations

from typing import Any, NamedTuple

from worker.queues.places import place_from
from worker.queues.port import Lease, Place

NEVER = float("inf")


class Claimed(NamedTuple):
    """What one look for tasks found: leases, or how long until one may be there.

    `dead` are the ids of those that it gave up; `version` is that of a file at that moment.
    """

    leases: list[Lease]
    due_in: float
    version: int
    dead: list[str]


def lease_key(lease: Lease) -> tuple[int, int]:
    """The row number and the token of a lease."""
    number, _, token = lease.token.partition(":")
    return int(number), int(token)


def lease_of(row: Any, expires_at: float) -> Lease:
    """The lease of a row that a claim has returned."""
    _, number, token, task_id, body, deliveries, handings, enqueued_at, priority, lapses = row
    return Lease(
        id=task_id,
        body=body,
        deliveries=deliveries,
        handings=handings,
        token=f"{number}:{token}",
        enqueued_at=enqueued_at,
        expires_at=expires_at,
        priority=priority,
        lapses=lapses,
    )


def place_of(row: Any) -> Place:
    """Where a task is, from what PLACE returns."""
    written, state, ready_at, lease_until, owner, deliveries, last_line = row
    return place_from(
        written,
        state,
        ready_at=ready_at,
        lease_until=lease_until,
        owner=owner,
        deliveries=deliveries,
        last_line=last_line,
    )

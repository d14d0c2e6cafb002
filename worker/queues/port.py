"""The contract of a queue, sentence by sentence.

Each numbered sentence is a test in `worker/testing/queue_suite.py`, run against every engine.
A queue message is a wake-up ticket; the journal is the truth. Delivery is at least once: the suite
also runs with duplicate deliveries switched on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from worker.queues.reasons import is_given_up

# Each point of priority is worth this much waiting: a task of priority 0 that has waited ten
# minutes goes before a fresh one of priority 10, so that nothing starves (Q14).
AGEING_SECONDS = 60.0
MAX_DELIVERIES = 5


@dataclass(frozen=True, slots=True)
class Ticket:
    """What is put: `body` is the task as the caller sent it, `id` its deduplication key.

    `not_before` is wall clock seconds since the epoch; priority -100 to 100, higher first.
    """

    id: str
    body: bytes
    priority: int = 0
    not_before: float | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one task until `expires_at` (monotonic seconds of this process).

    `deliveries` counts the counted handings of this task, this one included; `handings` counts all
    of them, so that a redelivery is recognisable even when it was not counted. `lapses` counts the
    owners that let the lease of this task run out: they may have died of it. `token` is the
    engine's own proof of ownership and is opaque.
    """

    id: str
    body: bytes
    deliveries: int
    handings: int
    token: str
    enqueued_at: float
    expires_at: float
    priority: int = 0
    lapses: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task is and why, for a person. `state` is a word of `depth`, or done.

    `until` is when a delayed or parked task is due or when a lease runs out, `since` when a ready
    one became ready, wall clock seconds; `owner` is who has the lease. `note` is what was said when
    the task was last handed back, empty before that.
    """

    state: str
    since: float | None = None
    until: float | None = None
    owner: str = ""
    deliveries: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Depth:
    """How many tasks are in which state; ages in seconds, None when there are none."""

    ready: int = 0
    delayed: int = 0
    leased: int = 0
    parked: int = 0
    dead: int = 0
    oldest_ready_seconds: float | None = None
    oldest_leased_seconds: float | None = None

    def __add__(self, other: Depth) -> Depth:
        """The depth of two queues together."""
        return Depth(
            self.ready + other.ready,
            self.delayed + other.delayed,
            self.leased + other.leased,
            self.parked + other.parked,
            self.dead + other.dead,
            _older(self.oldest_ready_seconds, other.oldest_ready_seconds),
            _older(self.oldest_leased_seconds, other.oldest_leased_seconds),
        )


def _older(one: float | None, other: float | None) -> float | None:
    return max((age for age in (one, other) if age is not None), default=None)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A task that was given up: the original bytes, why, and its history."""

    id: str
    body: bytes
    reason: str
    deliveries: int
    enqueued_at: float
    died_at: float
    last_owner: str = ""
    history: tuple[str, ...] = ()

    @property
    def is_given_up(self) -> bool:
        """Whether a claim gave the task up, and not the word of its owner."""
        return is_given_up(self.reason)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine cannot do; the only gaps allowed are those of docs/decisions.

    `extends`: a lease outlives its connection. `refuses_stale`: who lost a lease is told so.
    `deduplicates`: an id is known for as long as the engine remembers it. `tells_oldest`: `depth`
    knows since when the oldest task is ready. `finds`: a task that waits can be found by its id.
    """

    extends: bool = True
    refuses_stale: bool = True
    deduplicates: bool = True
    tells_oldest: bool = True
    finds: bool = True


class Queue(Protocol):
    """Where tasks wait.

    Q1 what is put is what is claimed, byte for byte. Q2 a claim hides the task for
    `lease_seconds`. Q3 `extend` counts from now. Q4 after expiry it can be claimed again, with
    `deliveries` + 1. Q5 `ack` is final and idempotent. Q6 settling or extending a lost lease
    raises `LeaseLost` and changes nothing. Q7 `nack(delay)` hides for the delay. Q8
    `nack(counted=False)` leaves `deliveries` alone. Q9 a task with more than `max_deliveries` is
    dead-lettered by `claim`, before any code of ours runs, with a reason that says how often it
    was delivered. Q10 a dead letter keeps the original bytes, reason and history; `redrive`
    restores it with a fresh count. Q11 any bytes can be put and claimed: undecodable ones are the
    consumer's business. Q12 one id, one task, for as long as the engine remembers it: `put` of a
    known id returns False. Q13 a ticket with `not_before` is not claimable before it. Q14 higher
    priority first, first in first out among equals, of all tasks or of those that belong together
    (of one session); no starvation: a ready task rises with its waiting time. Q15 `depth` tells ready, delayed, leased, parked and dead apart. Q16 a cancelled
    `claim` loses nothing. Q17 only one clock matters, the engine's. Q18 an outage raises
    `QueueUnavailable`; afterwards work goes on without loss. Q19 `close` hands unsettled leases
    back uncounted. Q20 delivery is at least once. Q21 `claim` returns at most `limit` leases, and
    an empty list after `wait_seconds` + 1 s at the latest. Q22 `cancel` removes a waiting task
    and returns True; a leased or unknown one is left alone and returns False. Q23 `extend_many`
    extends those that are still held and returns the lost ones. Q24 queues of different names on
    one engine keep their tasks apart. Q25 with `depth_max` waiting tasks, `put` raises `QueueFull`
    and writes nothing; a known id is still told apart from a full queue. Q26 `prune` forgets
    settled tasks and, with them, their ids; waiting, leased and dead ones stay. Q27 `state` tells
    where a task is, in the words of `depth`; `done` once settled, None when the engine knows it not.
    Q28 each lease that ran out adds one to `lapses`; nothing takes it away again. Q29 `body` shows
    what was put, until the task is settled. Q30 `wake` makes a parked task ready at once, in the
    place that it had when it was put, and returns True; any other task is left alone. Q31 a task
    that is woken while it is leased is ready as soon as that lease parks it: no wake is missed. Q32 who listens by
    `on_dead` is told of each task that a claim of this queue object gives up, as soon as it has,
    also while that claim waits on. Q33 `extend_many` may be called from the event loop of another
    thread, and comes back while that of the queue is blocked. Q34 `place` agrees with `state`,
    and tells since when or until when that is, whose the lease is, and why the task came back.

    A lease whose time has run out counts as ready. `nack(counted=False)` with a delay parks,
    `nack(counted=True)` with a delay postpones; `depth` tells the two apart.
    """

    capabilities: Capabilities
    name: str  # the queue's name: the label of metrics, the name of spans
    system: str  # memory, sqlite, postgresql, redis, rabbitmq, nats

    async def put(self, ticket: Ticket) -> bool:
        """Add a task; False when its id is known already.

        Durable on return. Raises QueueFull or QueueUnavailable. Cancelled: either wholly there or
        not at all.
        """
        ...

    async def claim(
        self, *, owner: str, lease_seconds: float, wait_seconds: float, limit: int = 1
    ) -> list[Lease]:
        """Lease up to `limit` ready tasks, waiting up to `wait_seconds` for the first.

        Cancelled: what was claimed becomes claimable again after the lease at the latest.
        """
        ...

    async def extend(self, lease: Lease, *, lease_seconds: float) -> None:
        """Keep the lease for `lease_seconds` from now. Raises LeaseLost."""
        ...

    async def extend_many(
        self, leases: Sequence[Lease], *, lease_seconds: float
    ) -> Sequence[Lease]:
        """Keep many leases for `lease_seconds` from now, in one go; returns those that are lost.

        One heartbeat for a whole worker. May be called from another thread's event loop.
        """
        ...

    async def ack(self, lease: Lease) -> None:
        """Settle for good. Idempotent for the owner; raises LeaseLost if provably stale."""
        ...

    async def nack(self, lease: Lease, *, delay_seconds: float, counted: bool, reason: str) -> None:
        """Hand the task back, hidden for `delay_seconds`. Raises LeaseLost."""
        ...

    async def dead_letter(self, lease: Lease, *, reason: str) -> None:
        """Give the task up, keeping its bytes, reason and history. Raises LeaseLost."""
        ...

    async def dead(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """List dead letters, the newest first."""
        ...

    def on_dead(self, told: Callable[[str], None]) -> None:
        """Call `told` with the id of each task that a claim made here dead-letters, in the loop.

        It must be quick and never raise. A help for whoever has to answer for the dead: what a
        crash keeps from being told lies in the dead letters all the same.
        """
        ...

    async def redrive(self, task_id: str) -> bool:
        """Put a dead letter back with a fresh count; False when there is none of that id."""
        ...

    async def cancel(self, task_id: str) -> bool:
        """Remove a task that still waits; False when it is leased, done or unknown."""
        ...

    async def wake(self, task_id: str, *, afresh: bool = False, body: bytes | None = None) -> bool:
        """Make a parked task ready at once; False when it is not parked (see Q31, if it is leased).

        What it waited for has come. `afresh` gives it the place of a task that has become due by
        itself just now, instead of its old one. `body` is the task as it was put: an engine that
        cannot find a parked task by its id puts it beside the parked one, and the journal takes
        care of the second delivery.
        """
        ...

    async def state(self, task_id: str) -> str | None:
        """Where a task is: ready, delayed, leased, parked, dead or done.

        None when the engine does not know the task, or cannot look for one.
        """
        ...

    async def place(self, task_id: str) -> Place | None:
        """Where a task is, and why it waits there; for whoever asks after it.

        None when the engine does not know the task, or cannot look for one.
        """
        ...

    async def body(self, task_id: str) -> bytes | None:
        """What was put, of a task that is not settled yet.

        None when it is settled or unknown, or when the engine cannot look for one.
        """
        ...

    async def depth(self) -> Depth:
        """Count tasks by state, with the ages of the oldest."""
        ...

    async def prune(self, *, older_than_seconds: float) -> int:
        """Forget settled tasks (and so their deduplication) older than that; returns how many.

        Dead letters stay: nobody but a person may give them up.
        """
        ...

    def sibling(self, name: str) -> Queue:
        """Open the queue of another name on the same engine, sharing the connection.

        For `reply_to: queue:<name>`. It has the same limits, and closes with this one.
        """
        ...

    async def close(self) -> None:
        """Hand unsettled leases back uncounted and let go of everything. Idempotent."""
        ...

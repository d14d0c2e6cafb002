"""The contracts of the journal, the results, the sessions and the last good values.

Each numbered sentence is a test of `worker/testing/store_suite.py` (J8, J20: store_pruning;
J18: store_views; J22, J23: store_renewing; S: store_sessions, session_line), run against every engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from worker.core.events import Event
from worker.core.history import RawMessage, is_paired
from worker.core.task import Result
from worker.store.mailbox import Mailbox
from worker.store.peers import Peers

BEYOND_ALL_EVENTS = 2**53  # a view after this number holds no events

# Of these run ids, which must not be forgotten yet?
Keeper = Callable[[Sequence[str]], Awaitable[Collection[str]]]


# How long a session is kept for a run after the moment at which the run should have been taken up
# again (its lease ran out, its delay was over).
HOLD_PATIENCE_SECONDS = 60.0
# How long a free session waits for the first in the line, once somebody behind it wants it; and how
# long a place in the line is kept altogether.
LINE_PATIENCE_SECONDS = 60.0
LINE_KEPT_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class SessionClaim:
    """The wish of a run to have a session. The smaller `place` goes first, as in the queue.

    `or_without`: when the session is busy, the run goes on without it and leaves the line.
    """

    id: str
    tenant: str = ""
    place: float = 0.0
    or_without: bool = False


@dataclass(slots=True)
class SessionHold:
    """A session that a run has. `version` is that of the conversation that it has read.

    The write that lets go notes in `next_run` who waits first, and in `size_bytes` how much is
    stored, if something was saved.
    """

    id: str
    tenant: str
    version: int
    next_run: str | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SessionWait:
    """What a run waits for: a session, the run that has it (None: it is free), how many in front."""

    session: str
    holder: str | None
    ahead: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What a run adds to the conversation: kept for `ttl_seconds` after the last save.

    `bytes_max` bounds what is stored of the whole conversation. Raises ValueError for a call
    without its result: nothing could be sent to a model after it.
    """

    messages: tuple[RawMessage, ...]
    ttl_seconds: float
    bytes_max: int

    def __post_init__(self) -> None:
        if not is_paired(self.messages):
            raise ValueError("a turn in which a call and its result are not paired")


@dataclass(slots=True)
class Run:
    """An opened run: proof of ownership for every later write.

    `epoch` is the fence. `next_seq` is the number of the next event and is kept by the journal.
    So is `cancel_requested`: every write that comes back notes in it whether somebody has asked
    for this task to stop, so that a step costs no read of its own. `closing` is true as soon as
    the owner begins to let go, by `finish` or `release`: a renewal that crosses it finds the run
    gone, and nothing is lost. `redrives` counts the results of this task that were forgotten before.
    """

    id: str
    epoch: int
    owner: str
    next_seq: int
    cancel_requested: bool = False
    redrives: int = 0
    session: SessionHold | None = None
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """What `open` found: the events so far, in order; or the result of a run that has ended.

    `history` is the conversation of the session, for a run without events: one that has begun
    has read it already. Anybody can write into the file, so it may hold anything; `unreadable` turns
    of it were left out.
    """

    run: Run | None
    events: tuple[Event, ...] = ()
    result: Result | None = None
    taken_over: bool = False  # an earlier owner had not let go
    history: tuple[RawMessage, ...] = ()
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as an operator sees it. `state`: open | released | finished; events as JSON objects.

    `lease_left`: seconds for which its owner has it yet; 0 when the lease is over, or there is none.
    """

    id: str
    state: str
    epoch: int
    owner: str
    created_at: float
    updated_at: float
    events: tuple[dict[str, Any], ...] = ()
    result: Result | None = None
    redrives: int = 0
    lease_left: float = 0.0


class Journal(Protocol):
    """Append-only events of each run, and its one result.

    J1 `open` returns events in order and a new, larger epoch. J2 an older epoch's `append`,
    `renew`, `release` or `finish` raises `LeaseLost` and writes nothing. J3 on return a write is
    durable (kill -9). J4 a batch is atomic: no gap, no double. J5 `finish` is terminal and
    idempotent for the owner; a later `open` returns the result and no run. J6 events of older
    versions load; an unknown version names itself. J7 large payloads come back whole. J8 `prune`
    forgets finished runs older than asked, and no others. J9 10,000 events load in under 2 s.
    J10 `open` while another live owner renews raises `RunBusy` with the seconds left. J11 after
    `release`, or when the owner's lease has run out, `open` succeeds at once. J12 of many that
    race to open one wins. J13 a cancelled `append` is wholly there or not at all. J14 an outage
    raises `StoreUnavailable`. J15 `put_result` ends a task that has no result yet and fences whoever
    runs it; with a result it returns False and writes nothing. J16 a cancel that was asked for is
    told by `cancel_requested` and by the next write of the owner, also when it was asked before
    the run began; a finished run cannot be cancelled. J17 `reopen` forgets the result and the
    cancel, keeps the events, and is counted in the `redrives` of the next run and of `view`; it
    leaves a result of another number than it is asked for. J18 `view` shows the events after a number and how long the
    owner has the run yet, `recent` the runs that changed last (to the second). J19 `renew_many` renews the runs that are still owned and
    returns the lost ones. J20 `prune` asks `kept` for every run that it could forget, and leaves
    those that it names; a run that changes meanwhile stays. J21 an `append` that is not `synced`
    is fenced, in order and durable as in J3 like any other. J22 `renew_many` and `cancelled_among`
    may be called from the event loop of another thread, and come back while that of the journal is
    blocked. J23 `cancelled_among` names those of some tasks that were asked to stop. J24 when a
    cancelled `open` has returned, the run is as free as before.

    Where the engine can do that, what is `synced`, a result and a turn outlive the machine too, on
    return, and with them all that was written to the run before.

    Another owner is one with another name: the same owner may open its run again at any time, and
    fences its own older epoch by that.
    """

    system: str  # memory, sqlite, postgresql, redis

    async def open(
        self, run_id: str, *, owner: str, lease_seconds: float, session: SessionClaim | None = None
    ) -> Opened:
        """Become the owner of a run, creating it if need be; fences every older owner.

        Raises RunBusy, and SessionBusy when it cannot have its `session`.
        """
        ...

    async def append(self, run: Run, events: Sequence[Event], *, synced: bool = True) -> None:
        """Write events after the last one, all or none. Raises LeaseLost.

        Not `synced`: they stand for nothing that could not be found out again, so they need not
        outlive the machine before this returns.
        """
        ...

    async def renew(self, run: Run, *, lease_seconds: float) -> None:
        """Stay the owner for `lease_seconds` from now. Raises LeaseLost."""
        ...

    async def renew_many(self, runs: Sequence[Run], *, lease_seconds: float) -> Sequence[Run]:
        """Stay the owner of many runs, in one go; returns those that are lost.

        One heartbeat for a whole worker. May be called from another thread's event loop.
        """
        ...

    async def release(
        self, run: Run, *, hold_seconds: float | None = None, turn: Turn | None = None
    ) -> None:
        """Let go without ending the run, so that another owner may open it at once.

        Its session stays its own for `hold_seconds`, when it should be taken up again; with None
        the next one may have it, after `turn`. Raises LeaseLost, SessionConflict.
        """
        ...

    async def finish(
        self, run: Run, events: Sequence[Event], result: Result, *, turn: Turn | None = None
    ) -> None:
        """Append the last events, store the result and save the turn, in one transaction.

        Lets go of the session. Raises LeaseLost, SessionConflict.
        """
        ...

    async def put_result(self, result: Result) -> bool:
        """Store the result of a task that never ran (rejected, cancelled while waiting, poison).

        False, and nothing is written, when the task has a result already.
        """
        ...

    async def result(self, task_id: str) -> Result | None:
        """The result of a task, or None while there is none."""
        ...

    async def request_cancel(self, task_id: str) -> bool:
        """Note that a task should stop; its owner sees it at the next step. False if finished."""
        ...

    async def cancel_requested(self, task_id: str) -> bool:
        """Whether somebody asked for this task to stop."""
        ...

    async def cancelled_among(self, task_ids: Sequence[str]) -> Collection[str]:
        """Those of these tasks that somebody asked to stop; cheap, for it is asked every moment.

        May be called from another thread's event loop.
        """
        ...

    async def reopen(self, task_id: str, *, redrives: int | None = None) -> None:
        """Forget a result so that a redriven task may run again; its events stay.

        Of a task without a result there is nothing to forget, and nothing is counted. With
        `redrives`, only the result of before which so many were forgotten: who asks twice, or is
        heard late, must not cost a newer one.
        """
        ...

    async def view(self, task_id: str, *, after_seq: int = -1) -> RunView | None:
        """A run for operators and watchers, with the events after `after_seq`.

        Each event is `{"seq": …, "v": …, "kind": …, "data": {…}}` as it was written.
        """
        ...

    async def recent(self, *, limit: int = 50) -> Sequence[RunView]:
        """The runs that changed last, newest first, without their events."""
        ...

    async def prune(self, *, older_than_seconds: float, kept: Keeper | None = None) -> int:
        """Forget finished runs and results older than that; returns how many.

        `kept` is asked with the ids that are old enough, some hundred at once: a task that a
        queue may yet deliver needs its journal, or its effects would be repeated. What it raises
        ends the pruning.
        """
        ...

    async def close(self) -> None:
        """Let go of everything. Idempotent."""
        ...


class Sessions(Protocol):
    """Conversations across tasks, and who may have one now. `Journal.open` takes them, with a
    claim; `finish` and `release` let go of them.

    S1 a save is a compare-and-set: when the session is not at the version that the run has read,
    `SessionConflict` tells the present one and nothing is written. S2 only whole turns can be
    saved: each call with its result, in order. S3 what `ttl_seconds` after the last save finds is
    an empty session; `prune` forgets it, unless somebody has it. S4 one run has a session at a
    time: `open` of another raises `SessionBusy`, and does not begin. S5 the hold ends with
    `finish`, `put_result`, and `release` without `hold_seconds`. S6 a run that was released with
    `hold_seconds`, or whose lease ran out, keeps it for `HOLD_PATIENCE_SECONDS` beyond that, for its
    next owner; who takes it afterwards fences the run that had it. S7 who was told to come back
    is in a line, by place and then by arrival: nobody gets the session before those in front,
    until they have had it, have ended, or have kept a free session waiting for somebody for
    `LINE_PATIENCE_SECONDS`. S8 turn and
    result are there together or not at all, and a run that has ended adds nothing more. S9 a run has
    one turn: a later one replaces it, at the end. S10 `open` of a run without events returns the
    turns in the order in which they were saved; of one with events, none. S11 beyond `bytes_max`
    the oldest turns leave; the newest stays. S12 tenants have nothing in common. S13 of many that
    race for a session, on whatever store, one gets it. S14 the write that lets go notes who waits
    first. S15 a run without a claim has nothing to do with any session. S16 messages of any size
    and with any character come back whole. S17 `conversation` shows what the next run would read.
    S18 `enlist` puts a run into the line before it comes; of one that has been opened it changes
    nothing. S19 a claim `or_without` is never busy: without the session the run leaves the line. S20
    `waits` tells of a run in the line who has its session and how many stand in front.
    """

    async def enlist(self, run_id: str, session: SessionClaim) -> None:
        """Keep a place in the line for a run that a queue will deliver. Raises StoreUnavailable.

        Queues with several consumers deliver in order and begin in any: this keeps the order.
        """
        ...

    async def waits(self, run_id: str) -> SessionWait | None:
        """The session that a run waits for; None when it stands in no line."""
        ...

    async def conversation(self, session_id: str, *, tenant: str = "") -> Sequence[RawMessage]:
        """The messages of a session, oldest first; empty when there is none, or it is too old."""
        ...


async def numbered(journal: Journal, result: Result) -> Result:
    """The result of a task that did not run, with the number that its redrives give it.

    Raises StoreUnavailable.
    """
    view = await journal.view(result.task_id, after_seq=BEYOND_ALL_EVENTS)
    return replace(result, redrives=view.redrives) if view and view.redrives else result


@dataclass(frozen=True, slots=True)
class Remembered:
    """A last good value and when it was stored (wall clock seconds)."""

    value: str
    at: float


class LastGood(Protocol):
    """The last good value of each read call, for the stale rung of the fallback ladder.

    Only live results are stored. Bounded; the oldest leave first. What is remembered may be lost
    in a crash: it is a help, not a fact.
    """

    async def remember(self, key: str, value: str, *, at: float) -> None:
        """Store the value, replacing an older one. A failure to store is not an error."""
        ...

    async def recall(self, key: str) -> Remembered | None:
        """The value, however old; the caller judges its age."""
        ...


class Store(Journal, Sessions, LastGood, Protocol):
    """Everything that must survive a crash, apart from the queue, behind one connection."""

    mail: Mailbox

    @property
    def peers(self) -> Peers:
        """What the workers on this store tell each other."""
        ...

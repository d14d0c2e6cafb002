"""The contracts of the journal, the results, the sessions and the last good values.

Each numbered sentence is a test of `worker/testing/store_suite.py` (J8, J20: store_pruning), run against every engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from worker.core.events import Event
from worker.core.task import Result
from worker.store.mailbox import Mailbox

BEYOND_ALL_EVENTS = 2**53  # a view after this number holds no events

# Of these run ids, which must not be forgotten yet?
Keeper = Callable[[Sequence[str]], Awaitable[Collection[str]]]


@dataclass(slots=True)
class Run:
    """An opened run: proof of ownership for every later write.

    `epoch` is the fence. `next_seq` is the number of the next event and is kept by the journal.
    So is `cancel_requested`: every write that comes back notes in it whether somebody has asked
    for this task to stop, so that a step costs no read of its own. `redrives` counts the results
    of this task that were forgotten before.
    """

    id: str
    epoch: int
    owner: str
    next_seq: int
    cancel_requested: bool = False
    redrives: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """What `open` found: the events so far, in order; or the result of a run that has ended."""

    run: Run | None
    events: tuple[Event, ...] = ()
    result: Result | None = None
    taken_over: bool = False  # an earlier owner had not let go


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as an operator sees it. `state`: open | released | finished; events as JSON objects."""

    id: str
    state: str
    epoch: int
    owner: str
    created_at: float
    updated_at: float
    events: tuple[dict[str, Any], ...] = ()
    result: Result | None = None
    redrives: int = 0


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
    cancel, keeps the events, and is counted in the `redrives` of the next run and of `view`. J18 `view` shows the events after a number, `recent` the runs
    that changed last (to the second). J19 `renew_many` renews the runs that are still owned and
    returns the lost ones. J20 `prune` asks `kept` for every run that it could forget, and leaves
    those that it names; a run that changes meanwhile stays.

    Another owner is one with another name: the same owner may open its run again at any time, and
    fences its own older epoch by that.
    """

    system: str  # memory, sqlite, postgresql, redis

    async def open(self, run_id: str, *, owner: str, lease_seconds: float) -> Opened:
        """Become the owner of a run, creating it if need be; fences every older owner."""
        ...

    async def append(self, run: Run, events: Sequence[Event]) -> None:
        """Write events after the last one, all or none. Raises LeaseLost."""
        ...

    async def renew(self, run: Run, *, lease_seconds: float) -> None:
        """Stay the owner for `lease_seconds` from now. Raises LeaseLost."""
        ...

    async def renew_many(self, runs: Sequence[Run], *, lease_seconds: float) -> Sequence[Run]:
        """Stay the owner of many runs, in one go; returns those that are lost.

        One heartbeat for a whole worker. May be called from another thread's event loop.
        """
        ...

    async def release(self, run: Run) -> None:
        """Let go without ending the run, so that another owner may open it at once."""
        ...

    async def finish(self, run: Run, events: Sequence[Event], result: Result) -> None:
        """Append the last events and store the result in one transaction. Raises LeaseLost."""
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

    async def reopen(self, task_id: str) -> None:
        """Forget a result so that a redriven task may run again; its events stay.

        Of a task without a result there is nothing to forget, and nothing is counted.
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


class Store(Journal, LastGood, Protocol):
    """Everything that must survive a crash, apart from the queue, behind one connection."""

    mail: Mailbox

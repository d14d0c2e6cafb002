"""What a caller can do with a task: hand it in, look at it, stop it, and redrive a dead one.

The HTTP routes and the command line are two ways to this desk. It works on the queue and the
journal alone, so a worker need not be running.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from worker.core.errors import QueueFull, RunBusy, StoreUnavailable, TaskInvalid
from worker.core.sessionbounds import SessionOptions
from worker.core.task import Result, Task
from worker.core.wireformat import result_to_wire, rfc3339, task_to_wire
from worker.intake import MAX_TASK_BYTES, check_reply_to, read_task, too_large
from worker.queues.port import AGEING_SECONDS, Place, Queue, Ticket
from worker.store.port import BEYOND_ALL_EVENTS, RunView, SessionClaim, Store
from worker.telemetry.redact import Redactor
from worker.waking import wake
from worker.web.bounds import StepCounts
from worker.web.waiting import WaitingDesk
from worker.web.whys import (
    Receiving,
    Why,
    receiving_of,
    why_cancelling,
    why_hidden,
    why_in_line,
    why_in_work,
    why_lost,
    why_ready,
    why_waiting_for_calls,
)

if TYPE_CHECKING:
    from worker.web.callingoff import CallingOff

QUEUED = "queued"
RUNNING = "running"
FINISHED = "finished"
CANCELLING = "cancelling"
_TRACESTATE_CHARS_MAX = 512  # what every system on the way has to keep
_IN_WORK = (RUNNING, CANCELLING)
_QUEUE_WORDS = {"leased": RUNNING, "dead": FINISHED, "done": FINISHED}


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a task that was handed in; `created` is False when its id was known."""

    task: Task
    created: bool


@dataclass(frozen=True, slots=True)
class TaskView:
    """Where a task is: queued, running, cancelling or finished, and its result once there is one.

    `place` is the queue's word (ready, delayed, parked, leased, dead, done), where it has one.
    `steps` are the steps taken, their bound and its reason, where the run was asked for them.
    """

    id: str
    status: str
    place: str | None = None
    run: RunView | None = None
    result: Result | None = None
    waiting: tuple[dict[str, Any], ...] = ()  # what its calls, or all of it, wait for
    why: Why | None = None
    steps: dict[str, Any] | None = None

    def to_wire(self) -> dict[str, Any]:
        """Write it as the JSON object that the API and `status --json` show."""
        return {
            "id": self.id,
            "status": self.status,
            "place": self.place,
            "worker": self.run.owner if self.run and self.status in _IN_WORK else None,
            "created_at": rfc3339(self.run.created_at) if self.run else None,
            "updated_at": rfc3339(self.run.updated_at) if self.run else None,
            "steps": self.steps,
            "waiting": list(self.waiting),
            "why": self.why.to_wire() if self.why else None,
            "result": result_to_wire(self.result) if self.result else None,
        }


class Desk:
    """Hands tasks in and looks after them. `known_tools` None: tool names are not checked here.
    `check` raises TaskInvalid for what the worker behind this desk could not do.

    `publish` hands a result to the queue that a task names in `reply_to`. With `sessions`, tasks of
    one session have their places from the moment in which they are handed in, and a cancelled one
    leaves word. `waiting` is the desk for what runs wait for. `obstacle` says what keeps the worker
    behind this desk from taking tasks; without a worker the queue is looked at instead.
    """

    def __init__(
        self,
        queue: Queue,
        journal: Store,
        *,
        now: Callable[[], float],
        new_id: Callable[[], str],
        publish: Callable[[Result, str | None], Awaitable[None]],
        known_tools: Callable[[], Collection[str]] | None = None,
        check: Callable[[Task], object] | None = None,
        interrupt: Callable[[str], object] | None = None,
        sessions: SessionOptions | None = None,
        redactor: Redactor | None = None,
        obstacle: Callable[[], str | None] | None = None,
    ) -> None:
        self.waiting = WaitingDesk(queue, journal, now=now, redactor=redactor)
        self._queue = queue
        self._journal = journal
        self._now = now
        self._new_id = new_id
        self._known_tools = known_tools
        self._check = check
        self._interrupt = interrupt
        self._sessions = sessions
        self._publish = publish
        self._obstacle = obstacle
        self._counts = StepCounts(journal)

    @functools.cached_property
    def _calling_off(self) -> CallingOff:
        # Whoever cancels may end a run, and needs all that makes results: most commands do not.
        from worker.web.callingoff import CallingOff

        return CallingOff(
            self._queue,
            self._journal,
            now=self._now,
            new_id=self._new_id,
            publish=self._publish,
            leave=self.waiting.leave,
            sessions=self._sessions,
        )

    async def submit(
        self,
        body: bytes,
        *,
        content_type: str | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> Submitted:
        """Put a task into the queue. Raises TaskInvalid, QueueFull, QueueUnavailable.

        Cancelled: the task is either wholly there or not at all; the same id may be sent again.
        """
        task = read_task(body, default_id=self._new_id(), content_type=content_type)
        self._check_tools(task)
        if self._check is not None:
            self._check(task)
        check_reply_to(task, queue=self._queue.name)
        if traceparent and not task.traceparent and len(traceparent) < 100:
            # The two belong together: the state of another trace would mislead.
            state = tracestate if tracestate and len(tracestate) <= _TRACESTATE_CHARS_MAX else None
            task = replace(task, traceparent=traceparent, tracestate=state)
        # Our own spelling goes into the queue: valid once, valid for whoever reads it later.
        wire = json.dumps(task_to_wire(task), ensure_ascii=False, separators=(",", ":"))
        if len(encoded := wire.encode()) > MAX_TASK_BYTES:
            raise too_large(len(encoded), MAX_TASK_BYTES)  # else every reader would refuse it
        ticket = Ticket(
            id=task.id, body=encoded, priority=task.priority, not_before=task.not_before
        )
        created = await self._queue.put(ticket)
        if created and task.session_id is not None and task.not_before is None:
            await self._enlist(task, task.session_id)
        return Submitted(task, created)

    async def receipt(self, submitted: Submitted) -> dict[str, Any]:
        """Write what became of a submitted task as the JSON object that its sender gets."""
        task_id = submitted.task.id
        if submitted.created:
            return {"id": task_id, "status": QUEUED}
        view = await self.look(task_id)
        return {"id": task_id, "status": view.status if view else QUEUED, "duplicate": True}

    async def _enlist(self, task: Task, session_id: str) -> None:
        if self._sessions is None:
            return
        place = self._now() - AGEING_SECONDS * task.priority
        try:
            await self._journal.enlist(task.id, SessionClaim(session_id, task.tenant or "", place))
        except StoreUnavailable:
            return  # it is in the queue: then it gets its place when a worker opens it

    async def look(self, task_id: str, *, with_steps: bool = False) -> TaskView | None:
        """Say where a task is and why; None when neither queue nor journal has heard of it.

        `with_steps` reads the events of its run as well, those that no look has read before.
        """
        # Before the journal is: by the time a queue calls a task done, its result is there.
        place = await self._queue.place(task_id)
        if with_steps:
            run, steps = await self._counts.look(task_id)
        else:
            run, steps = await self._journal.view(task_id, after_seq=BEYOND_ALL_EVENTS), None
        result = run.result if run else None
        result = result or await self._journal.result(task_id)
        word = place.state if place is not None else None
        if result is not None:
            return TaskView(task_id, FINISHED, word, run, result, steps=steps)
        if run is not None and _is_lost(place, run):
            return TaskView(task_id, QUEUED, None, run, why=why_lost(run.owner), steps=steps)
        # Asked of open runs alone: whatever else is cancelled has its result at once.
        if run and run.state == "open" and await self._journal.cancel_requested(task_id):
            why = why_cancelling(run.owner)
            return TaskView(task_id, CANCELLING, word, run, why=why, steps=steps)
        if place is None and run is None:
            return None
        if word is not None:
            status = _QUEUE_WORDS.get(word, QUEUED)
        else:
            status = RUNNING if run and run.state == "open" else QUEUED
        waiting = tuple(await self._waits(task_id, run))
        view = TaskView(task_id, status, word, run, waiting=waiting, steps=steps)
        return replace(view, why=await self._why(view, place))

    async def _why(self, view: TaskView, place: Place | None) -> Why | None:
        if view.status == RUNNING:
            return why_in_work(view.run.owner if view.run else None, place)
        if place is None or view.status != QUEUED:
            return None
        if place.state == "ready":
            return why_ready(place, await self._receiving(), now=self._now())
        session = next((one for one in view.waiting if one["kind"] == "session"), None)
        if session is not None or place.note == "session busy":
            return why_in_line(session, place.until)
        if view.waiting and place.note in ("approval", "job"):
            return why_waiting_for_calls(view.waiting, place.until)
        return why_hidden(place, owner=view.run.owner if view.run else None)

    async def _receiving(self) -> Receiving:
        if self._obstacle is None:
            return receiving_of(await self._queue.depth())
        return Receiving(self._obstacle())

    async def _waits(self, task_id: str, run: RunView | None) -> list[dict[str, Any]]:
        """What a task waits for: calls of its run, and its session when another task has it."""
        shown = await self.waiting.of_task(task_id) if run else []
        wait = await self._journal.waits(task_id)
        if wait is not None and (wait.holder is not None or wait.ahead):
            shown.append(
                {
                    "kind": "session",
                    "session": wait.session,
                    "task": wait.holder,
                    "ahead": wait.ahead,
                }
            )
        return shown

    async def cancel(self, task_id: str) -> TaskView | None:
        """Stop a task: a waiting one at once, a running one within one step (`cancelling`).

        None when the task is unknown. A finished one stays as it is. May be repeated: whatever
        was interrupted between journal and queue is made whole.
        """
        view = await self.look(task_id)
        if view is not None and view.result is not None and view.place == "parked":
            await self._calling_off.make_whole(task_id)
        if view is None or view.result is not None:
            return view
        is_lost = view.why is not None and view.why.reason == "lost"
        if view.run is not None and view.run.state == "open" and not is_lost:
            await self._journal.request_cancel(task_id)
            if self._interrupt is not None:
                self._interrupt(task_id)  # the run may be in this process: it need not wait
            await wake(task_id, self._queue, self._journal)  # it may be parking at this moment
            return TaskView(task_id, CANCELLING, view.place, view.run)
        try:
            await self._calling_off.call_off(task_id)
        except RunBusy:
            return await self.cancel(task_id)  # somebody has taken it up meanwhile
        except QueueFull:
            pass  # the ticket stays: who claims it finds the result, and publishes it
        return await self.look(task_id)

    async def redrive(self, task_id: str) -> bool:
        """Put a dead letter back with a fresh count; False when there is none of that id."""
        # Looked at first: if somebody else redrives it as well, its next result is not ours to
        # forget, and ours may be heard late, when that is there already.
        view = await self._journal.view(task_id, after_seq=BEYOND_ALL_EVENTS)
        if not await self._is_dead(task_id):
            return False
        # The result goes first: a worker that claimed the task while it still had one would
        # settle it unrun. If we die in between, the letter is still there to be redriven again.
        await self._journal.reopen(task_id, redrives=view.redrives if view else 0)
        return await self._queue.redrive(task_id)

    async def _is_dead(self, task_id: str) -> bool:
        place = await self._queue.state(task_id)
        if place is not None:
            return place == "dead"
        return any(letter.id == task_id for letter in await self._queue.dead(limit=10_000))

    def _check_tools(self, task: Task) -> None:
        if task.tools is None or self._known_tools is None:
            return
        offered = frozenset(self._known_tools())
        unknown = [name for name in task.tools if name not in offered]
        if unknown:
            known = ", ".join(sorted(offered)) or "none"
            raise TaskInvalid(
                f"tools: unknown: {', '.join(unknown)[:200]}; this worker has {known}"[:1000],
                field="tools",
            )


def _is_lost(place: Place | None, run: RunView) -> bool:
    """Whether a run's worker has gone, and the queue does not know the task either."""
    return place is None and run.state == "open" and run.lease_left <= 0

"""Call off a task that waits: its result, its last word in the conversation, its place in the queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from worker.core.effects import Finish
from worker.core.ending import result_of
from worker.core.errors import IllegalEvent, TaskInvalid
from worker.core.events import Ended, Event, Resumed
from worker.core.limits import Limits, Status
from worker.core.loop import Loop
from worker.core.sessionbounds import SessionOptions
from worker.core.task import Result, Task
from worker.intake import check_reply_to, read_task
from worker.queues.port import Queue
from worker.running.sessions import SessionKeeper
from worker.store.port import BEYOND_ALL_EVENTS, SessionClaim, Store, numbered
from worker.waking import wake, wake_next

_CANCELLED = "cancelled while it waited"
_CANCEL_SECONDS = 10.0  # for as long nobody else takes up a run that is being cancelled


class CallingOff:
    """Ends tasks that nobody works on. `leave` tells those whom a run has asked that it is over."""

    def __init__(
        self,
        queue: Queue,
        store: Store,
        *,
        now: Callable[[], float],
        new_id: Callable[[], str],
        publish: Callable[[Result, str | None], Awaitable[None]],
        leave: Callable[[str], Awaitable[None]],
        sessions: SessionOptions | None,
    ) -> None:
        self._queue = queue
        self._store = store
        self._now = now
        self._new_id = new_id
        self._publish = publish
        self._leave = leave
        self._sessions = sessions
        self._keeper = SessionKeeper(store, sessions or SessionOptions())

    async def call_off(self, task_id: str) -> None:
        """End a task that waits, and tell whoever asked for its result.

        Raises RunBusy when somebody has taken it up meanwhile, QueueFull when the result could not
        be handed over; it is stored then.
        """
        # Result first, queue last: whoever claims it in between finds it finished and lets go.
        task = await self._waiting(task_id)
        result = await self._cancelled(task_id, task)
        if result is not None:
            await self._publish(result, task.reply_to if task else None)
            await self._queue.cancel(task_id)
            await self._leave(task_id)

    async def make_whole(self, task_id: str) -> None:
        """Go on where another one died between result and queue; may be repeated.

        Whoever claims the task finds its result, publishes it and lets the ticket go.
        """
        await self._leave(task_id)
        await wake(task_id, self._queue, self._store)

    async def _cancelled(self, task_id: str, task: Task | None) -> Result | None:
        """End the run of a task that waits; its result, or None if it has one already."""
        result = await self._cancelled_run(task_id, task)
        if result is not None:
            return result
        now = self._now()
        result = Result(
            task_id=task_id,
            status=Status.CANCELLED,
            session_id=task.session_id if task else None,
            error=_CANCELLED,
            started_at=now,
            ended_at=now,
        )
        result = await numbered(self._store, result)
        return result if await self._store.put_result(result) else None

    async def _cancelled_run(self, task_id: str, task: Task | None) -> Result | None:
        """End a run that has begun: what it has done so far belongs into the result."""
        if await self._store.view(task_id, after_seq=BEYOND_ALL_EVENTS) is None:
            return None
        owner, now = f"cancel {self._new_id()}", self._now()
        try:
            opened = await self._store.open(
                task_id, owner=owner, lease_seconds=_CANCEL_SECONDS, session=self._claim(task)
            )
            loop = Loop.replay(Limits(), opened.events)
        except IllegalEvent:
            return None  # nobody can say what it has done, and it can be cancelled all the same
        if opened.run is None or loop.started is None:
            return None
        events: list[Event] = [Resumed(now, 0, "cancelled")] if loop.parked else []
        events.append(Ended(now, Status.CANCELLED, _CANCELLED))
        for event in events:
            loop.apply(event)
        effect = loop.next(now)
        assert isinstance(effect, Finish), effect
        result = replace(result_of(loop, effect, ended_at=now), redrives=opened.run.redrives)
        await self._keeper.finish(opened.run, loop, events, result)
        await wake_next(opened.run, self._queue.wake)
        return result

    def _claim(self, task: Task | None) -> SessionClaim | None:
        """The session of a task, if it can be had at once: nobody waits for a cancel to get it."""
        if self._sessions is None or task is None or task.session_id is None:
            return None
        return SessionClaim(task.session_id, task.tenant or "", or_without=True)

    async def _waiting(self, task_id: str) -> Task | None:
        body = await self._queue.body(task_id)
        try:
            task = read_task(body, default_id=task_id, queued=True) if body is not None else None
            if task is not None:
                check_reply_to(task, queue=self._queue.name)
        except TaskInvalid:
            return None  # nobody could be told, and it can be cancelled all the same
        return task

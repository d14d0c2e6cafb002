"""Run one task here and now: the runner without queue and consumer (docs/decisions/0007)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from worker.core.errors import SessionBusy, StoreUnavailable
from worker.core.limits import Status
from worker.core.settlement import Deliveries
from worker.core.task import Result, Task
from worker.running.runner import RunEnd, Runner
from worker.store.port import BEYOND_ALL_EVENTS, Opened, Run, SessionClaim, Store
from worker.waking import wake_next

_NEWS_SECONDS = 0.2  # between looks for what a parked run waits for
_BUSY_SECONDS = (0.1, 0.2, 0.5, 1.0)  # between looks at a busy session


class Foreground:
    """Takes single tasks to their end. `wake` lets a task come that waits for a session."""

    def __init__(
        self,
        journal: Store,
        runner: Runner,
        wake: Callable[[str], Awaitable[bool]],
        *,
        owner: str,
        lease_seconds: float,
        wall: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._runner = runner
        self._wake = wake
        self._owner = owner
        self._lease_seconds = lease_seconds
        self._wall = wall

    async def ask(
        self,
        task: Task,
        *,
        history: list[dict[str, Any]] | None = None,
        waiting: Callable[[], object] = lambda: None,
        parked: Callable[[str], Awaitable[object]] | None = None,
    ) -> Result:
        """Run the task, waiting for its session if need be; then `waiting` is called once.

        `parked` is called whenever the run begins to wait for a person or a job; it may decide.
        A deadline of the task bounds the waiting as well. Raises RunBusy, StoreUnavailable.
        Cancelled: the run and the session are released; while it waited, its place in the line.
        """
        while True:
            opened = await self._open(task, waiting)
            if opened.run is None:
                assert opened.result is not None
                return opened.result
            end = await self._run(task, opened, opened.run, history)
            if end.result is not None:
                return end.result
            # The only delivery: whatever has not ended waits for something.
            assert end.settlement.action == "park", end.settlement
            if parked is not None:
                await parked(task.id)
            await self._news(task.id, end.settlement.delay_seconds)

    async def _run(
        self, task: Task, opened: Opened, run: Run, history: list[dict[str, Any]] | None
    ) -> RunEnd:
        try:
            async with self._kept(run):
                # The only delivery: what fails now has failed.
                only = Deliveries(1, 1, 0, 0)
                return await self._runner.run(task, opened, only, history=history)
        except asyncio.CancelledError:
            await self._journal.release(run)
            raise
        finally:
            await wake_next(run, self._wake)

    async def _news(self, run_id: str, seconds: float) -> None:
        """Wait until something has come for the run, or somebody ended it, but so long at most."""
        ends = self._wall() + seconds
        while (left := ends - self._wall()) > 0:
            await asyncio.sleep(min(_NEWS_SECONDS, left))
            expected = await self._journal.mail.expected(run_id)
            addresses = [each.address for each in expected if not each.answered]
            if not addresses or await self._journal.mail.read(addresses):
                return

    async def _open(self, task: Task, waiting: Callable[[], object]) -> Opened:
        session = None
        if task.session_id is not None:
            session = SessionClaim(task.session_id, task.tenant or "", self._wall())
        looks = 0
        while True:
            try:
                return await self._journal.open(
                    task.id, owner=self._owner, lease_seconds=self._lease_seconds, session=session
                )
            except SessionBusy:
                if looks == 0:
                    waiting()
                pause = _BUSY_SECONDS[min(looks, len(_BUSY_SECONDS) - 1)]
                looks += 1
            if task.deadline is not None and self._wall() >= task.deadline:
                text = "the deadline of the task has passed while its session was busy"
                result = await self._leave(task, Status.DEADLINE, text)
                if result is not None:  # else it has begun, and has more to tell than that
                    return Opened(run=None, result=result)
            try:
                await asyncio.sleep(pause)
            except asyncio.CancelledError:
                # Its place in the line goes with it, or the others would wait for it in vain.
                with contextlib.suppress(StoreUnavailable):
                    await self._give_up(task, session)
                raise

    async def _give_up(self, task: Task, session: SessionClaim | None) -> None:
        left = await self._leave(task, Status.CANCELLED, "cancelled while it waited")
        if left is None and session is not None:  # it has begun: somebody may take it up again
            claim = replace(session, or_without=True)
            opened = await self._journal.open(
                task.id, owner=self._owner, lease_seconds=self._lease_seconds, session=claim
            )
            if opened.run is not None:
                await self._journal.release(opened.run)

    async def _leave(self, task: Task, status: Status, error: str) -> Result | None:
        """End a task that waits and has not begun; of one that has, None."""
        if await self._journal.view(task.id, after_seq=BEYOND_ALL_EVENTS) is not None:
            return None
        now = self._wall()
        result = Result(
            task_id=task.id,
            status=status,
            session_id=task.session_id,
            error=error,
            started_at=now,
            ended_at=now,
        )
        await self._journal.put_result(result)
        return result

    @contextlib.asynccontextmanager
    async def _kept(self, run: Run) -> AsyncIterator[None]:
        renewing = asyncio.create_task(self._renew_forever(run), name="renew")
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])

    async def _renew_forever(self, run: Run) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            with contextlib.suppress(StoreUnavailable):  # the next one may come in time
                if await self._journal.renew_many([run], lease_seconds=self._lease_seconds):
                    return  # lost: the next write of the run will say so

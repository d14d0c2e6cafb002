"""Run one task here and now: the runner without queue and consumer (docs/decisions/0007)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from worker.core.errors import QueueUnavailable, SessionBusy, StoreUnavailable
from worker.core.settlement import Deliveries
from worker.core.task import Result, Task
from worker.running.runner import Runner
from worker.store.port import Journal, Opened, Run, SessionClaim

_BUSY_SECONDS = (0.1, 0.2, 0.5, 1.0)  # between looks at a busy session


class Foreground:
    """Takes single tasks to their end. `wake` lets a task come that waits for a session."""

    def __init__(
        self,
        journal: Journal,
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
    ) -> Result:
        """Run the task, waiting for its session if need be; then `waiting` is called once.

        Raises RunBusy, StoreUnavailable. Cancelled: the run and the session are released.
        """
        opened = await self._open(task, waiting)
        run = opened.run
        if run is None:
            assert opened.result is not None
            return opened.result
        try:
            async with self._kept(run):
                # The only delivery: what fails now has failed.
                only = Deliveries(1, 1, 0, 0)
                end = await self._runner.run(task, opened, only, history=history)
        except asyncio.CancelledError:
            await self._journal.release(run)
            raise
        finally:
            await self._wake_next(run)
        assert end.result is not None, "a run that is delivered once always ends"
        return end.result

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
                await asyncio.sleep(_BUSY_SECONDS[min(looks, len(_BUSY_SECONDS) - 1)])
                looks += 1

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

    async def _wake_next(self, run: Run) -> None:
        if run.session is not None and run.session.next_run is not None:
            with contextlib.suppress(QueueUnavailable):  # its delay brings it as well
                await self._wake(run.session.next_run)

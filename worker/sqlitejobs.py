"""What is handed to the threads of a SQLite file, and how the outcome gets back to its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from worker.awaiting import call_in

NOT_YET = object()


class Job:
    """Work for one caller, in the event loop that asks for it; without `work`, a mere question."""

    __slots__ = ("argument", "committed", "future", "loop", "synced", "work")

    def __init__(self, work: Any, argument: Any, *, synced: bool = True) -> None:
        self.work = work
        self.argument = argument
        self.synced = synced
        self.committed: Any = NOT_YET  # its outcome, once it only waits for the disk
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    @property
    def is_wanted(self) -> bool:
        """Whether it is a write that has still to be done."""
        return self.work is not None and self.committed is NOT_YET and not self.future.cancelled()

    def settle(self, outcome: Any) -> None:
        """Tell the caller, in its event loop."""
        if self.future.done():
            return  # the caller was cancelled meanwhile
        if isinstance(outcome, BaseException):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


class End(Job):
    """The last job of a thread; its future is done when the connection is closed."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None)


def settle(jobs: Sequence[Job], outcomes: Sequence[Any]) -> None:
    """Hand outcomes to the callers: one wake-up for each event loop, not for each job."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Job, Any]]] = {}
    for job, outcome in zip(jobs, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job, outcome))
    for loop, settled in by_loop.items():
        call_in(loop, _settle_all, settled)


def _settle_all(settled: list[tuple[Job, Any]]) -> None:
    for job, outcome in settled:
        job.settle(outcome)

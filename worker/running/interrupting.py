"""What a run waits for and may give up at once when it is cancelled: the model, and reads.

A write is not among them: what it has begun, it finishes. Nobody would know otherwise whether its
effect has happened.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from worker.store.port import Run


class Interrupted(Exception):
    """The run was cancelled while it waited."""


class Interruptions:
    """The waits of all runs of this process. Belongs to the event loop."""

    def __init__(self) -> None:
        self._waits: dict[str, set[Wait]] = {}

    def __repr__(self) -> str:
        return f"Interruptions({sum(map(len, self._waits.values()))} waits)"

    def interrupt(self, run_id: str) -> None:
        """End the waits of a run whose cancel has been noted in its `Run`. May be repeated."""
        for wait in tuple(self._waits.get(run_id, ())):
            wait.interrupt()

    def wait(self, run: Run) -> Wait:
        """`with interruptions.wait(run):` around what may be given up; raises Interrupted.

        A cancellation from elsewhere (the drain, a lost lease) passes, also beside an interrupt.
        """
        return Wait(self._waits, run)


class Wait:
    """One thing that a task waits for on behalf of a run."""

    __slots__ = ("_before", "_interrupted", "_run", "_task", "_waits")

    def __init__(self, waits: dict[str, set[Wait]], run: Run) -> None:
        self._waits = waits
        self._run = run
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False
        self._before = 0

    def interrupt(self) -> None:
        """Cancel the task that waits; once, for two would be more than we could take back."""
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._before = self._task.cancelling()
        self._waits.setdefault(self._run.id, set()).add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        waits = self._waits[self._run.id]
        waits.discard(self)
        if not waits:
            del self._waits[self._run.id]
        if not self._interrupted:
            return
        assert self._task is not None
        is_ours_alone = self._task.uncancel() <= self._before
        if isinstance(error, asyncio.CancelledError) and is_ours_alone:
            raise Interrupted from None

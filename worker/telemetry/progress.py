"""What a run does, told at once to whoever watches it.

A hint inside this process and no more: a watcher that missed something, or that watches a run of
another worker, reads the journal, whose sequence numbers are the `step_id` here. Nobody who watches
slowly can hold up a run: each watcher has a bounded queue, and one that overflows is told so and
let go.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from worker.telemetry.redact import Redactor
from worker.telemetry.signals import Operation, Signal, StepUpdated

WAITING_MAX = 256  # updates; a run of eight steps with parallel calls has a few dozen
WATCHERS_MAX = 1_000  # of the whole process
CONTENT_CHARACTERS_MAX = 2_000


class TooManyWatchers(RuntimeError):
    """Nobody else may watch right now; reading the journal still works."""


@dataclass(eq=False, slots=True)
class _Watcher:
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[StepUpdated | None] = field(
        default_factory=lambda: asyncio.Queue(WAITING_MAX)
    )
    is_gone: bool = False

    def offer(self, update: StepUpdated | None) -> None:
        """Take an update, in the watcher's own loop; an overflow ends the subscription."""
        if self.is_gone:
            return
        if self.queue.full():
            self.is_gone = True
            while not self.queue.empty():
                self.queue.get_nowait()
            update = None
        self.queue.put_nowait(update)


class Progress:
    """The listener that passes StepUpdated on to the watchers of that task."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._watchers: dict[str, list[_Watcher]] = {}
        self._lock = threading.Lock()
        self.overflows = 0

    def __repr__(self) -> str:
        return f"Progress({self.count} watchers of {len(self._watchers)} runs)"

    @property
    def count(self) -> int:
        """How many watch right now."""
        return sum(map(len, list(self._watchers.values())))

    def hears(self, kind: type) -> bool:
        """Only what watchers of a run are shown."""
        return kind is StepUpdated

    def told(self, signal: Signal) -> None:
        """Pass an update on, from any thread; costs a look-up when nobody watches."""
        if not isinstance(signal, StepUpdated) or signal.task_id not in self._watchers:
            return
        content = self._redactor.text(signal.content, limit=CONTENT_CHARACTERS_MAX)
        update = replace(signal, content=content)
        with self._lock:
            watchers = list(self._watchers.get(signal.task_id, ()))
        for watcher in watchers:
            self._pass(watcher, update)

    def started(self, operation: Operation) -> None:
        """Operations are not shown."""

    def settled(self, operation: Operation, token: Any) -> None:
        """Operations are not shown."""

    def subscribe(self, task_id: str) -> AsyncIterator[StepUpdated]:
        """Watch a task: updates as they happen, until the final one.

        The subscription stands from this call on, so that whoever subscribes first and then reads
        the journal misses nothing (and drops what it has seen, by `step_id`). It also ends when the
        watcher is too slow; then the journal has the rest. Cancelling is safe; close the iterator
        (`contextlib.aclosing`) when leaving early. Raises TooManyWatchers.
        """
        watcher = _Watcher(asyncio.get_running_loop())
        with self._lock:
            if self.count >= WATCHERS_MAX:
                raise TooManyWatchers(TooManyWatchers.__doc__)
            self._watchers.setdefault(task_id, []).append(watcher)
        return _Updates(self, task_id, watcher)

    def leave(self, task_id: str, watcher: _Watcher) -> None:
        """Forget a watcher. Idempotent."""
        watcher.is_gone = True
        with self._lock:
            watchers = self._watchers.get(task_id, [])
            if watcher in watchers:
                watchers.remove(watcher)
            if not watchers:
                self._watchers.pop(task_id, None)

    def _pass(self, watcher: _Watcher, update: StepUpdated) -> None:
        try:
            if _running_loop() is watcher.loop:
                watcher.offer(update)
            else:
                watcher.loop.call_soon_threadsafe(watcher.offer, update)
        except RuntimeError:  # its loop is closed: nobody is there any more
            watcher.is_gone = True
        if watcher.is_gone:
            self.overflows += 1
            self.leave(update.task_id, watcher)


class _Updates:
    """The iterator of one watcher."""

    def __init__(self, progress: Progress, task_id: str, watcher: _Watcher) -> None:
        self._progress, self._task_id, self._watcher = progress, task_id, watcher
        self._over = False

    def __aiter__(self) -> _Updates:
        return self

    async def __anext__(self) -> StepUpdated:
        if self._over:
            raise StopAsyncIteration
        update = await self._watcher.queue.get()
        if update is None or update.is_final:
            await self.aclose()
        if update is None:
            raise StopAsyncIteration
        return update

    async def aclose(self) -> None:
        """Stop watching."""
        self._over = True
        self._progress.leave(self._task_id, self._watcher)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

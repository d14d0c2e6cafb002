"""Threads that a hung tool may keep, without keeping the process.

Not concurrent.futures' pool: that one joins its threads when the interpreter ends, so a single
hung tool would turn every deploy into a kill. Not the loop's default pool either: DNS lives there.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from worker.core.errors import AttemptFailed

T = TypeVar("T")


class Threads:
    """Up to `limit` daemon threads, started when needed and kept for the next call."""

    def __init__(self, name: str, *, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.started = 0
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._work = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` in a thread; it waits in line while all of them are busy."""
        future: Future[T] = Future()
        self._work.put((future, work))
        with self._lock:
            if not self._idle.acquire(blocking=False) and self.started < self.limit:
                self.started += 1
                name = f"guard-{self.name}-{self.started}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """Let idle threads end; busy ones end after their work. Never waits."""
        with self._lock:
            for _ in range(self.started):
                self._work.put(None)
            self.started = 0

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            _run(*item)
            del item  # an idle thread must not keep the last result alive
            self._idle.release()


def no_exception(error: BaseException) -> AttemptFailed:
    """Say that a tool raised what is no Exception; its text may be anything, its type will do."""
    return AttemptFailed(f"the tool raised {type(error).__name__}")


def _run(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = work()
    except Exception as error:
        future.set_exception(error)
    except BaseException as error:
        # It would end this thread and leave the caller waiting, or be taken for our own
        # cancellation. Nothing is to be handed on here: nobody stands above a thread's work.
        failure = no_exception(error)
        failure.__cause__ = error
        future.set_exception(failure)
    else:
        future.set_result(value)

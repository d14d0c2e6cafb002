"""An event loop in a thread of its own, for connections that no blocked loop may stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from worker.awaiting import end_all
from worker.core.errors import QueueUnavailable

T = TypeVar("T")


class Unanswered(Exception):
    """A call whose connection ended, or which took too long; it may have had its effect."""


class OwnLoop:
    """A thread that works for whoever calls, from any event loop, until it is ended."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"OwnLoop({self._name!r}, {'ended' if self.is_over else 'runs'})"

    @property
    def is_over(self) -> bool:
        """Whether it was ended."""
        return self._loop.is_closed()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something there. Cancelled: it is done all the same."""
        return await asyncio.shield(asyncio.wrap_future(self.begin(work)))

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for something there. Cancelled: so is it."""
        return await asyncio.wrap_future(self.begin(work))

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done there. Raises QueueUnavailable after the end."""
        if self._loop.is_closed():
            work.close()
            raise QueueUnavailable(f"the connection was closed ({self._name})")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def end(self, last: Coroutine[Any, Any, Any]) -> None:
        """Do the last thing there, cancel whatever is left, and block until the thread has ended."""
        self.begin(_finish(last)).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _finish(last: Coroutine[Any, Any, Any]) -> None:
    await last
    this = asyncio.current_task()
    await end_all(task for task in asyncio.all_tasks() if task is not this)


async def unless_lost(
    asking: Coroutine[Any, Any, T], lost: asyncio.Future[None], *, seconds: float
) -> T:
    """Wait for an answer as long as its connection is not lost, or so long. Raises Unanswered."""
    task = asyncio.create_task(asking)
    await asyncio.wait((task, lost), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if task.cancelled():
        raise Unanswered("the connection was lost" if lost.done() else "no answer in time")
    return task.result()

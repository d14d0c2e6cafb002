"""Run one attempt with a time limit it cannot ignore, sync or async.

An async tool runs as a task of its own: a tool that swallows cancellation cannot be left from
inside an `asyncio.timeout`, but nobody has to go on waiting for a task. After its time limit it
is cancelled, given a short grace, and then left behind. A sync tool runs in a thread with the
caller's context variables and is left behind at once: nothing can stop it.

Our own calls of the model keep their time limit and end when they are cancelled; they are awaited
as they are, because a task and its timer cost more than the rest of the guard.

Whatever was left behind keeps its slot of the bulkhead until it really ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from worker.core.errors import AttemptFailed, AttemptTimeout
from worker.guard.bulkhead import Bulkhead
from worker.guard.policy import AttemptInfo
from worker.guard.threads import Threads, no_exception


class ToolSelfCancelled(AttemptFailed):
    """The tool ended as cancelled though nobody had cancelled it."""


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling it surely gives a coroutine; partials and callable objects too."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class Runner:
    """Runs attempts for one guard, and hands their slots back when they end.

    The slot must be held already; from here on it belongs to the work. `bulkhead` None means that
    the work needs no slot.
    """

    def __init__(self, name: str, bulkhead: Bulkhead | None, *, grace: float, limit: int) -> None:
        self._bulkhead = bulkhead
        self._grace = grace
        self._name = name
        self._limit = limit
        self._threads: Threads | None = None  # most guards never need one
        self._left_behind: set[object] = bulkhead.left_behind if bulkhead else set()

    async def run(
        self,
        function: Callable[[AttemptInfo], Any],
        info: AttemptInfo,
        *,
        is_trusted: bool = False,
    ) -> Any:
        """Call `function(info)`, awaiting what it returns if need be, within its time limit.

        Raises what it raises, AttemptTimeout, or ToolSelfCancelled. Cancelled: the work is
        cancelled too, and left behind if it does not end within the grace. `is_trusted`: it is
        async and sees to all of that itself, so it is awaited where we are.
        """
        if is_trusted:
            try:
                return await function(info)
            finally:
                self._end_slot()
        if not is_async(function):
            return await self._run_in_thread(function, info)
        return await self._run_task(function, info, info.timeout_seconds)

    def close(self) -> None:
        """Let idle threads go."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    async def _run_task(
        self, function: Callable[[AttemptInfo], Any], info: AttemptInfo, seconds: float
    ) -> Any:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        task = loop.create_task(_contained(function, info, waiter))
        is_over = False

        def ended(task: asyncio.Task[Any]) -> None:
            nonlocal is_over
            if is_over:
                return
            is_over = True
            task.cancelled() or task.exception()  # seen: no complaint about a lost error
            self._left_behind.discard(task)
            self._end_slot()
            _wake(waiter)

        task.add_done_callback(ended)
        timer = loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            await self._stop(task)
            raise
        finally:
            timer.cancel()
        if not task.done():
            await self._stop(task)
            raise AttemptTimeout(f"no answer within {seconds:.3g} s")
        ended(task)  # its own call comes after us, and whoever calls next may need the slot
        if task.cancelled():
            raise ToolSelfCancelled
        error = task.exception()
        if error is not None and not isinstance(error, Exception):
            raise no_exception(error) from error
        return task.result()

    async def _stop(self, task: asyncio.Task[Any]) -> None:
        """Cancel, wait for the grace, and leave behind what is still running then."""
        task.cancel()
        try:
            await asyncio.wait((task,), timeout=self._grace)
        finally:
            if not task.done():
                self._left_behind.add(task)

    async def _run_in_thread(
        self, function: Callable[[AttemptInfo], Any], info: AttemptInfo
    ) -> Any:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._threads is None:
            self._threads = Threads(self._name, limit=self._limit)
        waiter = loop.create_future()
        context = contextvars.copy_context()
        future = self._threads.submit(lambda: context.run(function, info))
        is_over = False

        def ended() -> None:
            nonlocal is_over
            is_over = True
            if future in self._left_behind:
                self._left_behind.discard(future)
                _discard(future)
                self._end_slot()
            elif not _is_awaitable(future):  # else the slot passes on to its task
                self._end_slot()
            _wake(waiter)

        future.add_done_callback(lambda _: _call_in(loop, ended))
        timer = loop.call_later(info.timeout_seconds, _wake, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not is_over:
                self._leave(future)
            elif _is_awaitable(future):  # cancelled before its task could take the slot
                _discard(future)
                self._end_slot()
            raise
        finally:
            timer.cancel()
        if not future.done():
            self._leave(future)
            raise AttemptTimeout(f"no answer within {info.timeout_seconds:.3g} s")
        if _is_awaitable(future):
            left = info.timeout_seconds - (loop.time() - began)
            return await self._run_task(lambda _: future.result(), info, max(0.0, left))
        return _result(future)

    def _leave(self, future: Future[Any]) -> None:
        self._left_behind.add(future)
        future.cancel()  # one that has not begun never will

    def _end_slot(self) -> None:
        if self._bulkhead is None:
            return
        if self._bulkhead.has_queue:
            # One turn later: the end of this work must reach the breaker before the next in the
            # queue asks it.
            asyncio.get_running_loop().call_soon(self._bulkhead.release)
        else:
            self._bulkhead.release()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        pass  # the loop is closed, and its slots are gone with it


def _is_awaitable(future: Future[Any]) -> bool:
    if future.cancelled() or future.exception() is not None:
        return False
    return inspect.isawaitable(future.result())


def _discard(future: Future[Any]) -> None:
    """Close a coroutine that nobody will await, so that it does not complain."""
    if _is_awaitable(future) and inspect.iscoroutine(future.result()):
        future.result().close()


def _result(future: Future[Any]) -> Any:
    error = future.exception()
    if isinstance(error, StopIteration):
        # A coroutine cannot raise it; Python would hide where it came from.
        raise RuntimeError("the tool raised StopIteration") from error
    return future.result()


async def _contained(
    function: Callable[[AttemptInfo], Any], info: AttemptInfo, waiter: asyncio.Future[None]
) -> Any:
    """Call and await, and let nothing out that asyncio would end the whole loop with.

    Whoever waits is woken from here: told by the end of the task, he would come a turn later.
    """
    try:
        return await function(info)
    except (KeyboardInterrupt, SystemExit) as error:
        raise no_exception(error) from error
    finally:
        if not waiter.get_loop().is_closed():
            _wake(waiter)

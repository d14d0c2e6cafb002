"""Waiting: for what somebody has to keep, though whoever asked for it has gone; for a bell to ring.

Nobody here waits with `asyncio.wait_for`: before Python 3.12 it swallows a cancel that comes in the
turn in which its result does (python/cpython#86296), and whoever cancelled waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

AGAIN_SECONDS = 1.0  # until what was cancelled and goes on is cancelled again


async def kept(outcome: asyncio.Future[T], *, undo: Callable[[T], Awaitable[Any]]) -> T:
    """Wait for an outcome that somebody has to keep.

    Cancelled: waits for it all the same, has it undone, and raises CancelledError then, so that
    whoever is told afterwards that it is free finds it free. Cancelled once more, it is left alone.
    """
    if outcome.done():
        return outcome.result()
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        await asyncio.wait([outcome])
        if outcome.exception() is None:
            await undo(outcome.result())
        raise


async def happened(event: asyncio.Event, *, within: float | None) -> bool:
    """Wait for an event, at most so many seconds; tells whether it came."""
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended; one that swallows it is cancelled again."""
    going = set(tasks)
    while going:
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=AGAIN_SECONDS)


class Bell:
    """Somebody who waits for a name to be rung; only for its own event loop."""

    def __init__(self, bells: set[Bell]) -> None:
        self._bells = bells
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        bells.add(self)

    def ring(self) -> None:
        """Wake the waiter, from any thread."""
        call_in(self._loop, self._rung.set)

    async def wait(self, seconds: float) -> bool:
        """Wait for the ring, at most so long; tells whether it came."""
        return await happened(self._rung, within=seconds)

    def put_away(self) -> None:
        """Stop listening."""
        self._bells.discard(self)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *values: Any) -> None:
    """Call a function in an event loop, from any thread; never, when the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:
        pass  # that loop is closed: nobody waits there any more

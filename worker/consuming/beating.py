"""The thread in which the heartbeat runs, with an event loop of its own.

A tool that keeps the worker's event loop from everybody else keeps no lease from being renewed. The
thread shares with the worker what is held, which it only reads, and the ports, whose renewals may
be called from another loop (Q33, J22). What it finds out goes to the worker's loop as a callback.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from worker.awaiting import end_all

Beat = Callable[[], Coroutine[Any, Any, None]]


class Beside(Protocol):
    """Where the heartbeat runs: here a thread, in a simulation another strand of the loop."""

    def __call__(self, beat: Beat, *, name: str) -> Coroutine[Any, Any, None]:
        """Run `beat()` and wait for it. Cancelled: it is cancelled, and gone on return."""
        ...


async def run_beside(beat: Beat, *, name: str) -> None:
    """Run `beat()` in a thread of that name, and wait for it.

    Raises what it raises. Cancelled: it is cancelled, and the thread is gone on return.
    """
    # Not uvloop, even where the worker runs on it: this loop should share nothing with that one.
    loop = asyncio.SelectorEventLoop()
    thread = threading.Thread(target=_live, args=(loop,), name=name, daemon=True)
    thread.start()
    try:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(beat(), loop))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()  # it has nothing left to do but to end


def _live(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
        # The worker's loop stands still until this thread has ended, so a cancel that somebody
        # swallows must not be the last one.
        runner.run(end_all(asyncio.all_tasks(loop)))

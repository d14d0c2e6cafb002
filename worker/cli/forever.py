"""Run a command's coroutine, and see that the process ends when it has.

asyncio's own ending waits without a limit for every task, generator and thread that is left. A
tool that ignores its cancellation, or a look-up that hangs, would keep the process until somebody
kills it. Here they get a little time; after it, `held_up` tells the command line to leave without
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from worker.cli.exits import held_up

LEFT_SECONDS = 2.0  # for what is still there when the body has ended
BROKEN_SECONDS = 15.0  # when the body was interrupted: it has runs to hand back first


def run_forever(body: Callable[[], Awaitable[int]]) -> int:
    """Run a coroutine function, on uvloop where it is installed, and return what it returns.

    Raises what it raises. What it leaves running is cancelled and waited for, but not for ever.
    """
    is_over = False

    async def run() -> int:
        nonlocal is_over
        try:
            return await body()
        finally:
            is_over = True

    runner = asyncio.Runner(loop_factory=_loop_factory())
    try:
        return runner.run(run())
    finally:
        _close(runner, seconds=LEFT_SECONDS if is_over else BROKEN_SECONDS)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _close(runner: asyncio.Runner, *, seconds: float) -> None:
    loop = runner.get_loop()
    held_up.append(loop)  # until it is known to be wrong; an interrupt may come in between
    if loop.run_until_complete(_has_ended(seconds)):
        runner.close()
        held_up.remove(loop)


async def _has_ended(seconds: float) -> bool:
    """Do in the loop what closing the runner does without a limit; say whether it is done."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    ending = asyncio.create_task(_end(left))
    await asyncio.wait((ending,), timeout=seconds)
    return ending.done()


async def _end(left: Collection[asyncio.Task[Any]]) -> None:
    loop = asyncio.get_running_loop()
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()

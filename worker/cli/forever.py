"""Run a command's coroutine, and see that the process ends when it has, and not before.

asyncio's own ending waits without a limit for every task, generator and thread that is left. A
tool that ignores its cancellation, or a look-up that hangs, would keep the process until somebody
kills it. Here they get a little time; after it, `held_up` tells the command line to leave without
them.

And asyncio ends the whole loop when a task or a callback raises SystemExit or KeyboardInterrupt. A
tool's own attempt is contained by its guard, but what a tool has started beside it is nobody's: the
loop is simply entered again. All that is lost is the turn of the one that raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from typing import Any, TypeVar

from worker.cli.aside import tell_strays
from worker.cli.exits import NOT_WELL, CommandFailed, held_up

T = TypeVar("T")

STOPPED = "Event loop stopped"  # how asyncio and uvloop begin to say that somebody stopped it
LEFT_SECONDS = 2.0  # for what is still there when the body has ended
CANCELLED = (
    "something in this process cancelled all its tasks; a tool that cancels what is not its own?"
)
BROKEN_SECONDS = 15.0  # when the body was interrupted: it has runs to hand back first


def run_forever(body: Callable[[], Awaitable[int]]) -> int:
    """Run a coroutine function, on uvloop where it is installed, and return what it returns.

    Raises what it raises; KeyboardInterrupt for a Ctrl-C, a SIGTERM or the end of the terminal that
    the body did not handle; CommandFailed when code of this process cancelled it. What it leaves
    running is cancelled and waited for, but not for ever.
    """
    is_over = False

    async def run() -> int:
        nonlocal is_over
        try:
            return await body()
        finally:
            is_over = True

    runner = asyncio.Runner(loop_factory=_loop_factory())
    runner.get_loop().set_exception_handler(tell_strays)
    with _interrupting(runner.get_loop()) as interrupts:
        try:
            return _finish(runner, run(), interrupts)
        except asyncio.CancelledError:
            raise CommandFailed(CANCELLED, code=NOT_WELL) from None
        finally:
            seconds = LEFT_SECONDS if is_over else BROKEN_SECONDS
            _close(runner, interrupts, seconds=seconds)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def ending_signals() -> list[signal.Signals]:
    """The signals that ask this process to end: Ctrl-C, SIGTERM, and that the terminal has gone.

    Who was started by nohup has been told to live on without its terminal, and does.
    """
    asked = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    return [each for each in asked if signal.getsignal(each) is not signal.SIG_IGN]


class _Interrupts:
    """Ctrl-C as asyncio's runner has it: once cancels the main task, again breaks in.

    SIGTERM and SIGHUP are taken in the same way. A command without an end of its own for them
    (`run` has one) cleans up and leaves nothing behind.

    `has_raised` tells a person's KeyboardInterrupt from one that a tool made up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.count = 0
        self.has_raised = False
        self.main: asyncio.Task[Any] | None = None

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count == 1 and self.main is not None and not self.main.done():
            self.main.cancel()
            self._loop.call_soon_threadsafe(lambda: None)  # it may be asleep
            return
        self.has_raised = True
        raise KeyboardInterrupt


@contextlib.contextmanager
def _interrupting(loop: asyncio.AbstractEventLoop) -> Iterator[_Interrupts]:
    interrupts = _Interrupts(loop)
    ours: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        usual = {each: signal.getsignal(each) for each in ending_signals()}
        untouched = (signal.default_int_handler, signal.SIG_DFL)
        ours = {each: handler for each, handler in usual.items() if handler in untouched}
    for each in ours:
        signal.signal(each, interrupts)
    try:
        yield interrupts
    finally:
        for each, handler in ours.items():
            if signal.getsignal(each) is interrupts:
                signal.signal(each, handler)


def _finish(
    runner: asyncio.Runner, coroutine: Coroutine[Any, Any, T], interrupts: _Interrupts
) -> T:
    """Run to the end of the coroutine, through whatever strays into the loop."""
    loop = runner.get_loop()
    try:
        interrupts.main = main = loop.create_task(coroutine)
    except KeyboardInterrupt:
        coroutine.close()  # it never began; Python would complain of that at a person
        raise
    while True:
        try:
            return loop.run_until_complete(main)
        except asyncio.CancelledError:
            if interrupts.count and main.uncancel() == 0:
                raise KeyboardInterrupt from None
            raise
        except (SystemExit, KeyboardInterrupt, RuntimeError) as error:
            # RuntimeError: somebody has stopped the loop.
            is_own = main.done() and not main.cancelled() and main.exception() is error
            is_persons = isinstance(error, KeyboardInterrupt) and interrupts.has_raised
            # A loop that cannot be entered (it has no file descriptor left) would be tried for ever.
            is_shut = isinstance(error, RuntimeError) and not str(error).startswith(STOPPED)
            if is_own or is_persons or is_shut or loop.is_closed():
                raise
            message = f"{type(error).__name__} outside of any call; the loop goes on"
            loop.call_exception_handler({"message": message, "exception": error})


def _close(runner: asyncio.Runner, interrupts: _Interrupts, *, seconds: float) -> None:
    loop = runner.get_loop()
    held_up.append(loop)  # until it is known to be wrong; an interrupt may come in between
    with contextlib.suppress(RuntimeError):  # it never ran, or runs no more: why is told already
        _finish_rest(runner, interrupts, seconds=seconds)


def _finish_rest(runner: asyncio.Runner, interrupts: _Interrupts, *, seconds: float) -> None:
    loop = runner.get_loop()
    if _finish(runner, _has_ended(seconds), interrupts):
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

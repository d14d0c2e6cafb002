"""The loop of a command outlives what strays into it, and ends when its body or a person says so."""

from __future__ import annotations

import asyncio
import errno
import gc
import sys
import threading
import time
from unittest import mock

import pytest

from worker.cli import exits, forever
from worker.cli.aside import tell_strays
from worker.cli.forever import run_forever


def leave() -> None:
    """What a tool may call where nobody stands above it."""
    sys.exit(5)


async def exit_task() -> None:
    """A task of a tool's own."""
    leave()


async def interrupt_task() -> None:
    """A task that makes up an interrupt."""
    raise KeyboardInterrupt


def in_task(loop: asyncio.AbstractEventLoop) -> object:
    """Start a task that leaves."""
    return loop.create_task(exit_task())


def by_made_up_interrupt(loop: asyncio.AbstractEventLoop) -> object:
    """Start a task that raises KeyboardInterrupt."""
    return loop.create_task(interrupt_task())


def in_callback(loop: asyncio.AbstractEventLoop) -> object:
    """Leave from a callback."""
    return loop.call_soon(leave)


def later(loop: asyncio.AbstractEventLoop) -> object:
    """Leave from a timer."""
    return loop.call_later(0.001, leave)


def by_stopping(loop: asyncio.AbstractEventLoop) -> object:
    """Stop the loop itself."""
    return loop.call_soon(loop.stop)


STRAYS = [in_task, by_made_up_interrupt, in_callback, later, by_stopping]


@pytest.fixture(autouse=True)
def nothing_held_up(monkeypatch):
    """Each test begins with nothing that would keep the process, and leaves nothing."""
    monkeypatch.setattr(exits, "held_up", held := [])
    monkeypatch.setattr(forever, "held_up", held)


@pytest.mark.parametrize("stray", STRAYS, ids=lambda stray: stray.__name__)
def test_stray_ending_ends_nothing(stray, caplog):
    """The body goes on where it was, its value is returned, and the log tells of it."""

    async def body() -> int:
        kept = [stray(asyncio.get_running_loop()) for _ in range(3)]
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, passed.set)
        await passed.wait()
        return 40 + len(kept)

    assert run_forever(body) == 43
    assert "the loop goes on" in caplog.text


def test_stray_in_the_turn_of_the_end_takes_nothing_back():
    """What the body returned is returned, though somebody else leaves in the same turn."""

    async def body() -> int:
        asyncio.get_running_loop().call_soon(leave)
        return 7

    assert run_forever(body) == 7


def test_stray_while_the_rest_is_ended_is_contained():
    """A task that answers its cancellation by leaving does not change the exit code."""

    async def rude() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            leave()

    async def body() -> int:
        body.kept = asyncio.create_task(rude())
        await asyncio.sleep(0)
        return 7

    assert run_forever(body) == 7
    assert exits.held_up == []


@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt(), RuntimeError("own")])
def test_what_the_body_raises_is_raised(error):
    """Its own word counts, whatever kind it is."""

    async def body() -> int:
        raise error

    with pytest.raises(type(error)) as caught:
        run_forever(body)
    assert caught.value is error


def test_body_that_its_own_process_cancels_ends_with_a_word():
    """A tool that cancels every task it can find is not taken for a person, nor for a good end."""

    async def body() -> int:
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(5)
        return 0

    with pytest.raises(exits.CommandFailed, match="cancelled all its tasks") as caught:
        run_forever(body)
    assert caught.value.code == 1


def test_interrupt_before_the_body_began_leaves_no_complaint(recwarn, monkeypatch):
    """A SIGTERM in the first millisecond is no word of Python's about a coroutine."""
    loop = asyncio.new_event_loop()
    interrupted = mock.Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(loop, "create_task", interrupted, raising=False)
    monkeypatch.setattr(forever, "_loop_factory", lambda: lambda: loop)

    async def body() -> int:
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_forever(body)
    gc.collect()
    assert [str(each.message) for each in recwarn] == []
    loop.close()


def test_body_runs_on_uvloop_with_our_ear_for_strays():
    """The faster loop is taken where it is installed, it tells of strays in our way, and is closed."""
    seen = []

    async def body() -> int:
        seen.append(asyncio.get_running_loop())
        return 0

    assert run_forever(body) == 0
    (loop,) = seen
    assert type(loop).__module__.partition(".")[0] == "uvloop"
    assert loop.get_exception_handler() is tell_strays
    assert loop.is_closed()


def test_without_uvloop_the_usual_loop_does(plain):
    """It is an extra: nothing else depends on it."""
    seen = []

    async def body() -> int:
        seen.append(type(asyncio.get_running_loop()).__module__)
        return 3

    assert run_forever(body) == 3
    assert seen[0].startswith("asyncio")


class Holding:
    """What holds a loop up when its body has ended; `free` lets it go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.kept: list[object] = []

    async def task(self) -> None:
        """Leave a task that ignores its cancellation."""
        self.kept.append(asyncio.create_task(self._deaf()))
        await asyncio.sleep(0)

    async def generator(self) -> None:
        """Leave a generator that takes its time to be closed."""
        numbers = self._numbers()
        self.kept.append(numbers)
        await anext(numbers)

    async def thread(self) -> None:
        """Leave a look-up in one of the loop's own threads."""
        self.kept.append(asyncio.get_running_loop().run_in_executor(None, self.free.wait))

    async def _deaf(self) -> None:
        while not self.free.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    async def _numbers(self):
        try:
            yield 1
        finally:
            await self._deaf()


@pytest.mark.parametrize("what", ["task", "generator", "thread"])
def test_what_does_not_end_is_left_behind(what, monkeypatch):
    """It gets its little time, the value is returned, and the command line knows what holds."""
    monkeypatch.setattr(forever, "LEFT_SECONDS", 0.05)
    holding = Holding()

    async def body() -> int:
        await getattr(holding, what)()
        return 7

    began = time.monotonic()
    value = run_forever(body)
    took = time.monotonic() - began
    (loop,) = exits.held_up
    exits.held_up.clear()
    holding.free.set()
    loop.run_until_complete(asyncio.wait_for(forever._end(asyncio.all_tasks(loop)), 5))
    loop.close()

    assert value == 7
    assert 0.04 < took < 5  # a loop's timer may be early by its clock's resolution


def test_loop_that_cannot_be_entered_is_not_tried_for_ever(monkeypatch):
    """Without a file descriptor left, what is wrong is raised; nothing spins."""

    class Shut(asyncio.SelectorEventLoop):
        """A loop that fails once, and is stuck in its start afterwards."""

        tries = 0

        def run_until_complete(self, future):
            """Fail."""
            Shut.tries += 1
            if Shut.tries == 1:
                raise OSError(errno.EMFILE, "Too many open files")
            raise RuntimeError("this event loop is already running.")

    monkeypatch.setattr(forever, "_loop_factory", lambda: Shut)

    async def body() -> int:
        return 0

    with pytest.raises(OSError, match="Too many open files"):
        run_forever(body)
    assert Shut.tries == 2
    loop = exits.held_up.pop()
    for left in asyncio.all_tasks(loop):
        left.get_coro().close()
        left._log_destroy_pending = False
    loop.close()

"""The loop of a command outlives what strays into it, and ends when its body or a person says so."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from unittest import mock

import pytest

from worker.cli import exits, forever
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


@pytest.fixture
def terminal():
    """Take interrupts as a program at a terminal does; a shell's background job ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


@pytest.mark.parametrize("presses", [1, 2])
def test_interrupt_by_a_person_is_one(presses, terminal):
    """Ctrl-C cancels the body; pressed again it breaks in, also where the body will not listen."""
    told = []

    async def body() -> int:
        for _ in range(presses):
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                told.append("cancelled")
                if presses == 1:
                    raise
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_forever(body)
    assert told == ["cancelled"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

"""A person's Ctrl-C, SIGTERM or closed terminal ends a command at once, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time

import pytest

from worker.cli import exits, forever
from worker.cli.forever import run_forever


def leave() -> None:
    """What a tool may call where nobody stands above it."""
    sys.exit(5)


@pytest.fixture(autouse=True)
def nothing_held_up(monkeypatch):
    """Each test begins with nothing that would keep the process, and leaves nothing."""
    monkeypatch.setattr(exits, "held_up", held := [])
    monkeypatch.setattr(forever, "held_up", held)


@pytest.fixture
def terminal():
    """Take interrupts as a program at a terminal does; a shell's background job ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_sleeping_loop_hears_a_person_at_once(number, terminal, plain):
    """Each of the signals that ask for an end, though nothing else would wake the loop for long."""
    before = signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else terminal)
    asleep, told = threading.Event(), []

    def press() -> None:
        asleep.wait(5)
        time.sleep(0.05)  # until the loop waits for what comes
        os.kill(os.getpid(), number)

    async def body() -> int:
        asyncio.get_running_loop().call_soon(asleep.set)
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        return 0

    pressing = threading.Thread(target=press)
    pressing.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_forever(body)
    finally:
        pressing.join()
        restored = signal.signal(number, before)

    assert (told, time.monotonic() - began < 10) == (["cancelled"], True)
    assert restored in (signal.SIG_DFL, signal.default_int_handler)


def test_ignored_signals_are_left_ignored(terminal):
    """Who was started by nohup lives on without its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        asked = forever.ending_signals()
    finally:
        signal.signal(signal.SIGHUP, before)

    assert asked == [signal.SIGINT, signal.SIGTERM]


def test_second_press_breaks_in_and_the_body_has_time_to_hand_back(terminal, monkeypatch):
    """Pressed while the loop is elsewhere it is a person's, and what is under way is finished."""
    monkeypatch.setattr(forever, "LEFT_SECONDS", 0.05)
    told = []

    async def body() -> int:
        loop = asyncio.get_running_loop()
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            loop.call_later(0.01, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(5)
        finally:
            await asyncio.sleep(0.3)
            told.append("handed back")
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_forever(body)
    assert told == ["handed back"]
    assert exits.held_up == []


def test_stray_in_the_turn_of_a_persons_end_hides_nobody(terminal):
    """What a tool does while the body is cancelled does not turn a Ctrl-C into a failure."""

    async def body() -> int:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(5)
        finally:
            asyncio.get_running_loop().call_soon(leave)
        return 0

    with pytest.raises(KeyboardInterrupt):
        run_forever(body)


def test_press_with_nothing_to_cancel_breaks_in():
    """Before the body has begun, and when it has ended while the rest is being closed."""
    loop = asyncio.new_event_loop()
    early, late = forever._Interrupts(loop), forever._Interrupts(loop)
    late.main = loop.create_task(asyncio.sleep(0))
    loop.run_until_complete(late.main)
    loop.close()

    for interrupts in (early, late):
        with pytest.raises(KeyboardInterrupt):
            interrupts()
        assert interrupts.has_raised

"""Tools whose every effect is a line in a file, and which do harm when a file asks for it.

Loaded by the workers under test. An effect is `NAME TEXT KEY`, appended and synced, so that it
survives whatever happens to the process in the next moment.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

from worker import Job, ToolContext, tool

FOLDER = Path(os.environ["EFFECTS"])
SECRET = "door-key-7f3a9c"  # what must be seen nowhere
STRAYS: list[object] = []  # what a tool has started, so that nothing collects it


def happen(name: str, text: str, key: str) -> None:
    """Make the effect."""
    file = os.open(FOLDER / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{name} {text} {key or '-'}\n".encode())
    os.fsync(file)
    os.close(file)


def wanted(harm: str) -> bool:
    """Say whether somebody has asked for this harm; it is done once."""
    try:
        (FOLDER / harm).unlink()
    except FileNotFoundError:
        return False
    return True


def die() -> None:
    """End this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


def happen_or_die(name: str, text: str, key: str) -> None:
    """Make the effect; die before it or after it, if somebody has asked for that."""
    if wanted("die-before-effect"):
        die()
    happen(name, text, key)
    if wanted("die-after-effect"):
        die()


@tool(effect="write")
def book(ctx: ToolContext, text: str) -> str:
    """Book something.

    Args:
        text: what to book
    """
    happen_or_die("book", text, ctx.idempotency_key)
    return f"booked {text}"


@tool(effect="idempotent")
def reserve(ctx: ToolContext, text: str) -> str:
    """Reserve something.

    Args:
        text: what to reserve
    """
    happen_or_die("reserve", text, ctx.idempotency_key)
    return f"reserved {text}"


@tool(job=True)
def render(ctx: ToolContext, text: str) -> Job:
    """Begin to render something.

    Args:
        text: what to render
    """
    happen_or_die("render", text, ctx.idempotency_key)
    return Job(f"job-{text}")


@tool(job=True, effect="idempotent")
def print_out(ctx: ToolContext, text: str) -> Job:
    """Begin to print something; it goes by the key of its call.

    Args:
        text: what to print
    """
    happen("print_out", text, ctx.idempotency_key)
    return Job()


@tool(effect="write", requires_approval=True)
def pay(ctx: ToolContext, text: str) -> str:
    """Pay something, once somebody has allowed it.

    Args:
        text: what to pay
    """
    happen_or_die("pay", text, ctx.idempotency_key)
    return f"paid {text}"


@tool
def send_mail(text: str) -> str:
    """Send a mail.

    Args:
        text: what to say in it
    """
    happen_or_die("send_mail", text, "")
    return "sent"


@tool(effect="read")
def look(text: str) -> str:
    """Look something up.

    Args:
        text: what to look up
    """
    happen("look", text, "")
    return f"looked at {text}"


@tool(effect="read")
def find(text: str) -> list[str]:
    """Find nothing.

    Args:
        text: what to find
    """
    happen("find", text, "")
    return []


@tool(effect="read", attempts=1)
def stumble(text: str) -> str:
    """Fail, each time.

    Args:
        text: what to say first
    """
    happen("stumble", text, "")
    raise RuntimeError("stumbled")


@tool(effect="read", timeout_seconds=60)
async def hold(text: str) -> str:
    """Hold the line until the file of that name is there.

    Args:
        text: the name of the file
    """
    happen("hold", text, "")
    while not (FOLDER / text).exists():  # noqa: ASYNC110  (a file has no event)
        await asyncio.sleep(0.02)
    return f"{text} is there"


@tool(effect="read", timeout_seconds=60)
def stand(text: str) -> str:
    """Wait in a thread until the file of that name is there.

    Args:
        text: the name of the file
    """
    happen("stand", text, "")
    while not (FOLDER / text).exists():
        time.sleep(0.02)
    return f"{text} is there"


@tool(effect="write", timeout_seconds=60)
async def linger(ctx: ToolContext, text: str) -> str:
    """Make an effect, and come back when the file of that name is there.

    Args:
        text: the name of the file
    """
    happen("linger", text, ctx.idempotency_key)
    while not (FOLDER / text).exists():  # noqa: ASYNC110  (a file has no event)
        await asyncio.sleep(0.02)
    return f"{text} is there"


@tool(effect="read")
def explode(text: str) -> str:
    """Kill the worker, each time.

    Args:
        text: what to say first
    """
    happen("explode", text, "")
    die()
    return "never"


@tool(effect="write", timeout_seconds=60)
async def block(ctx: ToolContext, text: str) -> str:
    """Make an effect, then keep the event loop from everybody else until a file is there.

    Args:
        text: the name of the file
    """
    happen("block", text, ctx.idempotency_key)
    while not (FOLDER / text).exists():
        time.sleep(0.02)  # noqa: ASYNC251  (the mistake that is tested)
    return "the loop is free again"


@tool(effect="read", timeout_seconds=60)
async def ignore(text: str) -> str:
    """Never end, whoever asks.

    Args:
        text: what to say first
    """
    happen("ignore", text, "")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass


@tool(effect="read", timeout_seconds=60)
async def occupy(text: str) -> str:
    """Wait for ever in one of the event loop's own threads.

    Args:
        text: what to say first
    """
    happen("occupy", text, "")
    await asyncio.to_thread(threading.Event().wait)
    return "never"


def _leave() -> None:
    sys.exit(9)


async def _left_alone() -> None:
    _leave()


async def _interrupted() -> None:
    raise KeyboardInterrupt


@tool(effect="read")
async def stray(text: str) -> str:
    """Start what would end the loop, beside the call.

    Args:
        text: what strays: task, interrupt, callback or stop
    """
    loop = asyncio.get_running_loop()
    if text == "task":
        STRAYS.append(asyncio.create_task(_left_alone()))
    elif text == "interrupt":
        STRAYS.append(asyncio.create_task(_interrupted()))
    else:
        loop.call_soon(_leave if text == "callback" else loop.stop)
    happen("stray", text, "")
    return f"{text} is on its way"


@tool(effect="read")
def chatter(text: str) -> str:
    """Say something in every way that Python has.

    Args:
        text: what to say
    """
    print(f"printed {text}")
    logging.getLogger("library").warning("logged %s, password=%s", text, SECRET)
    warnings.warn(f"warned of {text}", stacklevel=1)
    return "said"


@tool(effect="read", timeout_seconds=60)
async def cancel_all(text: str) -> str:
    """Cancel every task there is, as a script does at its end.

    Args:
        text: what to say first
    """
    happen("cancel_all", text, "")
    for each in asyncio.all_tasks():
        each.cancel()
    await asyncio.sleep(5)
    return "never"


@tool(effect="read", sequential="house")
def enter(ctx: ToolContext, text: str) -> str:
    """Go through a door.

    Args:
        text: which one
    """
    ctx.state.setdefault("key", SECRET)
    path = ctx.state.setdefault("path", [])
    path.append(text)
    happen("enter", "-".join(path), "" if ctx.state["key"] == SECRET else "no-key")
    return f"{len(path)} doors"

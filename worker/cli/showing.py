"""The demo command: play it, then stay up for whoever sits at a terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from worker.cli.exits import ANSWERED
from worker.cli.output import Paint

if TYPE_CHECKING:
    from worker.demo.display import Display

DEMO_EPILOG = """\
Starts a real worker on a SQLite queue in a temporary folder, an offline stand-in for a model, the
example tools, and a quote service that hangs for a while; hands in tasks in Chinese and English and
shows what happens. Needs no key and no network, and leaves nothing behind.

exit codes: 0 everything happened as it should · 1 something did not
"""


def configure_demo(parser: argparse.ArgumentParser) -> None:
    """Say what `demo` takes."""
    parser.description = "Show a whole worker at work."
    parser.epilog = DEMO_EPILOG
    parser.add_argument("--once", action="store_true", help="leave at the end, also on a terminal")


def demo(options: argparse.Namespace) -> int:
    """Play the demo."""
    from worker.cli.forever import run_forever
    from worker.demo.display import Display

    display = Display(_write, Paint(sys.stdout))
    stays = not options.once and sys.stdin.isatty() and sys.stdout.isatty()
    return run_forever(lambda: _play(display, stays=stays))


async def _play(display: Display, *, stays: bool) -> int:
    from worker.demo.scenario import run_demo

    checks = await run_demo(display, stay=_interruption if stays else None)
    return ANSWERED if all(check.holds for check in checks) else 1


def _interruption() -> asyncio.Event:
    """From now on Ctrl-C is the way out that is announced; an earlier one is an interrupt."""
    from worker.cli.forever import ending_signals

    interrupted = asyncio.Event()
    for number in ending_signals():
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    return interrupted


def _write(text: str) -> None:
    print(text, flush=True)

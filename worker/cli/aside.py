"""What tools and libraries say beside our own output, led to where it is in nobody's way.

Standard output belongs to answers, JSON and log lines: a `print` in a tool goes to stderr. What
asyncio has to say of a task that nobody waited for is a log line, or one line for a person where
the log is closed already; never a traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from worker.cli.output import one_line, tell


@contextlib.contextmanager
def prints_aside() -> Iterator[None]:
    """Lead `print` to stderr; whoever writes our own output has the stream already."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def tell_strays(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell what strayed into the loop; the exception handler of a command's event loop."""
    if logging.getLogger().handlers:
        loop.default_exception_handler(context)
        return
    error = context.get("exception")
    cause = "" if error is None else "".join(traceback.format_exception_only(error))
    told = ": ".join(filter(None, (context.get("message", "stray"), one_line(cause.strip()))))
    tell(f"loopworker: {told[:500]}")

"""The exit codes, the error that ends a command with one of them, and the way out."""

from __future__ import annotations

import os
import sys
from typing import Any

ANSWERED = 0
NOT_WELL = 1
USAGE = 2
NOT_ANSWERED = 3
UNREACHABLE = 4
INTERRUPTED = 130
BROKEN = 141  # 128 + SIGPIPE, as the shell has it

# Endings that hold an answer to the question, if only that there is none to be found. A hand-off is
# well for the objective, and yet it is a person who will answer: no script should go on as if.
ANSWERED_STATUSES = frozenset({"completed", "no_information"})

# Event loops with something in them that does not end; the interpreter would wait for it.
held_up: list[Any] = []


def leave(code: int) -> int:
    """Return the code, or end the process with it when something would keep it from ending."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:  # a tool may have closed it
                stream.flush()
        except OSError:
            # Whoever read us has gone; the interpreter must not complain when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if held_up:
        os._exit(code)
    return code


class CommandFailed(Exception):
    """The command cannot go on; the message is for the person who typed it."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code

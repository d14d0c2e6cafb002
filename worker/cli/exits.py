"""The exit codes, and the error that ends a command with one of them."""

from __future__ import annotations

ANSWERED = 0
USAGE = 2
NOT_ANSWERED = 3
UNREACHABLE = 4
INTERRUPTED = 130
BROKEN = 141  # 128 + SIGPIPE, as the shell has it

# Endings that hold an answer to the question, if only that there is none to be found.
ANSWERED_STATUSES = frozenset({"completed", "no_information", "handoff"})


class CommandFailed(Exception):
    """The command cannot go on; the message is for the person who typed it."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code

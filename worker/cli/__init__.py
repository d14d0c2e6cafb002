"""Commands for people: choose one, import what it needs and nothing else, turn errors into lines.

Each command is two functions in the module of its group: `configure_NAME(parser)` says what it
takes, `NAME(options)` does it and returns the exit code. `loopworker --help` imports neither.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from worker.cli.exits import BROKEN, INTERRUPTED, UNREACHABLE, USAGE, CommandFailed, leave

OVERVIEW = """\
loopworker runs LLM tool-calling loops behind a queue: guarded, journaled, observed.

usage: loopworker COMMAND [OPTIONS]        loopworker COMMAND --help for what each one takes

{commands}

examples:
  loopworker demo                          a whole worker at work, without a key or a network
  export LOOPWORKER_MODEL_URL=https://api.example.com/v1 LOOPWORKER_MODEL=… OPENAI_API_KEY=…
  loopworker ask "现在几点?"                one answer in the foreground
  loopworker run --concurrency 32          a worker on the queue of LOOPWORKER_QUEUE_URL
  loopworker submit "What time is it?" --wait

exit codes: 0 answered or done · 2 wrong usage or settings · 3 not answered (why: on stderr)
            4 cannot reach what it needs · 130 interrupted
"""


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of whatever stdout leads to
SHOWN_MAX = 4_000  # characters of a message


@dataclass(frozen=True, slots=True)
class Command:
    """One line of the overview, and the module that holds the command."""

    group: str
    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "demo": Command("Begin", "showing", "show a whole worker: answers, a breaking tool, recovery"),
    "ask": Command("Begin", "asking", "run one loop here and print the answer"),
    "run": Command("Work", "working", "run a worker until it is told to stop"),
    "health": Command("Work", "working", "ask a running worker whether it is well (exit 0 or 1)"),
    "submit": Command("Tasks", "tasks", "hand a task in"),
    "status": Command("Tasks", "tasks", "say where a task is, and its result"),
    "watch": Command("Tasks", "tasks", "follow a task until it ends"),
    "cancel": Command("Tasks", "operating", "stop a task, waiting or running"),
    "approve": Command("Tasks", "deciding", "allow a call that waits for it, or list what waits"),
    "deny": Command("Tasks", "deciding", "refuse a call that waits for approval"),
    "replay": Command("Tasks", "replaying", "show each step of a run, decided again by now's code"),
    "tools": Command("Tools", "toolbox", "list, lint and call tools"),
    "guard": Command("Operate", "operating", "show, open, close or release a breaker"),
    "dead": Command("Operate", "operating", "list, show and redrive dead letters"),
    "config": Command("Operate", "inspecting", "print every setting: value, source, default"),
    "doctor": Command("Operate", "inspecting", "check settings, tools and connections"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are one line on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    open_missing_streams()
    speak_utf8()
    try:
        code = dispatch(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = BROKEN  # whoever read us has seen enough
    except CommandFailed as failure:
        code = complain(str(failure), failure.code)
    except Exception as error:
        code = complain(*explain(error))
    return leave(code)


def dispatch(words: list[str]) -> int:
    """Find the command, parse its options, run it."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(OVERVIEW.format(commands=command_list()), end="")
        return 0 if words else USAGE
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"loopworker {version('loopworker')}")
        return 0
    name = words[0]
    command = COMMANDS.get(name)
    if command is None:
        raise CommandFailed(f"there is no command {name!r}{similar(name)}", code=USAGE)
    module = importlib.import_module(f"worker.cli.{command.module}")
    parser = argparse.ArgumentParser(
        prog=f"loopworker {name}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    getattr(module, f"configure_{name}")(parser)
    options = parser.parse_args(words[1:])
    code: int = getattr(module, name)(options)
    return code


def command_list() -> str:
    """Write the commands in their groups."""
    lines, group = [], ""
    for name, command in COMMANDS.items():
        lines.append(
            f"  {'' if command.group == group else command.group:<9}{name:<8} {command.summary}"
        )
        group = command.group
    return "\n".join(lines)


def similar(name: str) -> str:
    """Guess what a wrong name was meant to be."""
    import difflib

    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} (loopworker --help lists them)"


def explain(error: Exception) -> tuple[str, int]:
    """Turn an error into a line and an exit code."""
    from worker.core.errors import ConfigError, FileTooNew, TaskInvalid, WorkerError

    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, FileTooNew):
        return str(error), UNREACHABLE
    if isinstance(error, ConfigError | TaskInvalid):
        return str(error), USAGE
    if isinstance(error, WorkerError):
        cause = str(error.__cause__ or "")
        told = f" ({cause})" if cause not in str(error) else ""
        return f"{error}{told}", UNREACHABLE
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"the output cannot be written: {error.strerror}", UNREACHABLE
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}: raise the limit (ulimit -n)", UNREACHABLE
    if os.environ.get("PYTHONDEVMODE") or sys.flags.dev_mode:
        raise error
    what = f"{type(error).__name__}: {error}"
    return f"a bug in loopworker: {what} (python -X dev -m worker … shows where)", 1


def complain(message: str, code: int) -> int:
    """Write an error to stderr and return the code."""
    try:
        print(f"loopworker: {readable(message)}", file=sys.stderr)
    except (OSError, ValueError):
        pass  # nobody reads it any more: a closed pipe, a terminal that has gone
    return code


def readable(message: str) -> str:
    """Quoted values may hold anything: nothing moves the cursor, and one screen is enough."""
    text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in message)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}… ({len(text)} characters)"


def open_missing_streams() -> None:
    """Give a process that was started without one of them (`2>&-`) the null device in its place.

    Otherwise Python has no stream at all, and the number goes to the next file that is opened.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            missing = os.open(os.devnull, os.O_RDWR)
            if missing != number:
                os.dup2(missing, number)
                os.close(missing)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  (for good)
            setattr(sys, name, stream)


def speak_utf8() -> None:
    """Answers may be in any language; the locale of a container or a cron job rarely is."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")

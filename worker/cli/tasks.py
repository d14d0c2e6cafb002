"""Commands of somebody who has a task: hand it in, look at it, follow it. No worker need run."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from typing import Any

from worker.cli.advice import advice
from worker.cli.deciding import told_of
from worker.cli.exits import (
    ANSWERED,
    ANSWERED_STATUSES,
    NOT_ANSWERED,
    USAGE,
    CommandFailed,
)
from worker.cli.output import Paint, one_line, print_json, tell
from worker.core.task import Result
from worker.core.wireformat import result_to_wire

SUBMIT_EPILOG = """\
Prints the id. The same id is queued once, so a submit that failed half way may be repeated.

examples:
  loopworker submit "现在几点?"
  loopworker submit "What is AAPL at?" --wait              wait for the answer and print it
  loopworker submit - < question.txt                       the text from standard input
  echo '{"id": "t-1", "input": "…", "max_steps": 3}' | loopworker submit - --json-task
"""
STATUS_EPILOG = """\
exit codes: 0 answered · 3 not (yet) answered, or unknown

examples:
  loopworker status t-1
  loopworker status t-1 --json | jq .result.status
"""
WATCH_EPILOG = """\
Steps go to stderr, the answer to stdout. May be started before, during or after the run.

example:
  loopworker watch "$(loopworker submit 'What time is it in Tokyo?')"
"""
UNCLAIMED_SECONDS = 3.0  # a worker that runs takes a task in a second
INPUT_BYTES_MAX = 1_048_576


def configure_submit(parser: argparse.ArgumentParser) -> None:
    """Say what `submit` takes."""
    parser.description = "Hand a task in at LOOPWORKER_QUEUE_URL."
    parser.epilog = SUBMIT_EPILOG
    parser.add_argument("text", metavar="TEXT|-", help="the input; - reads it from stdin")
    parser.add_argument(
        "--json-task", action="store_true", help="the text is a whole task as a JSON object"
    )
    parser.add_argument("--id", help="the task's id, its deduplication key (default: a new one)")
    parser.add_argument("--session", metavar="ID", help="go on with the conversation of that name")
    parser.add_argument("--wait", action="store_true", help="follow the task and print its answer")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON: the receipt, or with --wait the whole result",
    )


def submit(options: argparse.Namespace) -> int:
    """Hand a task in, and wait for it if told to."""
    from worker.cli.places import with_desk

    body = _task_body(options)
    return with_desk(lambda place: _submit(place, body, options))


async def _submit(place: Any, body: bytes, options: argparse.Namespace) -> int:
    submitted = await place.desk.submit(body, content_type="application/json")
    task_id = submitted.task.id
    if not submitted.created:
        tell(f"loopworker: {one_line(task_id)} is known already; it was not queued again")
    if not options.wait:
        if options.json:
            print_json(await place.desk.receipt(submitted))
        else:
            print(task_id)
        return ANSWERED
    tell(f"loopworker: task {one_line(task_id)}")
    reminding = asyncio.create_task(_remind(place, task_id))
    try:
        return await _follow(place, task_id, as_json=options.json)
    except asyncio.CancelledError:
        tell(await _left_behind(place, task_id))
        raise
    finally:
        reminding.cancel()


async def _remind(place: Any, task_id: str) -> None:
    """Say once, after a while, why the task has not begun."""
    await asyncio.sleep(UNCLAIMED_SECONDS)
    view = await place.desk.look(task_id)
    if view is None or view.status != "queued" or view.run is not None:
        return
    if not view.waiting and (view.why is None or view.why.reason == "worker"):
        tell(f"loopworker: not taken yet; is a worker running on {place.where}?")
    else:
        _tell_why(view)


async def _left_behind(place: Any, task_id: str) -> str:
    """Say what becomes of a task that is not waited for any longer."""
    view = await place.desk.look(task_id)
    status = view.status if view is not None else "queued"
    return f"loopworker: still {status}: loopworker watch {one_line(task_id)}"


def _task_body(options: argparse.Namespace) -> bytes:
    text = read_text(options.text)
    if options.json_task:
        for name, value in (("--id", options.id), ("--session", options.session)):
            if value is not None:
                raise CommandFailed(f"{name}: write it into the task itself", code=USAGE)
        return text
    task = {"input": decoded(text)}
    if options.id is not None:
        task["id"] = options.id
    if options.session is not None:
        task["session_id"] = options.session
    return json.dumps(task).encode()


def configure_status(parser: argparse.ArgumentParser) -> None:
    """Say what `status` takes."""
    parser.description = (
        "Say where a task is: queued, running, cancelling or finished, and its result."
    )
    parser.epilog = STATUS_EPILOG
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--json", action="store_true", help="print JSON")


def status(options: argparse.Namespace) -> int:
    """Say where a task is."""
    from worker.cli.places import with_desk

    return with_desk(lambda place: _status(place, options))


async def _status(place: Any, options: argparse.Namespace) -> int:
    view = await place.desk.look(options.id, with_steps=True)
    if view is None:
        raise CommandFailed(f"there is no task {options.id!r}", code=NOT_ANSWERED)
    if options.json:
        print_json(view.to_wire())
        return exit_code(view.result) if view.result else NOT_ANSWERED
    if view.result is None:
        where = f" ({view.place})" if view.place and view.place != view.status else ""
        print(f"{view.status}{where}")
        _tell_steps(view.steps)
        _tell_why(view)
        return NOT_ANSWERED
    code = print_result(view.result)
    _tell_steps(view.steps)
    return code


def _tell_why(view: Any) -> None:
    """Say what a task waits for, or who has it."""
    if view.why is not None and not view.waiting:
        tell(f"loopworker: {one_line(view.why.text)}")
    for waiting in view.waiting:
        tell(f"loopworker: {told_of(waiting, view.id)}")


def _tell_steps(steps: dict[str, Any] | None) -> None:
    if steps is not None:
        reason = one_line(steps["reason"])
        tell(f"loopworker: {steps['taken']} of at most {steps['max']} steps ({reason})")


def configure_watch(parser: argparse.ArgumentParser) -> None:
    """Say what `watch` takes."""
    parser.description = "Follow a task, step by step, until it ends."
    parser.epilog = WATCH_EPILOG
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--json", action="store_true", help="print the whole result at the end")


def watch(options: argparse.Namespace) -> int:
    """Follow a task."""
    from worker.cli.places import with_desk

    return with_desk(lambda place: _watch(place, options))


async def _watch(place: Any, options: argparse.Namespace) -> int:
    view = await place.desk.look(options.id)
    if view is None:
        raise CommandFailed(f"there is no task {options.id!r}", code=NOT_ANSWERED)
    if view.result is None and view.run is None:
        _tell_why(view)  # nothing of it has happened yet
    return await _follow(place, options.id, as_json=options.json)


async def _follow(place: Any, task_id: str, *, as_json: bool) -> int:
    from worker.web.stream import follow

    paint = Paint(sys.stderr)
    async for update in follow(place.journal, task_id):
        if update is not None and not update.is_final:
            tell(paint(f"{update.seq:>4}  ", "dim") + update.content.replace("\n", "\n      "))
    result = await place.journal.result(task_id)
    if result is None:
        raise CommandFailed(f"the result of {task_id!r} is gone", code=NOT_ANSWERED)
    return print_result(result, as_json=as_json)


def print_result(result: Result, *, as_json: bool = False) -> int:
    """Print an answer, or as JSON the whole result; tell what is wrong with it on stderr."""
    code = exit_code(result)
    if as_json:
        print_json(result_to_wire(result))
    elif result.answer:
        print(result.answer)
    if code != ANSWERED:
        why = f": {one_line(why_of(result))}" if why_of(result) else ""
        tell(f"loopworker: not answered: {result.status}{why}")
        hint = advice(result)
        if hint is not None and not as_json:
            tell(f"loopworker: {hint}")
    if not as_json and str(result.status) != "cancelled":  # the rest of its calls were skipped
        for part in result.degraded:
            tell(f"loopworker: degraded: {part.tool}: {part.source} ({part.reason or 'unknown'})")
        for sign in result.diagnosis:
            tell(f"loopworker: {sign.symptom}: {one_line(sign.hint)}")
    return code


def why_of(result: Result) -> str | None:
    """Say why a result is none that one can go on with."""
    by = result.handoff
    if by is None:
        return result.error
    return f"by rule {by.rule!r}, {'the answer' if by.tool is None else by.tool}: {by.reason}"


def exit_code(result: Result) -> int:
    """Say whether a result holds an answer."""
    return ANSWERED if str(result.status) in ANSWERED_STATUSES else NOT_ANSWERED


def read_text(text: str) -> bytes:
    """Return an argument as the bytes that were typed, or standard input for `-`."""
    if text != "-":
        return os.fsencode(text)
    if sys.stdin.isatty():
        tell("loopworker: reading the task from the terminal; end with Ctrl-D")
    raw = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
    if len(raw) > INPUT_BYTES_MAX:
        raise CommandFailed(f"stdin: more than {INPUT_BYTES_MAX} bytes", code=USAGE)
    return raw


def decoded(raw: bytes) -> str:
    """Read what was typed or piped in. Raises CommandFailed where it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"the text is not UTF-8 (byte {error.start})"
        raise CommandFailed(message, code=USAGE) from None

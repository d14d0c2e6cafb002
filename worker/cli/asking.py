"""The ask command: one loop in the foreground, over the same code path as the worker."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.cli.exits import UNREACHABLE, USAGE, CommandFailed
from worker.cli.output import Paint, tell
from worker.cli.remote import no_answer
from worker.cli.tasks import decoded, print_result, read_text
from worker.core.history import OLDER_ROLES, ROLES

if TYPE_CHECKING:
    from worker.app import Worker
    from worker.cli.consent import Consent
    from worker.configuration import Loaded
    from worker.core.task import Result, Task
    from worker.store.port import Journal
    from worker.web.stream import News

ASK_EPILOG = """\
Needs a model: LOOPWORKER_MODEL_URL (or OPENAI_BASE_URL), LOOPWORKER_MODEL, LOOPWORKER_API_KEY (or
OPENAI_API_KEY). Without one, try the offline stand-in:

  python -m worker.model.offline --port 8091 &
  LOOPWORKER_MODEL_URL=http://127.0.0.1:8091/v1 loopworker ask "现在几点?"

The answer goes to stdout, progress (on a terminal) and what it lacks to stderr; lines of the log as
well when LOOPWORKER_LOG_LEVEL asks for them. Nothing is kept, unless
LOOPWORKER_QUEUE_URL or LOOPWORKER_STORE_URL names a place, or --session names a conversation (then
in loopworker.db, as with `run`).

A call that needs an approval is asked about at the terminal. Where there is none it is denied, unless
the run is kept somewhere: then it waits for `loopworker approve`.

examples:
  loopworker ask "What time is it in Tokyo?"
  loopworker ask "苹果股价多少?" --json | jq .usage
  loopworker ask "…" --tools my_tools.py
  loopworker ask "Price of ACME?" --session desk1; loopworker ask "And of IBM?" --session desk1
  loopworker ask "And in London?" --history earlier.json       a JSON list of chat messages

exit codes: 0 answered · 2 wrong usage or settings · 3 not answered, or handed over to a person
            4 the model is out of reach
"""


def configure_ask(parser: argparse.ArgumentParser) -> None:
    """Say what `ask` takes."""
    parser.description = "Run one loop here and print the answer."
    parser.epilog = ASK_EPILOG
    parser.add_argument("text", metavar="TEXT|-", help="the question; - reads it from stdin")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    parser.add_argument("--tools", metavar="FILE", help="tools to offer, as in LOOPWORKER_TOOLS")
    parser.add_argument("--history", metavar="FILE", help="earlier messages, a JSON list")
    parser.add_argument("--session", metavar="ID", help="go on with the conversation of that name")
    parser.add_argument("--max-steps", type=int, metavar="N", help="model replies at most")


def ask(options: argparse.Namespace) -> int:
    """Run one loop and print its answer."""
    from worker.app import Worker
    from worker.cli.aside import prints_aside
    from worker.cli.forever import run_forever
    from worker.configuration import load
    from worker.ids import new_task_id
    from worker.intake import read_task

    history = _history(options.history) if options.history else None
    wire: dict[str, Any] = {"input": decoded(read_text(options.text))}
    if options.max_steps is not None:
        wire["max_steps"] = options.max_steps
    if options.session is not None:
        if history is not None:
            raise CommandFailed("--session and --history: give one of them", code=USAGE)
        wire["session_id"] = options.session
    body = json.dumps(wire).encode()
    task = read_task(body, default_id=new_task_id(), content_type="application/json")
    loaded = adjusted(load(), tools=options.tools, keeps=options.session is not None)
    result = None

    async def answer() -> int:
        nonlocal result
        worker = Worker(loaded=loaded, log_stream=sys.stderr)
        worker.seen.logs.install()
        with prints_aside():
            result = await _answer(worker, task, history)
        return 0

    run_forever(answer)
    assert result is not None
    if str(result.status) == "model_unavailable" and not options.json:
        away = no_answer(loaded.settings.model_url or "", result.error or "")
        result = dataclasses.replace(result, error=away)
    code = print_result(result, as_json=options.json)
    return UNREACHABLE if str(result.status) == "model_unavailable" else code


def adjusted(loaded: Loaded, *, tools: str | None, keeps: bool = False) -> Loaded:
    """Fit the settings to one question: nothing kept unless asked for, readable on a terminal.

    A conversation has to be kept (`keeps`): then it goes where a worker would keep it.
    """
    changes: dict[str, Any] = {}
    sources = loaded.sources
    if tools is not None:
        changes["tools"] = tools
    if not keeps and not {("queue_url",), ("store_url",)} & set(sources):
        changes["queue_url"] = "memory://"
    if ("log_level",) not in sources:
        changes["log_level"] = "error"  # what the answer lacks is said in words, after it
        if sys.stderr.isatty() and ("log_format",) not in sources:
            changes["log_format"] = "console"
    settings = loaded.settings.model_copy(update=changes)
    return dataclasses.replace(loaded, settings=settings)


async def _answer(worker: Worker, task: Task, history: list[dict[str, Any]] | None) -> Result:
    await worker.start(claim=False)
    consent, progress = _consent_of(worker), Progress(worker.store, task.id)
    watching = asyncio.create_task(progress.show()) if sys.stderr.isatty() else None

    async def parked(task_id: str) -> None:
        if watching is not None:
            await progress.caught_up()
        await consent(task_id)

    try:
        result = await worker.ask(task, history=history, waiting=_say_waiting, parked=parked)
        if watching is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await watching
        return result
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await worker.stop()


def _consent_of(worker: Worker) -> Consent:
    from worker.cli.consent import Consent

    settings = worker.settings
    is_shared = not (settings.store_url or settings.queue_url).startswith("memory:")
    return Consent(worker.desk.waiting, is_shared=is_shared)


def _say_waiting() -> None:
    tell("loopworker: another task has this session; waiting for it to end")


class Progress:
    """Tells on stderr what the run of one task does, and knows whether all of it is told."""

    def __init__(self, journal: Journal, task_id: str) -> None:
        self._journal = journal
        self._task_id = task_id
        self._looks = 0  # that found nothing new
        self._looked = asyncio.Event()

    async def show(self) -> None:
        """Tell each step until the run has ended."""
        from worker.web.stream import follow

        paint = Paint(sys.stderr)
        async for update in follow(self._journal, self._task_id, hint=_quickly):
            if update is None:
                self._looks += 1
                self._looked.set()
            elif not update.is_final:
                tell(paint(update.content, "dim"))

    async def caught_up(self, *, seconds: float = 1.0) -> None:
        """Wait, so long at most, until everything journaled before this call is on the screen."""
        # Of the looks that find nothing the first may have begun earlier; the second has not.
        enough = self._looks + 2
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._looks < enough:
                    self._looked.clear()
                    await self._looked.wait()


@contextlib.asynccontextmanager
async def _quickly(task_id: str) -> AsyncIterator[News]:
    yield lambda seconds: asyncio.sleep(min(seconds, 0.1))


def _history(file: str) -> list[dict[str, Any]]:
    try:
        messages = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandFailed(f"--history {file}: {error.strerror}", code=USAGE) from error
    except ValueError as error:
        raise CommandFailed(f"--history {file}: not JSON: {error}", code=USAGE) from error
    if not isinstance(messages, list):
        raise CommandFailed(f"--history {file}: must be a JSON list of messages", code=USAGE)
    known = (*ROLES, *OLDER_ROLES)
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in known:
            raise CommandFailed(
                f"--history {file}: message {number} needs a role: {', '.join(ROLES)}", code=USAGE
            )
    return messages

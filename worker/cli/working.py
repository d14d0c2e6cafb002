"""Commands for the long-running worker: run it, and ask it whether it is well."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import http.client
import sys
from typing import TYPE_CHECKING

from worker.cli.exits import ANSWERED, NOT_WELL, CommandFailed
from worker.cli.output import tell
from worker.cli.remote import fetch, split_address
from worker.cli.several import Place, check_processes, own_admin, supervise

if TYPE_CHECKING:
    from worker.app import Worker

RUN_EPILOG = """\
Claims tasks from LOOPWORKER_QUEUE_URL (default sqlite:///loopworker.db) until SIGTERM, Ctrl-C
or the end of its terminal; then it claims no more, lets running tasks end within
LOOPWORKER_WORKER__DRAIN_SECONDS, hands the rest back and exits 0. A second signal hands them back
at once. Under nohup it lives on without a terminal. Logs go to stdout, one JSON line per event.
With --processes each one is a worker by itself, with its own tasks in work, and its metrics on the
port of LOOPWORKER_ADMIN plus its number, from 1; the port itself is ready when all of them are.

examples:
  loopworker run
  loopworker run --concurrency 64
  loopworker run --processes 4          one for each core; restarted when one ends
  LOOPWORKER_QUEUE_URL=sqlite:////data/tasks.db loopworker run

while it runs:
  curl http://127.0.0.1:9464/metrics                             LOOPWORKER_ADMIN
  curl http://127.0.0.1:8080/v1/tasks -d 'What time is it?' -H 'Content-Type: text/plain'
"""
HEALTH_EPILOG = """\
For the HEALTHCHECK of a container. Asks the admin listener (LOOPWORKER_ADMIN), which answers also
while the event loop is stuck.

exit codes: 0 well · 1 not well, or nobody answers
"""


def configure_run(parser: argparse.ArgumentParser) -> None:
    """Say what `run` takes."""
    parser.description = "Run a worker until it is told to stop."
    parser.epilog = RUN_EPILOG
    parser.add_argument(
        "--concurrency",
        type=int,
        metavar="N",
        help="tasks in work at once (LOOPWORKER_CONCURRENCY), in each process",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="worker processes (default 1; the rule for containers)",
    )
    parser.add_argument("--as-process", type=Place.read, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Run a worker."""
    from worker.cli.forever import run_forever
    from worker.configuration import load

    loaded = load()
    if options.concurrency is not None:
        if not 1 <= options.concurrency <= 100_000:
            raise CommandFailed("--concurrency: must be from 1 to 100000", code=2)
        settings = loaded.settings.model_copy(update={"concurrency": options.concurrency})
        sources = {**loaded.sources, ("concurrency",): "--concurrency"}
        loaded = dataclasses.replace(loaded, settings=settings, sources=sources)
    check_processes(loaded.settings, options.processes)
    if options.processes > 1:
        given = options.concurrency
        arguments = [] if given is None else ["--concurrency", str(given)]
        return run_forever(lambda: supervise(loaded.settings, options.processes, arguments))
    place = options.as_process
    if place is not None:
        settings = loaded.settings.model_copy(update={"admin": own_admin(loaded, place)})
        loaded = dataclasses.replace(loaded, settings=settings)

    async def work() -> int:
        from worker.app import Worker

        listener = place.listener() if place else None
        return await _work(Worker(loaded=loaded, api_listener=listener), place)

    return run_forever(work)


async def _work(worker: Worker, place: Place | None) -> int:
    from worker.cli.aside import prints_aside
    from worker.cli.forever import CANCELLED, ending_signals

    loop = asyncio.get_running_loop()
    working = asyncio.current_task()
    assert working is not None
    was_asked = False

    def stop() -> None:
        nonlocal was_asked
        was_asked = True
        if worker.state == "draining":
            working.cancel()  # the second signal: hand everything back at once
        else:
            worker.begin_drain()

    for number in ending_signals():
        loop.add_signal_handler(number, stop)
    if place is not None:
        place.watch(stop)
    worker.seen.logs.install()  # this process is ours, so what tools and libraries log is as well
    with prints_aside():
        await worker.start()
        _tell_started(worker)
        try:
            await worker.serve()
        except asyncio.CancelledError:
            working.uncancel()
            await worker.stop()
    if not was_asked:
        raise CommandFailed(CANCELLED, code=NOT_WELL)
    return ANSWERED


def _tell_started(worker: Worker) -> None:
    from worker.checks import unused_guards

    for name in worker.loaded.ignored:
        tell(f"loopworker: {name} is set, but means nothing here")
    tools = [(tool.name, tool.dependency) for tool in worker.registry]
    for line in unused_guards(worker.settings, tools):
        tell(f"loopworker: {line}")
    if sys.stderr.isatty():
        admin, api = worker.admin, worker.api
        tell(f"loopworker: running · admin {admin.url if admin else 'off'}")
        tell(f"loopworker:           API {api.url if api else 'off'} · Ctrl-C drains and stops")


def configure_health(parser: argparse.ArgumentParser) -> None:
    """Say what `health` takes."""
    parser.description = "Ask a running worker whether it is well."
    parser.epilog = HEALTH_EPILOG
    parser.add_argument(
        "--ready",
        action="store_true",
        help="ask whether it claims tasks, not only whether it lives",
    )


def health(options: argparse.Namespace) -> int:
    """Ask the admin listener."""
    from worker.configuration import load

    address = split_address(load().settings.admin, setting="LOOPWORKER_ADMIN")
    page = "/readyz" if options.ready else "/healthz"
    try:
        status, body = fetch(address, page)
    except (OSError, http.client.HTTPException) as error:
        raise CommandFailed(
            f"nobody answers at {address[0]}:{address[1]} ({error})", code=1
        ) from error
    print(body.strip())
    return ANSWERED if status == 200 else 1

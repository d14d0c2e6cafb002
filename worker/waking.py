"""Wake a run that waits: a parked one, or the next one of a session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable

from worker.core.errors import QueueUnavailable
from worker.queues.port import Queue
from worker.store.port import Journal, Run


async def wake(run_id: str, queue: Queue, journal: Journal) -> None:
    """Make the task of a run claimable, because what the run waits for has come.

    May be repeated. Raises QueueUnavailable and StoreUnavailable.
    """
    body = await queue.body(run_id)
    if body is None:
        body = await _body_of(run_id, journal)
    await queue.wake(run_id, afresh=True, body=body)


async def wake_next(run: Run, wake: Callable[[str], Awaitable[object]]) -> None:
    """Let the task come that waits for the session which this run has let go of.

    An outage of the queue costs only time: the delay of that task brings it as well.
    """
    if run.session is not None and run.session.next_run is not None:
        with contextlib.suppress(QueueUnavailable):
            await wake(run.session.next_run)


async def _body_of(run_id: str, journal: Journal) -> bytes | None:
    """The task as the journal has it, for an engine that cannot look for one."""
    view = await journal.view(run_id)
    if view is None or view.result is not None:
        return None
    begun = next((event["data"] for event in view.events if event["kind"] == "started"), None)
    return None if begun is None else json.dumps(begun["task"]).encode()

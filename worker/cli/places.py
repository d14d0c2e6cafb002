"""Queue and store for commands that work on them directly, without a running worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from worker.configuration import load, masked, named
from worker.consuming.publishing import Publisher
from worker.core.errors import ConfigError
from worker.ids import new_task_id
from worker.queues import open_queue
from worker.queues.port import Queue
from worker.settings import Settings
from worker.store import open_store
from worker.store.port import Journal
from worker.telemetry.tell import Telemetry
from worker.web.desk import Desk


@dataclass(frozen=True, slots=True)
class Place:
    """An open queue and journal, and the desk over them. `where`: the queue, for people."""

    settings: Settings
    queue: Queue
    journal: Journal
    desk: Desk
    where: str


def with_desk(work: Callable[[Place], Awaitable[int]]) -> int:
    """Open what the settings name, do the work, close; returns the work's exit code."""
    settings = load().settings
    return asyncio.run(_work(settings, work))


async def _work(settings: Settings, work: Callable[[Place], Awaitable[int]]) -> int:
    with named("QUEUE_URL"):
        if settings.queue_url.partition(":")[0].lower() == "memory":
            raise ConfigError(
                "memory:// is a queue within one worker; hand tasks to it over its API, or name"
                " what both can reach: sqlite:///file.db"
            )
        queue = open_queue(
            settings.queue_url,
            **settings.queue_options(),
        )
    with named("STORE_URL" if settings.store_url else "QUEUE_URL"):
        journal = open_store(settings.store_url or settings.queue_url)
    try:
        publish = Publisher(queue, Telemetry()).publish
        desk = Desk(
            queue,
            journal,
            now=time.time,
            new_id=new_task_id,
            publish=publish,
            sessions=settings.session_options(),
        )
        return await work(Place(settings, queue, journal, desk, _absolute(settings.queue_url)))
    finally:
        await queue.close()
        await journal.close()


def _absolute(url: str) -> str:
    """Name a file by its whole path: two shells in two folders mean two queues by one URL."""
    scheme, _, path = url.partition(":///")
    if scheme == "sqlite" and path and not path.startswith("/"):
        path = str(Path(path.partition("?")[0]).absolute())
    return f"{scheme}:///{path}" if path else masked(url)

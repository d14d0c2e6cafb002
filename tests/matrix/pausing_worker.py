"""The worker, waiting at a point of the work: `python pausing_worker.py claim|finish|ack`.

At the point, before the call is made, it leaves the file `paused` and waits for the file `resume`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from worker.app import Worker
from worker.configuration import load

FOLDER = Path(os.environ["EFFECTS"])


async def pause() -> None:
    """Say that the point is reached, and wait."""
    (FOLDER / "paused").touch()
    while not (FOLDER / "resume").exists():  # noqa: ASYNC110  (a file has no event)
        await asyncio.sleep(0.01)


def pausing(call: Any) -> Any:
    """The same call, after a pause the first time."""
    paused: list[bool] = []

    async def paused_call(*arguments: Any, **options: Any) -> Any:
        if not paused:
            paused.append(True)
            await pause()
        return await call(*arguments, **options)

    return paused_call


async def work(point: str) -> None:
    """Run a worker that pauses once."""
    worker = Worker(loaded=load())
    await worker.start()
    for part in (worker.queue, worker.store):
        if hasattr(part, point):
            setattr(part, point, pausing(getattr(part, point)))
    await worker.serve()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))

"""A worker that answers many tasks and tells what it weighs: `python soaking_worker.py ROUNDS SIZE`.

Each round puts SIZE tasks, waits until all are answered and forgotten, and prints one JSON line:
bytes of the file, of it in use, and of its log, resident memory, descriptors, threads, tasks.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker import tool
from worker.app import Worker
from worker.configuration import load
from worker.model.scripted import ScriptedModel, answer, calls
from worker.queues.port import Ticket

TABLES = ("task", "run", "event")


@tool(effect="read")
async def measure(text: str) -> str:
    """Measure something.

    Args:
        text: what to measure
    """
    return f"{text} measures 42"


def reply(request: Any) -> Any:
    """Ask for the tool once, then answer."""
    if request.messages[-1].role == "tool":
        return answer("It measures 42.")
    return calls(("measure", {"text": "it"}))


class ForgetfulModel(ScriptedModel):
    """A scripted model that keeps no requests: it is the worker that is weighed."""

    async def reply(self, request: Any) -> Any:
        """Answer, and forget what was asked."""
        made = await super().reply(request)
        self.requests.clear()
        return made


async def put(worker: Worker, first: int, size: int) -> None:
    """Put tasks, many at once."""
    for start in range(first, first + size, 500):
        numbers = range(start, min(start + 500, first + size))
        tickets = [Ticket(id=f"t{n}", body=b'{"input": "Measure it."}') for n in numbers]
        await asyncio.gather(*(worker.queue.put(ticket) for ticket in tickets))


async def forgotten(rows: Any) -> None:
    """Wait until nothing is left of any task."""
    async with asyncio.timeout(50):
        while any(rows()):  # noqa: ASYNC110  (another thread deletes them)
            await asyncio.sleep(0.1)


def weigh(path: Path, pragma: Callable[[str], int]) -> dict[str, int]:
    """Measure this process and its file."""
    gc.collect()
    pages = pragma("page_count") - pragma("freelist_count")
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "file": path.stat().st_size,
        "in use": pages * pragma("page_size"),
        "log": Path(f"{path}-wal").stat().st_size,
        "resident": int(resident.split()[1]) * 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
    }


async def soak(rounds: int, size: int) -> None:
    """Go through the rounds."""
    worker = Worker(loaded=load(), tools=[measure], model=ForgetfulModel(otherwise=reply))
    path = Path(worker.settings.queue_url.removeprefix("sqlite:///").partition("?")[0])
    async with worker:
        looking = sqlite3.connect(path, isolation_level=None)

        def rows() -> list[int]:
            return [
                looking.execute(f"select count(*) from {name}").fetchone()[0] for name in TABLES
            ]

        def pragma(name: str) -> int:
            return int(looking.execute(f"pragma {name}").fetchone()[0])

        for number in range(rounds):
            await put(worker, number * size, size)
            await forgotten(rows)
            print("SOAK", json.dumps(weigh(path, pragma)), flush=True)
        looking.close()


if __name__ == "__main__":
    asyncio.run(soak(int(sys.argv[1]), int(sys.argv[2])))

"""One run of 200 steps with results of 2 KB: what does a step cost, late in a conversation?

`python -m tests.bench.steps --url …` prints one JSON object: CPU milliseconds and stored bytes of
each step, and the bytes of the database. The model server must be started with `--calls 199`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.gauge import QUESTION
from tests.bench.worked import export_to_nobody, worker_tools
from worker import Settings, Task, Worker
from worker.app import relieved_collector

STEPS = 200
RESULT = "x" * 2_000


async def measure(url: str, folder: Path) -> dict[str, Any]:
    """Run the conversation; the tools note the CPU time at each step."""
    export_to_nobody()
    marks: list[float] = []

    async def note(key: str, region: str) -> str:
        marks.append(time.process_time())
        return f"{key} {region} {RESULT}"

    tools = worker_tools({"look_up": named(note, "look_up"), "measure": named(note, "measure")})
    settings = Settings(
        admin="off",
        http="off",
        loop={"steps_ceiling": 1000},
        max_steps=STEPS,
        model="mock-1",
        model_url=url,
        queue_url=f"sqlite:///{folder}/steps.db",
        max_history_messages=1000,
    )
    with (folder / "lines.jsonl").open("w") as log:
        async with Worker(settings, tools=tools, log_stream=log) as running:
            with relieved_collector():
                task_id = await running.submit(Task(id="steps", input=QUESTION))
                result = await running.result(task_id, wait_seconds=120)
    assert result is not None and result.status == "completed", result.status
    cpu = [(after - before) * 1e3 for before, after in itertools.pairwise(marks)]
    sizes = stored(folder / "steps.db")
    return {"cpu_ms": cpu, "stored_bytes": sizes, "steps": len(marks) + 1}


def named(function: Any, name: str) -> Any:
    """Return a copy of an async tool function under another name."""

    async def copy(key: str, region: str) -> str:
        return str(await function(key, region))

    copy.__name__ = name
    return copy


def stored(path: Path) -> list[int]:
    """Return the bytes that each write of the only run's journal stored, in order."""
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("select length(body) from event order by number").fetchall()
    finally:
        connection.close()
    return [size for (size,) in rows]


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        print(json.dumps(asyncio.run(measure(options.url, Path(made)))))


if __name__ == "__main__":
    main()

"""Writes the table of gaps in the README; `python -m tests.surface.listing` renews it."""

from __future__ import annotations

import re
from pathlib import Path

from worker.queues.gaps import GAPS, gaps_of
from worker.queues.memory import MemoryQueue
from worker.queues.nats import NatsQueue
from worker.queues.postgres import PostgresQueue
from worker.queues.rabbitmq import RabbitQueue
from worker.queues.redis import RedisQueue
from worker.queues.sqlite import SqliteQueue

PAGE = Path(__file__).resolve().parents[2] / "README.md"
ENGINES = {
    "SQLite": SqliteQueue,
    "PostgreSQL": PostgresQueue,
    "Redis": RedisQueue,
    "RabbitMQ": RabbitQueue,
    "NATS": NatsQueue,
    "memory": MemoryQueue,
}
_BLOCK = re.compile(
    r"(<!-- gaps: written by tests/surface/listing\.py -->\n).*?(<!-- end -->)", re.S
)


def table() -> str:
    """Each promise that some engine cannot keep: which one, and what then."""
    rows = ["| promise | not kept by | what then |", "|---|---|---|"]
    for name, (promise, instead) in GAPS.items():
        without = [word for word, kind in ENGINES.items() if name in gaps_of(kind.capabilities)]
        if without:
            rows.append(f"| {promise} | {', '.join(without)} | {instead} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The README with the table as it stands in the code."""
    return _BLOCK.sub(lambda found: found[1] + table() + found[2], PAGE.read_text("utf-8"))

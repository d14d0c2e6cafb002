"""The worker with a promise taken out: `python unsafe_worker.py unfenced|hasty`.

`unfenced`: it goes on with a run that somebody else has taken over, and never minds.
`hasty`: it tells the queue that a task is done before it has begun.

The matrix has to notice: what it cannot see missing, it does not prove there.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from worker.app import Worker
from worker.configuration import load
from worker.consuming import delivery
from worker.core.errors import LeaseLost


def never_minding(call: Any) -> Any:
    """The same call, which takes a lost lease for success."""

    async def minding_nothing(*arguments: Any, **options: Any) -> Any:
        try:
            return await call(*arguments, **options)
        except LeaseLost:
            return None

    return minding_nothing


async def nothing_lost(*_: Any, **__: Any) -> list[Any]:
    """Say that every lease is still held."""
    return []


def remove_fence(worker: Worker) -> None:
    """Let a worker that has lost a run go on with it."""
    for part, names in (
        (worker.store, ("append", "finish", "renew")),
        (worker.queue, ("extend", "ack")),
    ):
        for name in names:
            if hasattr(part, name):
                setattr(part, name, never_minding(getattr(part, name)))
    worker.queue.extend_many = nothing_lost  # type: ignore[method-assign]
    worker.store.renew_many = nothing_lost  # type: ignore[method-assign]
    delivery.Held.lose = lambda self, *_, **__: False  # type: ignore[method-assign,assignment]


def ack_first(worker: Worker) -> None:
    """Let a worker be done with each task before it begins."""
    claim, ack = worker.queue.claim, worker.queue.ack

    async def claim_and_ack(**options: Any) -> Any:
        leases = await claim(**options)
        for lease in leases:
            await ack(lease)
        return leases

    worker.queue.claim = claim_and_ack  # type: ignore[method-assign]
    for name in ("ack", "extend", "nack"):
        setattr(worker.queue, name, never_minding(getattr(worker.queue, name)))


async def work(how: str) -> None:
    """Run a worker that keeps one promise less."""
    worker = Worker(loaded=load())
    await worker.start()
    (remove_fence if how == "unfenced" else ack_first)(worker)
    await worker.serve()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))

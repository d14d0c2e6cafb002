"""The worker, killed by its own hand at a point of the work: `python crashing_worker.py POINT`.

A point is a call of queue or store and how many of them have settled: `append:2` is the moment
after the second write to the journal. It hears of them as any listener does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from worker.app import Worker
from worker.configuration import load
from worker.telemetry.signals import QueueCall, StoreCall


class CrashAt:
    """A listener that ends its process the moment its point is reached."""

    def __init__(self, point: str) -> None:
        self.name, _, number = point.partition(":")
        self.left = int(number or 1)

    def told(self, signal: Any) -> None:
        """Points in time are not looked at."""

    def started(self, operation: Any) -> None:
        """Nor are beginnings."""

    def settled(self, operation: Any, token: Any) -> None:
        """Count the calls, and end."""
        if not isinstance(operation, QueueCall | StoreCall) or operation.name != self.name:
            return
        if operation.error_type is not None or (self.name == "claim" and not operation.messages):
            return
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def work(point: str) -> None:
    """Run a worker until it is killed."""
    worker = Worker(loaded=load(), listeners=[CrashAt(point)])
    await worker.start()
    await worker.serve()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))

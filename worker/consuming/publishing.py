"""Hand a result to the queue that the task names in `reply_to`."""

from __future__ import annotations

import orjson

from worker.core.task import Result
from worker.core.wireformat import result_to_wire
from worker.queues.port import Queue, Ticket
from worker.telemetry.signals import ResultPublished
from worker.telemetry.tell import Telemetry


class Publisher:
    """Publishes at least once, with the same result id on every repeat (decisions.md 13)."""

    def __init__(self, queue: Queue, telemetry: Telemetry) -> None:
        self._queue = queue
        self._telemetry = telemetry

    async def publish(self, result: Result, reply_to: str | None) -> None:
        """Put the result on the named queue; nothing to do without one.

        Raises QueueUnavailable and QueueFull. Cancelled: published or not; a repeat is harmless.
        """
        if not reply_to:
            return
        destination = self._queue.sibling(reply_to.removeprefix("queue:"))
        await destination.put(Ticket(id=result.id, body=orjson.dumps(result_to_wire(result))))
        self._telemetry.tell(ResultPublished(result.task_id, reply_to))

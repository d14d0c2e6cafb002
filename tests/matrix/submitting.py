"""Hand a task in, and die: `python submitting.py before|after ID PLAN`.

`before` the queue has confirmed it, with the request under way; `after`, before anybody was told.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from worker.configuration import load
from worker.queues import open_queue
from worker.queues.port import Ticket


async def submit(moment: str, task_id: str, plan: str) -> None:
    """Put the task."""
    settings = load().settings
    queue = open_queue(settings.queue_url, name="tasks", max_deliveries=5)
    await queue.depth()  # connected, so that the request is under way in the next turn of the loop
    body = {"id": task_id, "input": f"{task_id}: {plan}", "reply_to": "queue:results"}
    putting = asyncio.create_task(queue.put(Ticket(task_id, json.dumps(body).encode())))
    if moment == "before":
        await asyncio.sleep(0)
    else:
        await putting
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(submit(*sys.argv[1:4]))

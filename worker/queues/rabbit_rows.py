"""From a message of RabbitMQ to a task: one of ours, or one that another program has sent."""

from __future__ import annotations

import uuid
from typing import Any

from worker.queues.memory_shelf import Row
from worker.queues.rabbit_calls import HEADER
from worker.queues.row_text import row_of, task_of


def noted_in(message: Any) -> tuple[Row, dict[str, Any]] | None:
    """The task of a message of ours, and what was noted beside it."""
    header = message.headers.get(HEADER)
    return row_of(header, message.body) if isinstance(header, str) else None


def row_from(message: Any) -> Row | None:
    """The task of a message of ours."""
    found = noted_in(message)
    return found[0] if found else None


def id_in(message: Any) -> str:
    """The id that another program has given to a task: `message_id`, or a header `id`."""
    return str(message.message_id or message.headers.get("id") or "")


def sent_from(message: Any, *, now: float) -> tuple[Row, float]:
    """The task of a message that another program has sent, and for how long it has to wait.

    Without an id it gets one. `priority` is that of AMQP, or a header of that name.
    """
    given = {"priority": message.priority, **message.headers}
    task_id = id_in(message) or uuid.uuid4().hex
    row = task_of(given, message.body, task_id=task_id, now=now)
    return row, row.ready_at - now


def broker_said(message: Any) -> str:
    """Why the broker itself gave a task up."""
    deaths = message.headers.get("x-death")
    if not (isinstance(deaths, list) and deaths and isinstance(deaths[0], dict)):
        return "given up by the server"
    return f"given up by the server: {deaths[0].get('reason', 'no reason told')}"

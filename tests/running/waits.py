"""What the tests of waiting runs share: tools that leave a trace, and waiting for a state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from worker import tool
from worker.model.scripted import answer, calls
from worker.web.waiting import Decision

ARGUMENTS = {"order": "CN1", "amount": 20}
ASKS = calls(("refund", ARGUMENTS))


def refunding(made: list[Any], **options: Any) -> Any:
    """A tool that pays, once somebody has allowed it."""

    @tool(effect="write", requires_approval=True, **options)
    async def refund(order: str, amount: int) -> str:
        """Refund an order."""
        made.append((order, amount))
        return f"refunded {amount}"

    return refund


def tool_messages(model: Any, request: int = -1) -> list[str]:
    """What the model was told by its tools."""
    return [m.body["content"] for m in model.requests[request].messages if m.role == "tool"]


async def until(holds: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait until something is true, which may be a coroutine function's answer."""
    ends = time.monotonic() + seconds
    while True:
        value = holds()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return
        assert time.monotonic() < ends, "not in time"
        await asyncio.sleep(0.005)


async def parked(worker: Any, task_id: str, seconds: float = 10.0) -> list[dict[str, Any]]:
    """Wait until a task is parked, and return what it waits for."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        view = await worker.desk.look(task_id)
        is_held = any(held.lease.id == task_id for held in worker.consumer.held.values())
        if view is not None and view.place == "parked" and not is_held:
            return list(view.waiting)
        assert view is None or view.result is None, f"ended: {view.result}"
        await asyncio.sleep(0.005)
    raise AssertionError(f"{task_id} was not parked in time: {view}")


async def decide(worker: Any, task_id: str, approved: bool = True, **more: Any) -> dict[str, Any]:
    """Say what a person says."""
    decision = Decision(approved=approved, by="ann", **more)
    return dict(await worker.desk.waiting.decide(task_id, decision))


async def report(worker: Any, handle: str, body: str, kind: str = "text/plain") -> Any:
    """Hand the result of a job in."""
    return await worker.desk.waiting.report(handle, body.encode(), content_type=kind)


def kinds(view: Any) -> list[str]:
    """The kinds of the events of a run."""
    return [event["kind"] for event in view.events]


def last_words(request: Any) -> Any:
    """A model that answers with what it was told last."""
    return answer(f"told: {request.messages[-1].body['content']}")

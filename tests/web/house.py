"""An API server with what stands behind it, for the tests of this folder."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn.server

from worker.consuming.publishing import Publisher
from worker.core.events import ModelReplied, Started, ToolReturned
from worker.core.messages import Observation, Reply, ReplyKind, ToolCall
from worker.guard.guards import Guards
from worker.queues.memory import MemoryBroker, MemoryQueue
from worker.store.memory import MemoryBase, MemoryStore
from worker.telemetry.tell import Telemetry
from worker.web.api import ApiParts
from worker.web.desk import Desk
from worker.web.server import ApiServer
from worker.web.stream import News

NOW = 1_790_000_000.0


@contextlib.asynccontextmanager
async def soon(task_id: str) -> AsyncIterator[News]:
    """Whoever follows a task looks again at once."""
    yield lambda seconds: asyncio.sleep(0.005)


class House:
    """An API server with what stands behind it."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(clock=lambda: NOW)
        self.base = MemoryBase(clock=lambda: NOW)
        self.queue = MemoryQueue(self.broker, depth_max=50)
        self.store = MemoryStore(self.base)
        self.guards = Guards(Telemetry(), wall=lambda: NOW)
        self.guards.get("quote")
        self.guards.get("model:x/y")
        self.unhandled: list[Exception] = []
        self.ids = iter(f"task-{n}" for n in range(1000))
        desk = Desk(
            self.queue,
            self.store,
            now=lambda: NOW,
            new_id=lambda: next(self.ids),
            known_tools=lambda: {"get_current_time", "get_stock_price"},
            publish=Publisher(self.queue, Telemetry()).publish,
        )
        self.parts = ApiParts(
            desk=desk,
            queue=self.queue,
            journal=self.store,
            guards=self.guards,
            now=lambda: NOW,
            dependencies=lambda: {"get_stock_price": "quote", "get_index": "quote"},
            hint=soon,
            unhandled=self.unhandled.append,
        )
        self.server = ApiServer("127.0.0.1", 0, parts=self.parts)

    async def claim(self) -> Any:
        """Take the one task that waits."""
        (lease,) = await self.queue.claim(owner="w1", lease_seconds=60, wait_seconds=1)
        return lease

    async def begin(self, task_id: str) -> Any:
        """Open a run and journal its start."""
        run = (await self.store.open(task_id, owner="w1", lease_seconds=60)).run
        await self.store.append(run, [started(task_id=task_id)])
        return run


def leave_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take uvicorn's pauses away: it sleeps 0.1 s in every shutdown, whatever is left to do."""
    hasty = types.SimpleNamespace(**vars(asyncio))
    hasty.sleep = lambda seconds: asyncio.sleep(min(seconds, 0.002))
    monkeypatch.setattr(uvicorn.server, "asyncio", hasty)


def started(language: str = "zh", task_id: str = "t") -> Started:
    """Build the first event of a run."""
    task = {"id": task_id, "input": "现价?"}
    return Started(NOW, task, 8, "setting", "…", ("get_stock_price",), language)


def calls(*names: str) -> ModelReplied:
    """Build a reply that asks for tools."""
    asked = tuple(ToolCall(f"call_{i}", name, {}) for i, name in enumerate(names))
    return ModelReplied(NOW, Reply(ReplyKind.CALLS, "", {"role": "assistant"}, asked))


def returned(number: int = 0, **fields: Any) -> ToolReturned:
    """Build the observation of a call."""
    return ToolReturned(NOW, f"call_{number}", Observation("…", **fields))

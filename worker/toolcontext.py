"""What a tool may know about the call it serves, and what it may use to serve it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.core.errors import ToolError


async def _no_fetch(url: str, **_: Any) -> Any:
    """Refuse: an unguarded fetch could reach private addresses."""
    raise ToolError(f"this tool context was built without a guarded fetch; {url} was not opened")


@dataclass(slots=True)
class ToolContext:
    """Handed to a tool whose first parameter is `ctx: ToolContext`; every field has a default.

    `http` is the worker's pooled and traced `httpx.AsyncClient`; it forgets cookies. Calls of one
    `sequential` group share, within a run, `state` (JSON values, up to 32 KiB) and an `http` that keeps
    cookies; both outlive a crash. `fetch(url)` opens addresses that
    come from a model or a stranger: it refuses private ones, also after redirects.
    `idempotency_key` is the same for every repeat of the same call. `deadline` is on the clock
    `clock` (monotonic seconds), None without one. `options` are the settings of operations.
    """

    http: Any = None
    idempotency_key: str = ""
    deadline: float | None = None
    log: Any = field(default_factory=lambda: logging.getLogger("loopworker.tool"))
    task_id: str = ""
    session_id: str | None = None
    tenant: str | None = None
    language: str = "en"
    call_id: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict, repr=False)
    fetch: Callable[..., Awaitable[Any]] = _no_fetch
    clock: Callable[[], float] = time.monotonic

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, never negative; infinite without one."""
        if self.deadline is None:
            return math.inf
        return max(0.0, self.deadline - self.clock())

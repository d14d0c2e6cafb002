"""Calls side by side whose facts cannot be written: an outage is an outage, not a bug."""

from __future__ import annotations

import pytest

from worker.core.errors import LeaseLost, StoreUnavailable
from worker.core.events import ToolReturned
from worker.core.task import Task
from worker.model.scripted import answer, calls
from worker.registry import tool
from worker.telemetry.signals import ErrorUnhandled


@tool(effect="read")
async def look(subject: str) -> str:
    """Look something up."""
    return f"{subject}: found"


@pytest.mark.parametrize("failure", [StoreUnavailable, LeaseLost])
async def test_an_outage_among_parallel_calls_is_no_bug(start, ask, monkeypatch, failure):
    """It costs no more than one beside a single call: somebody takes the run up, and goes on."""
    wanted = calls(("look", {"subject": "a"}), ("look", {"subject": "b"}))
    failed = []
    async with start(wanted, answer("both"), tools=[look], queue={"lease_seconds": 0.5}) as worker:
        append = worker.store.inner.append

        async def failing(run, events, *, synced=True):
            if not failed and any(isinstance(event, ToolReturned) for event in events):
                failed.append(run.epoch)
                raise failure("away")
            await append(run, events, synced=synced)

        monkeypatch.setattr(worker.store.inner, "append", failing)
        result = await ask(worker, Task("t", "look up a and b"))

    assert (result.status, failed) == ("completed", [1])
    assert worker.ears.of(ErrorUnhandled) == []

"""A whole worker in this process, on the memory engines, with a scripted model."""

from __future__ import annotations

import contextlib

import pytest

from worker.app import Worker
from worker.core.redeciding import redecide
from worker.model.scripted import ScriptedModel
from worker.settings import Settings
from worker.store.codec import revived


class Ears:
    """A listener that keeps everything it hears, in order."""

    def __init__(self):
        self.heard = []

    def told(self, signal):
        """Keep a signal."""
        self.heard.append(("told", signal))

    def started(self, operation):
        """Keep the start of an operation."""
        self.heard.append(("started", operation))

    def settled(self, operation, token):
        """Keep the end of an operation."""
        self.heard.append(("settled", operation))

    def of(self, kind, what="told"):
        """Everything of one class."""
        return [s for moment, s in self.heard if moment == what and isinstance(s, kind)]


async def decided_again(worker):
    """Whatever a test makes a run go through, its journal alone leads to the same decisions."""
    for each in await worker.store.recent(limit=50):
        view = await worker.store.view(each.id)
        told = redecide(worker.settings.limits(), revived(view.events))

        assert told.difference is None, (each.id, told.facts[told.difference])


@pytest.fixture
def start(tmp_path):
    """Start a worker: `async with start(*script, tools=[…], **settings) as worker`."""

    @contextlib.asynccontextmanager
    async def begin(*script, tools=(), otherwise=None, running=True, **settings):
        values = {"queue_url": "memory://", "admin": "off", "http": "off", "log_level": "error"}
        values["queue"] = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "lease_seconds": 5.0}
        values |= settings
        model = script[0] if script and isinstance(script[0], ScriptedModel) else None
        model = model or ScriptedModel(*script, otherwise=otherwise)
        ears = Ears()
        worker = Worker(Settings(**values), tools=tools, model=model, listeners=[ears])
        worker.ears = ears
        if running:
            async with worker:
                yield worker
                await decided_again(worker)
        else:
            yield worker

    return begin


@pytest.fixture
def ask():
    """Submit a task and wait for its result."""

    async def asking(worker, task, seconds=10):
        task_id = await worker.submit(task)
        result = await worker.result(task_id, wait_seconds=seconds)
        assert result is not None, "no result in time"
        return result

    return asking


class Batch(list):
    """The facts of one write."""

    def __init__(self, facts, *, synced):
        super().__init__(facts)
        self.synced = synced


@pytest.fixture
def writes():
    """Watch the journal of a worker: `writes(worker)` lists the kinds of facts of each write.

    Each list tells in `synced` whether it had to outlive the machine.
    """

    def watching(worker):
        batches, append = [], worker.store.inner.append

        async def kept(run, events, *, synced=True):
            batches.append(Batch((type(event) for event in events), synced=synced))
            await append(run, events, synced=synced)

        worker.store.inner.append = kept
        return batches

    return watching

"""A worker with a chain of models: where the switch shows, and what a crash leaves of it."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest

from tests.model.chainworld import DOWN, TOO_LONG, asks, says
from tests.model.scriptedmodel import scripted_model
from tests.running.conftest import Ears
from tests.running.test_resuming import interrupted
from worker import tool
from worker.app import Worker
from worker.core.events import ModelReplied
from worker.model.scripted import calls
from worker.model.standin.strict import checked
from worker.settings import Settings
from worker.telemetry.signals import FallbackUsed, RunLoop


@tool
async def look() -> str:
    """Look."""
    return "seen"


@contextlib.asynccontextmanager
async def chained(*scripts, causes="error", running=True, **settings):
    """A worker on two servers; `worker.servers` are what they saw."""
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(scripted_model(s)) for s in scripts]
        values = {"queue_url": "memory://", "admin": "off", "http": "off", "log_level": "error"}
        values["queue"] = {"backoff_seconds": 0.0, "poll_seconds": 0.05, "lease_seconds": 5.0}
        values |= {"model_url": servers[0].url, "model": "first", "api_key": "sk-first"}
        values["model_fallbacks"] = (f"spare@{servers[1].url}[{causes}]",)
        values |= {"model_attempts": 1, "model_backoff": 0.0, **settings}
        ears = Ears()
        worker = Worker(Settings(**values), tools=[look], listeners=[ears])
        worker.ears, worker.servers = ears, servers
        if running:
            await stack.enter_async_context(worker)
        yield worker


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_switch_shows_in_result_metric_and_signals(ask, stream):
    """Both models are in the result; the move is counted, told with its cause, and in the run."""
    first = [{**asks("call_1", stream=stream), "repeat": False}, DOWN]
    async with chained(first, [says("done", stream=stream)], model_stream=stream) as worker:
        before = worker.seen.metrics.render()[0].decode()
        result = await ask(worker, "look")

        assert (result.status, result.answer) == ("completed", "done")
        assert (result.models, result.model_calls) == (("first", "spare"), 2)
        row = 'fallbacks_total{fallback="spare",kind="model",outcome="success",target="first"}'
        assert f"{row} 0.0" in before
        after = worker.seen.metrics.render()[0].decode()
        assert f"{row} 1.0" in after
        assert 'model="spare",outcome="success"' in after
        (moved,) = worker.ears.of(FallbackUsed)
        assert (moved.target, moved.fallback, moved.reason) == ("first", "spare", "error")
        assert worker.ears.of(RunLoop, "settled")[-1].models == ("first", "spare")
        for server in worker.servers:
            for request in server.requests:
                checked(json.dumps(request).encode())


async def test_each_model_has_a_guard_that_operators_see():
    """One for each endpoint and model, before the first call."""
    async with chained([says("a")], [says("b")]) as worker:
        names = [guard.name for guard in worker.guards.all() if guard.name.startswith("model:")]

        assert {name.rpartition("/")[2] for name in names} == {"first", "spare"}


async def test_a_run_that_was_too_long_stays_with_the_larger_model(ask):
    """The first one is asked once and never again in this run."""
    spare = [{**asks("call_1"), "repeat": False}, says("done")]
    async with chained([TOO_LONG], spare, causes="context_overflow") as worker:
        result = await ask(worker, "look")

        assert (result.answer, result.models) == ("done", ("spare",))
        assert [len(server.requests) for server in worker.servers] == [1, 2]


async def test_a_resumed_run_goes_on_with_the_model_of_its_journal():
    """A crash after the move: the next worker begins with whom the journal names."""
    async with chained([says("small")], [says("large")], running=False) as worker:
        address = worker.model.links[1].model.address
        reply = replace(
            calls(("look", {})), endpoint=address, switched="context_overflow", model="spare"
        )
        result = await interrupted(worker, ModelReplied(1_790_000_000.0, reply))

        assert (result.answer, result.models) == ("large", ("spare",))
        assert [len(server.requests) for server in worker.servers] == [0, 1]


async def test_a_task_goes_back_when_all_models_are_away(ask):
    """The error names each; the delivery is retried, and then the task is given up."""
    async with chained([DOWN], [DOWN], queue={"max_deliveries": 1, "poll_seconds": 0.05}) as worker:
        result = await ask(worker, "look")

        assert result.status == "model_unavailable"
        assert "first: HTTP 503" in result.error
        assert "; then spare: HTTP 503" in result.error

"""Declared pollers, from the decorator and the settings to the end of a run."""

from __future__ import annotations

import pytest

from worker import tool
from worker.core.errors import ConfigError
from worker.model.scripted import answer, calls


@tool(poller=True)
async def job_status(job: str) -> str:
    """How far a job is.

    Args:
        job: Its number.
    """
    return "running"


@tool
async def search(text: str) -> str:
    """Search.

    Args:
        text: What for.
    """
    return "the same"


POLLING = [calls(("job_status", {"job": "7"})) for _ in range(6)]
SEARCHING = [calls(("search", {"text": "x"})) for _ in range(6)]
BOTH = [calls(("job_status", {"job": "7"}), ("search", {"text": "x"})) for _ in range(6)]
TOOLS = [job_status, search]


@pytest.mark.parametrize(
    ("script", "said", "status", "steps"),
    [
        (POLLING, (), "completed", 7),
        (SEARCHING, (), "loop_detected", 4),
        (BOTH, (), "loop_detected", 4),
        (SEARCHING, ("search",), "completed", 7),
        (POLLING, ("-job_status",), "loop_detected", 4),
        (BOTH, ("search",), "completed", 7),
    ],
)
async def test_poller_may_repeat_itself_and_nobody_else(start, ask, script, said, status, steps):
    """The author declares it, operations have the last word, and others are counted as ever."""
    loop = {"pollers": said}
    async with start(*script, answer("done"), tools=TOOLS, loop=loop, max_steps=8) as worker:
        result = await ask(worker, "how far is it?")

    assert (result.status, result.steps) == (status, steps)


async def test_poller_is_bounded_by_the_steps(start, ask):
    """A job that never ends ends the run all the same."""
    async with start(
        otherwise=calls(("job_status", {"job": "7"})), tools=TOOLS, max_steps=5
    ) as worker:
        result = await ask(worker, "how far is it?")

    assert (result.status, result.steps) == ("max_steps", 5)


async def test_poller_that_is_no_tool_stops_the_start(start):
    """A name that means nothing is no protection, so the start says so."""
    async with start(tools=TOOLS, loop={"pollers": ("serach",)}, running=False) as worker:
        with pytest.raises(
            ConfigError, match="LOOPWORKER_LOOP__POLLERS: there is no tool 'serach'"
        ):
            await worker.start()

"""What the hand-off rules are held against, in which order, and what they leave behind."""

from __future__ import annotations

import asyncio
import threading

import pytest

from worker import handoff_rule
from worker.core.messages import Observation, Source, ToolCall
from worker.model.scripted import answer
from worker.running.handoffs import HandoffRules, Rule
from worker.telemetry.tell import Telemetry

ANYTHING = Rule("any", "both", frozenset(), "anything", reason="x", pattern=lambda text: True)


@pytest.mark.parametrize(
    ("source", "problem", "is_judged"),
    [
        (Source.LIVE, None, True),
        (Source.ALTERNATIVE, None, True),
        (Source.STALE, None, True),
        (Source.ERROR, None, True),
        (Source.SKIPPED, None, False),
        (Source.UNKNOWN, None, False),
        (Source.ERROR, "there is no such tool", False),
    ],
)
async def test_words_of_ours_are_no_result(source, problem, is_judged):
    """What was not called, or not answered, has said nothing that a rule could find."""
    rules = HandoffRules([ANYTHING], telemetry=Telemetry())
    call = ToolCall("c1", "look", {}, problem)
    found = await rules.of_result(call, Observation("words", source), at=1.0, broken=set())

    assert (found is not None) is is_judged


async def test_functions_are_asked_last(start, ask):
    """What a text finds costs no thread, wherever the rules stand."""
    asked = []

    @handoff_rule
    def risky(text):
        asked.append(text)
        return True

    handoff = {"risky": {"on": "answer"}, "words": {"text": "risk"}}
    async with start(answer("a risk"), tools=[risky], handoff=handoff) as worker:
        result = await ask(worker, "q")

    assert (result.handoff.rule, asked) == ("words", [])


async def test_threads_of_the_rules_end_with_the_worker(start, ask):
    """A worker that has closed leaves none behind."""
    threads = []

    @handoff_rule
    def calm(text):
        threads.append(threading.current_thread())
        return False

    async with start(answer("ok"), tools=[calm]) as worker:
        await ask(worker, "q")
    await asyncio.to_thread(threads[0].join, 10)

    assert not threads[0].is_alive()

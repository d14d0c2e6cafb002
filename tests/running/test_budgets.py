"""Budgets of a task from its queue to its result: what ends it, and what is never begun."""

from __future__ import annotations

import pytest

from worker import Task, tool
from worker.core.errors import TaskInvalid
from worker.core.messages import Usage
from worker.core.task import Budget
from worker.model.scripted import answer, calls
from worker.telemetry.signals import RunLoop

SPENT = Usage(model_calls=1, prompt_tokens=100, completion_tokens=10, cost=0.3)


@tool
async def price(symbol: str) -> str:
    """Latest price of a ticker.

    Args:
        symbol: The ticker.
    """
    return f"{symbol} is 12.50"


def asking(symbol):
    """A step that costs."""
    return calls(("price", {"symbol": symbol}), usage=SPENT)


async def test_money_that_is_used_up_ends_the_run_and_is_told(start, ask):
    """In the result, and at the end of the loop."""
    script = [asking("A"), asking("B"), asking("C"), answer("late")]
    async with start(*script, tools=[price], prices=["*=told"]) as worker:
        result = await ask(worker, Task("t1", "q", budget=Budget(cost=0.5)))

        assert (result.status, result.steps, result.cost) == ("budget", 2, 0.6)
        assert result.error == "cost 0.6, the budget is 0.5"
        assert worker.ears.of(RunLoop, "settled")[0].cost == 0.6


async def test_a_complete_answer_is_not_taken_back(start, ask):
    """The budget is overdrawn by the reply that answers, and the answer stands."""
    async with start(answer("42", usage=SPENT), prices=["*=told"]) as worker:
        result = await ask(worker, Task("t1", "q", budget=Budget(cost=0.1)))

        assert (result.status, result.answer) == ("completed", "42")


async def test_a_budget_of_money_without_a_price_is_refused_before_anything_is_spent(start):
    """At the desk of a worker, and where a queue brought it from elsewhere."""
    from worker.queues.port import Ticket

    async with start(otherwise=answer("42")) as worker:
        with pytest.raises(TaskInvalid, match=r"budget\.cost"):
            await worker.submit(Task("t1", "q", budget=Budget(cost=1.0)))
        await worker.queue.put(Ticket("t2", b'{"input": "q", "budget": {"cost": 1}}'))
        result = await worker.result("t2", wait_seconds=10)

        assert result.status == "rejected"
        assert "LOOPWORKER_PRICES" in result.error
        assert worker.model.requests == []


async def test_every_run_is_bounded_by_the_settings(start, ask):
    """A task that names no budget of its own has the worker's."""
    script = [asking("A"), asking("B"), answer("late")]
    bound = {"tokens_max": 200}
    async with start(*script, tools=[price], loop=bound) as worker:
        result = await ask(worker, "q")

        assert (result.status, result.error) == ("budget", "220 tokens used, the budget is 200")


async def test_failed_steps_of_an_adaptive_run_are_made_up_for(start, ask):
    """A run of two steps gets a third when its tool fails, and answers; the end tells why."""
    down = [True]

    @tool(attempts=1)
    async def flaky(n: int) -> str:
        """Fails once."""
        if down.pop() if down else False:
            raise RuntimeError("not yet")
        return "12.50"

    script = [calls(("flaky", {"n": 1})), calls(("flaky", {"n": 1})), answer("12.50")]
    async with start(*script, tools=[flaky], max_steps="2+adaptive") as worker:
        result = await ask(worker, "q")
        end = worker.ears.of(RunLoop, "settled")[0]

        assert (result.status, result.answer) == ("completed", "12.50")
        assert [request.allow_calls for request in worker.model.requests] == [True, True, False]
        assert (end.max_steps, end.max_steps_reason) == (
            3,
            "settings; adaptive: 1 of 1 steps failed",
        )
        events = (await worker.store.view(result.task_id)).events
        changed = [event["data"] for event in events if event["kind"] == "steps_changed"]
        assert [(each["max_steps"], each["reason"]) for each in changed] == [
            (3, "adaptive: 1 of 1 steps failed")
        ]

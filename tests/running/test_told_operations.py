"""What operations tell of a run that only the whole worker knows."""

from __future__ import annotations

from worker import tool
from worker.model.scripted import answer, calls
from worker.telemetry.signals import TaskProcessing, ToolCalling


@tool(effect="read", attempts=1, fail_max=2, stub="no price", dependency="quotes")
def price(symbol: str) -> str:
    """The price of a stock, from a service that is down."""
    raise ConnectionError("down")


async def test_a_call_tells_the_state_of_its_breaker(start, ask):
    """The call that opens it says open, the one before it closed; the queue has its engine's name."""
    script = [calls(("price", {"symbol": each})) for each in ("A", "B")]
    async with start(*script, answer("no price"), tools=[price]) as worker:
        await ask(worker, "what is A at?")
    made = worker.ears.of(ToolCalling, "settled")

    assert [call.breaker_state for call in made] == ["closed", "open"]
    assert {each.system for each in worker.ears.of(TaskProcessing, "settled")} == {"memory"}

"""A tool that says nothing: to look for something and find nothing, or to do something."""

from __future__ import annotations

import pytest

from worker import tool
from worker.model.scripted import answer, calls


def quiet(effect):
    """A tool of this effect that returns nothing at all."""

    @tool(name="mark", effect=effect)
    async def mark(item: str) -> None:
        """Look at an item, or change it.

        Args:
            item: Which one.
        """

    return mark


@pytest.mark.parametrize(
    ("effect", "status"),
    [("read", "no_information"), ("write", "completed"), ("idempotent", "completed")],
)
async def test_an_effect_need_not_say_anything(start, ask, effect, status):
    """Two reads that bring nothing end the run; two effects that say nothing have been made."""
    script = [calls(("mark", {"item": item})) for item in "ab"]
    async with start(*script, answer("done"), tools=[quiet(effect)]) as worker:
        result = await ask(worker, "mark a and b")

    assert result.status == status
    assert [call.source for call in result.tool_calls] == ["live", "live"]

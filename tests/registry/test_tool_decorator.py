"""What the decorator takes, keeps and refuses."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest

import worker
from worker import ToolContext, tool
from worker.core.errors import ConfigError, TaskInvalid
from worker.registry import Registry, Tool, wire_names


def test_tool_is_still_the_function():
    """A test calls a tool as it was written, and tools can read its signature."""

    @tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert double(4) == 8
    assert inspect.signature(double).parameters.keys() == {"number"}
    assert double.__name__ == "double"
    assert repr(double).startswith("Tool('double', read, ")


def test_options_are_kept():
    """What the author says is on the tool, for the guard and the runner to read."""

    def other(symbol: str) -> str:
        return symbol

    @tool(
        timeout_seconds=5,
        attempts=2,
        fail_max=3,
        stub="n/a",
        stale_seconds=60,
        alternative=other,
        dependency="quote",
        sequential="quotes",
        effect="read",
    )
    def price(symbol: str) -> str:
        """Price."""
        return symbol

    assert (price.timeout_seconds, price.attempts, price.fail_max) == (5, 2, 3)
    assert (price.stub, price.stale_seconds, price.dependency) == ("n/a", 60, "quote")
    assert price.alternative is other
    assert price.sequential == "quotes"
    assert price.effect_declared


def test_defaults_leave_it_to_the_settings():
    """Nothing said is None, and a tool is its own dependency."""

    @tool
    def price(symbol: str) -> str:
        """Price."""
        return symbol

    assert (price.timeout_seconds, price.attempts, price.fail_max) == (None, None, None)
    assert (price.dependency, price.sequential, price.effect_declared) == ("price", None, False)


def test_sequential_alone_is_a_group_of_its_own():
    """`sequential=True` keeps the calls of one tool apart."""

    @tool(sequential=True)
    def price(symbol: str) -> str:
        """Price."""
        return symbol

    assert price.sequential == "price"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"efect": "read"}, "unknown option 'efect'; known: name, description"),
        ({"poller": "yes"}, "poller must be True or False"),
        ({"pages": 1}, "pages must be True or False"),
        ({"effect": "sometimes"}, "effect must be one of read, idempotent, write"),
        ({"requires_approval": "yes"}, "requires_approval must be True or False"),
        ({"job": 1}, "job must be True or False"),
        ({"job": True, "poll": "later"}, "poll must be a function"),
        ({"poll": print}, "poll needs job=True"),
        ({"job": True, "effect": "read", "stale_seconds": 5}, "stale_seconds cannot stand in"),
        ({"job": True, "effect": "read", "alternative": print}, "alternative cannot stand in"),
        ({"timeout_seconds": 0}, "timeout_seconds must be a number of seconds above 0"),
        ({"timeout_seconds": "5"}, "timeout_seconds must be"),
        ({"attempts": 1.5}, "attempts must be a whole number"),
        ({"attempts": True}, "attempts must be a whole number"),
        ({"fail_max": -1}, "fail_max must be"),
        ({"stub": 5}, "stub must be a text"),
        ({"alternative": "other"}, "alternative must be a function"),
        ({"verify": print}, 'verify needs effect="write"'),
        ({"effect": "write", "stale_seconds": 5}, 'stale_seconds needs effect="read"'),
        ({"effect": "write", "alternative": print}, 'alternative needs effect="read"'),
        ({"sequential": 3}, "sequential must be"),
        ({"name": " "}, "a tool needs a name"),
    ],
)
def test_option_that_cannot_be_honoured_is_refused(options: dict[str, Any], says: str):
    """Nothing is ignored: a misspelt or unsupported option stops the start."""
    with pytest.raises(ConfigError) as caught:

        @tool(**options)
        def price(symbol: str) -> str:
            """Price."""
            return symbol

    assert says in str(caught.value)
    assert __file__ in str(caught.value)


async def _slow(value: int) -> int:
    return value


class _Callable:
    async def __call__(self, value: int) -> int:
        return value


@functools.wraps(_slow)
def _decorated(value: int) -> Any:
    return _slow(value)


@pytest.mark.parametrize(
    "function",
    [_slow, functools.partial(_slow), _Callable(), _decorated],
    ids=["plain", "partial", "callable", "decorated"],
)
async def test_async_function_is_known_in_any_wrapping(function: Any):
    """Partials, decorated functions and callable objects are awaited (jd/tenacity#132, #430)."""
    made = tool(name="slow", description="Slow.")(function)

    assert made.is_async
    assert await made.invoke(ToolContext(), {"value": 3}) == 3


def test_sync_function_that_returns_a_coroutine_is_an_error():
    """A coroutine nobody awaits must not pass as a result."""
    made = tool(
        lambda value: _slow(value),
        name="slow",
        parameters={"properties": {"value": {}}, "required": ["value"]},
    )

    with pytest.raises(TypeError, match="write it as async def"):
        made.call({"value": 1}, ToolContext())


async def test_context_is_handed_to_tool_alternative_and_verify():
    """All three are called alike: ctx first, then the arguments by name."""

    def other(ctx: ToolContext, key: str) -> tuple[str, str]:
        return ctx.idempotency_key, key

    @tool(alternative=other, effect="read")
    async def fetch(ctx: ToolContext, key: str) -> tuple[str, str]:
        """Fetch."""
        return ctx.idempotency_key, key

    @tool(verify=other, effect="write")
    def pay(ctx: ToolContext, key: str) -> None:
        """Pay."""

    ctx = ToolContext(idempotency_key="k1")

    assert await fetch.call({"key": "a"}, ctx) == ("k1", "a")
    assert fetch.call_alternative({"key": "a"}, ctx) == ("k1", "a")
    assert pay.call_verify({"key": "a"}, ctx) == ("k1", "a")


def test_registry_refuses_two_of_one_name():
    """The error names both places; adding the same tool twice is no mistake."""

    def make(value: int) -> Tool:
        @tool(name="same")
        def run(value: int) -> int:
            """Run."""
            return value

        return run

    first, second = make(1), make(2)
    registry = Registry([first, first])

    with pytest.raises(ConfigError, match=r"two tools are called 'same': .*:\d+ and .*:\d+"):
        registry.add(second)
    assert registry.names == ("same",)
    assert registry.get("same") is first
    assert registry.get("other") is None


def test_offered_tools_carry_wire_names_and_validation():
    """What the model sees, and how its arguments are judged."""

    @tool(name="time.now")
    def now(zone: str) -> str:
        """Current time."""
        return zone

    @tool
    def price(symbol: str) -> str:
        """Price."""
        return symbol

    registry = Registry([now, price])
    first, second = registry.offered()

    assert (first.name, first.wire_name, second.wire_name) == ("time.now", "time_now", "price")
    assert first.validate({}) == ["zone: required, but missing"]
    assert [each.name for each in registry.offered(["price"])] == ["price"]


def test_task_that_names_an_unknown_tool_is_told_the_known_ones():
    """The rejection names the field, the stranger and what there is."""

    @tool
    def price(symbol: str) -> str:
        """Price."""
        return symbol

    with pytest.raises(TaskInvalid, match="tools: unknown 'prise'; known: price") as caught:
        Registry([price]).offered(["price", "prise"])
    assert caught.value.field == "tools"


def test_wire_names_are_legal_and_distinct():
    """Illegal characters are mapped; what collides gets a suffix that does not depend on order."""
    names = ["time.now", "time_now", "time:now", "查天气", "订单", "a" * 80, "ok-1"]
    wire = wire_names(names)

    assert wire["time_now"] == "time_now"
    assert wire["ok-1"] == "ok-1"
    assert len(set(wire.values())) == len(names)
    assert all(len(name) <= 64 and name.isascii() for name in wire.values())
    assert wire == {name: wire_names(names[::-1])[name] for name in names}
    assert wire_names(["time.now"]) == {"time.now": "time_now"}


def test_public_names_are_loaded_on_first_use():
    """`import worker` alone loads none of its rooms, and a wrong name is an AttributeError."""
    assert set(worker.__all__) <= set(dir(worker))
    assert worker.tool is tool
    with pytest.raises(AttributeError, match="nothing"):
        worker.nothing  # noqa: B018

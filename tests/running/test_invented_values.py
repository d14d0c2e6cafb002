"""A model that invents values while its tool is unavailable."""

from __future__ import annotations

import asyncio

import pytest

from worker import tool
from worker.model.scripted import answer, calls
from worker.telemetry.operations import RunLoop


@tool(stub="行情暂不可用", attempts=1, timeout_seconds=0.05)
async def get_stock_price(symbol: str) -> str:
    """Latest price of a ticker."""
    await asyncio.sleep(30)
    return "1"


SCRIPT = [calls(("get_stock_price", {"symbol": "AAPL"}))]


async def test_an_invented_price_never_reaches_the_caller(start, ask):
    """The stub text goes out instead, and the diagnosis and the metrics say why."""
    async with start(*SCRIPT, answer("价格是 123 元"), tools=[get_stock_price]) as worker:
        result = await ask(worker, "AAPL 的价格?")

        assert "123" not in result.answer
        assert result.answer.count("行情暂不可用") == 1
        assert [sign.symptom for sign in result.diagnosis] == ["invented_value"]
        assert worker.ears.of(RunLoop, "settled")[-1].symptoms == ("invented_value",)


async def test_an_honest_answer_goes_out_as_it_is(start, ask):
    """What the model says itself is not said twice, and nothing is diagnosed."""
    said = "AAPL 的行情暂不可用,请稍后再试。"
    async with start(*SCRIPT, answer(said), tools=[get_stock_price]) as worker:
        result = await ask(worker, "AAPL 的价格?")

        assert (result.answer, result.diagnosis) == (said, ())


@pytest.mark.parametrize(
    ("action", "kept", "has_price"), [("remove", "你好。", False), ("off", "你好。", True)]
)
async def test_the_setting_decides_what_becomes_of_it(start, ask, action, kept, has_price):
    """`remove` takes the sentence out, `off` lets it pass; the stub text is said in any case."""
    script = [*SCRIPT, answer("你好。价格是 123 元。")]
    settings = {"loop": {"honesty_gate": action}}
    async with start(*script, tools=[get_stock_price], **settings) as worker:
        result = await ask(worker, "AAPL 的价格?")

        assert result.answer.startswith(kept)
        assert ("123" in result.answer) is has_price
        assert "行情暂不可用" in result.answer

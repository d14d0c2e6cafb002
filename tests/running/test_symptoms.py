"""Symptoms of a sick loop: in the result that the caller gets, and counted."""

from __future__ import annotations

from tests.core.fitting_cases import ABOUT_NOTHING
from worker import tool
from worker.core.texts import SYSTEM_PROMPT, SYSTEM_PROMPT_WITHOUT_TOOLS
from worker.model.scripted import answer, calls


@tool
async def get_stock_price(symbol: str) -> str:
    """查询一只股票的最新价格。

    Args:
        symbol: 股票代码。
    """
    return f"{symbol} 12.50"


@tool
async def get_maybe_price(symbol: str) -> str:
    """股价查询,可选使用。

    Args:
        symbol: 股票代码。
    """
    return f"{symbol} 12.50"


def counted(worker):
    """The symptoms that the metrics page tells, with how often."""
    page, _ = worker.seen.metrics.render("")
    rows = [row for row in page.decode().splitlines() if "run_symptoms_total{" in row]
    pairs = [row.removesuffix(".0").split('symptom="')[1].split('"} ') for row in rows]
    return {symptom: int(count) for symptom, count in pairs if int(count)}


async def test_an_answer_out_of_nothing_is_diagnosed_and_counted(start, ask):
    """The price was never asked for; the hint names the words that may have kept the model off."""
    async with start(answer("180 美元"), tools=[get_maybe_price]) as worker:
        result = await ask(worker, "苹果股价多少?")

        assert (result.status, result.answer) == ("completed", "180 美元")
        assert [sign.symptom for sign in result.diagnosis] == ["no_call"]
        assert "'可选'" in result.diagnosis[0].hint
        assert counted(worker) == {"no_call": 1}


async def test_a_loop_is_diagnosed_and_counted(start, ask):
    """Warned after the third round, ended at the fourth, and told what was seen."""
    again = calls(("get_stock_price", {"symbol": "AAPL"}))
    async with start(otherwise=again, tools=[get_stock_price]) as worker:
        result = await ask(worker, "AAPL?")

        assert (result.status, result.steps) == ("loop_detected", 4)
        assert [sign.symptom for sign in result.diagnosis] == ["repeated_call"]
        assert counted(worker) == {"repeated_call": 1}


async def test_steps_without_an_answer_are_diagnosed_and_counted(start, ask):
    """The closing turn called again: its call was not run, and the result says why that may be."""
    script = [calls(("get_stock_price", {"symbol": s})) for s in ("A", "B", "C")]
    async with start(*script, tools=[get_stock_price], max_steps=3) as worker:
        result = await ask(worker, "A, B, C?")

        assert (result.status, result.steps) == ("max_steps", 3)
        assert [sign.symptom for sign in result.diagnosis] == ["no_answer"]
        assert "3 steps (settings) were too few" in result.diagnosis[0].hint
        assert counted(worker) == {"no_answer": 1}


async def test_a_sound_run_has_no_symptom(start, ask):
    """Nor has small talk, whatever tools are offered."""
    script = [calls(("get_stock_price", {"symbol": "A"})), answer("12.50")]
    async with start(*script, otherwise=answer("嗯"), tools=[get_stock_price]) as worker:
        results = [await ask(worker, "AAPL 股价?")]
        results += [await ask(worker, question) for question in ABOUT_NOTHING[:20]]

        assert [result.diagnosis for result in results] == [()] * 21
        assert counted(worker) == {}


async def test_the_prompt_demands_tools_only_where_there_are_some(start, ask):
    """In the language of the question; without tools it demands honesty alone."""
    async with start(otherwise=answer("ok"), tools=[get_stock_price]) as worker:
        await ask(worker, "AAPL 股价?")
        await ask(worker, "Hello")
    async with start(otherwise=answer("ok")) as bare:
        await ask(bare, "AAPL 股价?")
        await ask(bare, "Hello")

    prompts = [r.messages[0].body["content"] for w in (worker, bare) for r in w.model.requests]
    with_tools, without = SYSTEM_PROMPT, SYSTEM_PROMPT_WITHOUT_TOOLS
    assert prompts == [with_tools["zh"], with_tools["en"], without["zh"], without["en"]]

"""Tools whose breaker is open are not offered, come back, and are never hammered."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.model.chainworld import says
from tests.model.scriptedmodel import scripted_model
from tests.model.speakers import said
from tests.running.test_resuming import interrupted, tool_messages
from worker import tool
from worker.app import Worker
from worker.core.events import ModelReplied, ToolReturned, ToolsChanged
from worker.core.messages import Observation, Source, ToolCall
from worker.model.scripted import answer, calls
from worker.model.standin.strict import checked
from worker.settings import Settings
from worker.telemetry.operations import RunLoop

ASKED = []


@tool(stub="行情暂不可用", attempts=1, dependency="quote")
async def get_stock_price(symbol: str) -> str:
    """Latest price of a share by its ticker symbol."""
    ASKED.append(symbol)
    return "AAPL 227.52"


@tool
async def get_current_time(timezone: str = "UTC") -> str:
    """Current date and time."""
    return "2026-12-02T10:30:00Z"


@pytest.fixture(autouse=True)
def _nobody_asked():
    ASKED.clear()


def opened(worker, name="quote"):
    """Open a breaker by hand, as an operator does."""
    worker.guards.get(name).force_open(who="test", why="maintenance")


def offered(request):
    """The names of the tools of a request."""
    return [each.name for each in request.tools]


def told(request):
    """Everything that a request says."""
    return json.dumps([m.body for m in request.messages], ensure_ascii=False)


BOTH = [get_stock_price, get_current_time]


async def test_breaker_open_before_the_task_and_an_invented_price(start, ask):
    """The test that decisions.md 9 names: stub text instead of the price, and the run degraded."""
    async with start(answer("苹果的股价是 189.50 美元。"), tools=BOTH) as worker:
        worker.guards.get("quote").admission.breaker.open(cause="manual", seconds=60)
        result = await ask(worker, "苹果(AAPL)现在的股价是多少?")
        (request,) = worker.model.requests

        assert offered(request) == ["get_current_time"]
        assert "行情暂不可用" in told(request)
        assert "189" not in result.answer
        assert "行情暂不可用" in result.answer
        (part,) = result.degraded
        assert (part.tool, part.source) == ("get_stock_price", "skipped")
        assert part.reason == "breaker_open"
        assert 55 < part.retry_after_s <= 60
        assert worker.ears.of(RunLoop, "settled")[-1].degraded == ("skipped",)
        assert ASKED == []


async def test_a_question_about_something_else_is_answered_as_ever(start, ask):
    """The manifest says that a tool was missing; the answer, which did not need it, is whole."""
    script = [calls(("get_current_time", {})), answer("现在是 10:30,珠穆朗玛峰高 8848 米。")]
    async with start(*script, tools=BOTH) as worker:
        opened(worker)
        result = await ask(worker, "现在几点了?")

        assert result.answer == "现在是 10:30,珠穆朗玛峰高 8848 米。"
        assert [d.source for d in result.degraded] == ["skipped"]
        assert result.diagnosis == ()


async def test_a_tool_comes_back_when_its_breaker_closes(start, ask):
    """Within the run: the next request has it, and says that it may be called."""

    async def closes(request):
        worker.guards.get("quote").release(who="test")
        worker.guards.get("quote").force_closed(who="test", why="over")
        return calls(("get_current_time", {}))

    script = [closes, calls(("get_stock_price", {"symbol": "AAPL"})), answer("227.52 美元")]
    async with start(*script, tools=BOTH) as worker:
        opened(worker)
        result = await ask(worker, "苹果的股价?")
        first, second, third = worker.model.requests

        assert offered(first) == ["get_current_time"]
        assert offered(second) == offered(third) == ["get_stock_price", "get_current_time"]
        assert "get_stock_price 已恢复" in told(second)
        assert (result.answer, result.degraded, ASKED) == ("227.52 美元", (), ["AAPL"])


async def test_a_half_open_breaker_offers_the_tool_to_one_run_at_a_time(start, ask):
    """The call of the run that comes first is the trial; a run meanwhile lacks the tool, and one
    after the trial's success has it."""
    entered, leave = asyncio.Event(), asyncio.Event()

    @tool(stub="行情暂不可用", attempts=1, dependency="quote")
    async def get_stock_price(symbol: str) -> str:
        """Latest price of a share by its ticker symbol."""
        entered.set()
        await leave.wait()
        return "AAPL 227.52"

    asks = calls(("get_stock_price", {"symbol": "AAPL"}))
    script = [asks, answer("行情暂不可用"), answer("227.52 美元"), answer("没有查")]
    async with start(*script, tools=[get_stock_price, get_current_time]) as worker:
        guard = worker.guards.get("quote")
        opened(worker)
        guard.release(who="test")
        assert guard.state == "half_open"
        first = asyncio.create_task(ask(worker, "苹果的股价?"))
        await asyncio.wait_for(entered.wait(), 5)
        second = await ask(worker, "苹果的股价?")
        leave.set()
        await asyncio.wait_for(first, 5)
        await ask(worker, "你好")

        assert [d.reason for d in second.degraded] == ["trial_in_flight"]
        assert first.result().degraded == ()
        seen = [len(offered(request)) for request in worker.model.requests]
        assert seen == [2, 1, 2, 2]


async def test_the_model_calls_a_withdrawn_tool_all_the_same(start, ask):
    """It reads the stub, the reason and what to do; the function is not run."""
    script = [calls(("get_stock_price", {"symbol": "AAPL"})), answer("行情暂不可用,请稍后再试。")]
    async with start(*script, tools=BOTH) as worker:
        opened(worker)
        result = await ask(worker, "苹果的股价?")

        (message,) = tool_messages(worker.model)
        assert "行情暂不可用" in message["content"] and "不要再调用" in message["content"]
        assert [c.source for c in result.tool_calls] == ["stub"]
        assert (ASKED, result.status) == ([], "completed")


async def test_a_tool_that_has_an_old_value_or_another_source_stays_on_offer(start, ask):
    """Its answer is better than its stub; one that never gave a value has nothing old to give."""

    @tool(stale_seconds=600, stub="-", dependency="old")
    async def get_rate() -> str:
        """Exchange rate."""
        return "7.12"

    @tool(stale_seconds=600, stub="-", dependency="new")
    async def get_news() -> str:
        """News."""
        return "none"

    @tool(alternative=get_current_time, stub="-", dependency="clock")
    async def get_time() -> str:
        """Date and time."""
        return "10:30"

    script = [calls(("get_rate", {})), answer("7.12")]
    async with start(
        *script, otherwise=answer("-"), tools=[get_rate, get_news, get_time]
    ) as worker:
        await ask(worker, "rate?")
        for name in ("old", "new", "clock"):
            opened(worker, name)
        await ask(worker, "hello")

        assert offered(worker.model.requests[-1]) == ["get_rate", "get_time"]


STUB = Observation("…", Source.STUB, reason="timeout", stub="行情暂不可用")


def _price(call_id):
    return ModelReplied(1_790_000_000.0, calls(ToolCall(call_id, "get_stock_price", {})))


async def test_two_stubs_of_a_worker_that_died_count_for_the_next(start):
    """It is the run that has had enough of the tool, whoever drives it and whatever the breaker."""
    facts = [
        _price("c1"),
        ToolReturned(1_790_000_000.0, "c1", STUB),
        _price("c2"),
        ToolReturned(1_790_000_000.0, "c2", STUB),
    ]
    script = [answer("行情暂不可用")]
    async with start(*script, tools=BOTH, running=False) as worker:
        await interrupted(worker, *facts)

        assert offered(worker.model.requests[0]) == ["get_current_time"]


async def test_what_is_away_is_written_once_and_with_the_reply(start, ask, writes):
    """No write of its own, and none at all while nothing changes."""
    script = [calls(("get_current_time", {})), answer("行情暂不可用")]
    async with start(*script, tools=BOTH) as worker:
        opened(worker)
        batches = writes(worker)
        await ask(worker, "苹果的股价?")

        kinds = [kind for batch in batches for kind in batch]
        assert kinds.count(ToolsChanged) == 1
        assert [ToolsChanged] not in batches


def _asks(name):
    function = {"name": name, "arguments": "{}"}
    entry = {"id": "call_1", "type": "function", "function": function}
    return said({"role": "assistant", "content": None, "tool_calls": [entry]})


async def test_a_request_never_has_an_empty_list_of_tools(ask):
    """Nothing called yet: no list at all. With a result in it: all tools, and none may run."""
    async with scripted_model([says("行情暂不可用"), _asks("fails"), says("-")]) as server:

        @tool(dependency="quote", stub="行情暂不可用")
        async def fails() -> str:
            """Price of a share."""
            opened(worker)
            return "AAPL 227.52"

        values = {"queue_url": "memory://", "admin": "off", "http": "off", "log_level": "error"}
        values |= {"model_url": server.url, "model": "first", "api_key": "sk-first"}
        async with Worker(Settings(**values), tools=[fails]) as worker:
            opened(worker)
            await ask(worker, "苹果的股价?")
            worker.guards.get("quote").release(who="test")
            await ask(worker, "苹果的股价?")
        without, first, second = server.requests

        assert "tools" not in without and "tool_choice" not in without
        assert second["tools"] == first["tools"] != []
        assert second["tool_choice"] == "none"
        for request in server.requests:
            checked(json.dumps(request).encode())

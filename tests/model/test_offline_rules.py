"""The rules of the stand-in: which tools, with which arguments, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worker.model.standin.rules import respond

ORDER_ID = {"type": "string", "minLength": 12, "maxLength": 20}


def tool(name: str, description: str, required: str = "", **properties: Any) -> dict[str, Any]:
    """Offer a tool; `required` names its required parameters."""
    schema = {"type": "object", "properties": properties, "required": required.split()}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


CLOCK = tool(
    "get_current_time", "当前时间。Current time.", timezone={"type": "string", "default": "UTC"}
)
QUOTE = tool(
    "get_stock_price",
    "查询股票的最新价格。Latest price.",
    "symbol",
    symbol={"type": "string", "pattern": "^[A-Za-z0-9.^=-]{1,15}$"},
)
ORDER = tool(
    "get_order_detail",
    "查询订单。One order.",
    "order_id region",
    order_id=ORDER_ID,
    region={"type": "string", "enum": ["CN", "US", "EU"]},
)
REFUND = tool(
    "submit_refund",
    "为订单退款。Refund an order.",
    "order_id amount",
    order_id=ORDER_ID,
    amount={"type": "number", "exclusiveMinimum": 0},
)
PAGE = tool("fetch_page", "读取一个网页。Read a web page.", "url", url={"type": "string"})
ADD = tool("add", "Add two integers", "a b", a={"type": "integer"}, b={"type": "integer"})
WEATHER = tool(
    "weather", "Current weather in a city, in one line.", "city", city={"type": "string"}
)
NOTE = tool(
    "store_note", "Keep a note", "text", text={"type": "string", "description": "what to keep"}
)
ALL = [CLOCK, QUOTE, ORDER, REFUND, PAGE, ADD, WEATHER, NOTE]


class Talk:
    """A conversation with the rules: asks, and answers the calls with what it is given."""

    def __init__(self, question: str, tools: list[dict[str, Any]] = ALL, **fields: Any) -> None:
        self.body = {"messages": [{"role": "user", "content": question}], **fields}
        if tools:
            self.body["tools"] = tools
        self.said = respond(self.body)

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls that were just asked for."""
        asked = [call["function"] for call in self.said.get("tool_calls") or ()]
        return [(function["name"], json.loads(function["arguments"])) for function in asked]

    def answer(self, *contents: str) -> Talk:
        """Answer all calls and let it go on."""
        self.body["messages"].append(self.said)
        for call, content in zip(self.said["tool_calls"], contents, strict=True):
            result = {"role": "tool", "tool_call_id": call["id"], "content": content}
            self.body["messages"].append(result)
        self.said = respond(self.body)
        return self


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("现在几点?", [("get_current_time", {"timezone": "Asia/Shanghai"})]),
        ("What time is it?", [("get_current_time", {})]),
        ("What time is it in Tokyo?", [("get_current_time", {"timezone": "Asia/Tokyo"})]),
        (
            "time in London and New York",
            [
                ("get_current_time", {"timezone": "Europe/London"}),
                ("get_current_time", {"timezone": "America/New_York"}),
            ],
        ),
        ("Time in Europe/Vienna please", [("get_current_time", {"timezone": "Europe/Vienna"})]),
        ("AAPL 现在股价多少?", [("get_stock_price", {"symbol": "AAPL"})]),
        (
            "prices of TSLA, 0700.HK and Microsoft in USD",
            [("get_stock_price", {"symbol": one}) for one in ("TSLA", "0700.HK", "MSFT")],
        ),
        ("茅台的行情", [("get_stock_price", {"symbol": "600519.SS"})]),
        (
            "订单 US202611300007 到哪了?",
            [("get_order_detail", {"order_id": "US202611300007", "region": "US"})],
        ),
        (
            "where is order ABCDEF123456 from Europe",
            [("get_order_detail", {"order_id": "ABCDEF123456", "region": "EU"})],
        ),
        (
            "打开 https://example.com/a?b=1。",
            [("fetch_page", {"url": "https://example.com/a?b=1"})],
        ),
        ("What is 2 + 40?", [("add", {"a": 2, "b": 40})]),
        ("巴黎天气怎么样", [("weather", {"city": "Paris"})]),
        ('keep the note "buy milk"', [("store_note", {"text": "buy milk"})]),
        (
            "北京几点了,AAPL 股价多少?",
            [
                ("get_current_time", {"timezone": "Asia/Shanghai"}),
                ("get_stock_price", {"symbol": "AAPL"}),
            ],
        ),
    ],
)
def test_question_becomes_calls(question, calls):
    """Names and descriptions choose the tools, the schema and the text fill them."""
    assert Talk(question).calls == calls


def test_tool_of_another_name_is_found_by_its_description():
    """Nothing depends on the names of our own examples."""
    other = tool("lookup_7", "Returns the stock price", "ticker", ticker={"type": "string"})

    assert Talk("price of ACME?", [NOTE, other]).calls == [("lookup_7", {"ticker": "ACME"})]


@pytest.mark.parametrize("question", ["你好", "Tell me a joke"])
@pytest.mark.parametrize("tools", [ALL, []])
def test_question_that_no_tool_is_for_is_not_answered(question, tools):
    """It admits to be no model, and calls nothing at random."""
    said = Talk(question, tools).said

    assert "tool_calls" not in said
    assert said["content"].endswith(("(离线模型)", "(offline stand-in)"))


def test_answer_comes_from_the_results_in_the_language_of_the_question():
    """Values are those of the results; the answer says who speaks."""
    result = '{"symbol": "AAPL", "price": 189.5}'
    chinese = Talk("AAPL 股价?").answer(result).said["content"]
    english = Talk("price of AAPL?").answer(result).said["content"]

    assert chinese == "symbol: AAPL, price: 189.5(离线模型)"
    assert english == "symbol: AAPL, price: 189.5 (offline stand-in)"


@pytest.mark.parametrize(
    ("question", "content", "said"),
    [
        (
            "AAPL 股价?",
            "行情暂不可用(get_stock_price 暂时不可用,约 12 秒后恢复;本轮不要再调用它,如实告诉用户,不要猜测。)",
            "行情暂不可用(离线模型)",
        ),
        (
            "price of AAPL?",
            "no quotes (get_stock_price is unavailable, try again in about 9 s; do not guess.)",
            "no quotes (offline stand-in)",
        ),
        (
            "AAPL 股价?",
            '{"price": 12}\n[旧数据:60 秒前的值,get_stock_price 目前不可用。回答时请说明。]',
            "price: 12(旧数据,60 秒前)(离线模型)",
        ),
        (
            "price of AAPL?",
            '{"price": 12}\n[From an alternative source.]',
            "price: 12 (from an alternative source) (offline stand-in)",
        ),
        (
            "price of AAPL?",
            "Error: get_stock_price failed (timeout).\n[2 steps left.]",
            "get_stock_price gave no result: Error: get_stock_price failed (timeout)."
            " (offline stand-in)",
        ),
    ],
)
def test_trouble_is_told_as_it_is(question, content, said):
    """A stub, an old value and an error never look like a plain answer."""
    assert Talk(question).answer(content).said["content"] == said


def test_argument_may_come_from_an_earlier_result():
    """A refund without an amount looks the order up first, and happens once."""
    talk = Talk("给订单 CN202612010001 退款")
    first = talk.calls
    second = talk.answer('{"order_id": "CN202612010001", "amount": "399.00"}').calls
    done = talk.answer('{"refund_id": "R1", "amount": "1.00"}')

    assert first == [("get_order_detail", {"order_id": "CN202612010001", "region": "CN"})]
    assert second == [("submit_refund", {"order_id": "CN202612010001", "amount": 399})]
    assert done.calls == []
    assert "R1" in done.said["content"]


@pytest.mark.parametrize(
    ("question", "city"),
    [
        ("weather in Oslo", "Oslo"),
        ("What's the weather like at Reykjavik today?", "Reykjavik"),
        ("weather for San Jose now", "San Jose"),
        ('weather for "san jose" now', "san jose"),
        ("weather city=Oslo please", "Oslo"),
        ("weather, city: San Jose", "San Jose"),
        ("weather(city='Bad Tölz')", "Bad Tölz"),
        ("Oslo weather", "Oslo"),
        ("weather oslo", "oslo"),
        ("what is the weather in paris", "Paris"),
        ("奥斯陆的天气怎么样?", "奥斯陆"),
        ("今天东京天气如何", "Tokyo"),
    ],
)
def test_place_that_is_not_in_the_lexicon_is_found(question, city):
    """A newcomer's own tool is called with what the question names, however it is put."""
    assert Talk(question, [WEATHER]).calls == [("weather", {"city": city})]


@pytest.mark.parametrize("question", ["use the weather tool", "What is the weather like today?"])
def test_no_place_is_asked_for_with_the_form_that_works(question):
    """Where nothing is named it says how to, and makes nothing up."""
    said = Talk(question, [WEATHER]).said

    assert "tool_calls" not in said
    assert "city=…" in said["content"]


def test_given_value_has_the_type_of_its_parameter():
    """name=value serves numbers and texts alike, and a value that is not allowed is passed over."""
    assert Talk("add b=5 a=7", [ADD]).calls == [("add", {"a": 7, "b": 5})]
    assert Talk("price symbol=nvda.x", [QUOTE]).calls == [("get_stock_price", {"symbol": "nvda.x"})]
    assert "tool_calls" not in Talk("price symbol=§§", [QUOTE]).said


def test_missing_argument_is_asked_for():
    """It does not make values up."""
    said = Talk("退款", [REFUND]).said

    assert "tool_calls" not in said
    assert "order_id" in said["content"]


def test_calls_go_one_by_one_where_parallel_ones_are_off():
    """The request's own setting is kept, and nothing is forgotten."""
    talk = Talk("price of AAPL and TSLA", parallel_tool_calls=False)
    first = talk.calls
    second = talk.answer('{"price": 1}').calls
    end = talk.answer('{"price": 2}').said["content"]

    assert first == [("get_stock_price", {"symbol": "AAPL"})]
    assert second == [("get_stock_price", {"symbol": "TSLA"})]
    assert "price: 1" in end and "price: 2" in end


def test_tool_choice_is_respected():
    """None means none; a named tool is the one that is called."""
    named = {"type": "function", "function": {"name": "get_current_time"}}

    assert Talk("price of AAPL", tool_choice="none").calls == []
    assert Talk("price of AAPL", tool_choice=named).calls == [("get_current_time", {})]


def test_same_question_gives_the_same_reply():
    """Deterministic to the id, and ids differ within a turn."""
    first, second = Talk("price of AAPL and TSLA").said, Talk("price of AAPL and TSLA").said
    ids = [call["id"] for call in first["tool_calls"]]

    assert first == second
    assert len(set(ids)) == 2
    assert all(len(each) == 9 and each.isalnum() for each in ids)


def test_only_what_came_since_the_question_counts():
    """An earlier question of the session, and its results, are over."""
    talk = Talk("price of AAPL").answer('{"price": 1}')
    talk.body["messages"] += [talk.said, {"role": "user", "content": "and the price of TSLA?"}]

    assert respond(talk.body)["tool_calls"][0]["function"]["arguments"] == '{"symbol": "TSLA"}'

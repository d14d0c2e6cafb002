"""Degraded runs: a question, and what the tools said to it."""

from __future__ import annotations

from worker.core.gate import Evidence
from worker.core.messages import Observation, Source
from worker.core.observing import error_text, told_stale, told_stub, unknown_outcome
from worker.core.texts import SKIPPED, language_of


def _stub(tool, text, retry, *, language, attempts=1, code=200):
    content = told_stub(text, tool, retry, language=language)
    return tool, Observation(
        content,
        Source.STUB,
        stub=text,
        retry_after_seconds=retry,
        attempts=attempts,
        status_code=code,
    )


def _stale(tool, value, age, *, language):
    content = told_stale(value, tool, age, language=language)
    return tool, Observation(content, Source.STALE, age_seconds=age)


def _live(tool, value):
    return tool, Observation(value, attempts=1)


def _scene(question, *observed, history=()):
    return Evidence(question, observed, told=history, language=language_of(question))


SCENES = {
    "quotes": _scene(
        "苹果和微软现在的股价是多少?",
        _live("get_stock_price", "AAPL 最新价 227.52 美元,涨幅 1.2%,时间 2026-12-02 10:30:00"),
        _stub("get_stock_price", "行情暂不可用", 30.0, language="zh"),
    ),
    "moutai": _scene(
        "茅台(600519.SS)最新价?我有 200 股",
        _stale("get_stock_price", '{"symbol": "600519.SS", "price": 1688.5}', 125.0, language="zh"),
    ),
    "holding": _scene(
        "What are AAPL and TSLA at? I hold 10 AAPL and 4 TSLA.",
        _live("quote", '{"symbol": "AAPL", "price": 227.52, "change": -3.08, "volume": 48215300}'),
        _stub("quote", "Quotes are unavailable", 12.0, language="en", attempts=3),
    ),
    "parcel": _scene(
        "订单 CN20261130001 到哪了?我付了 359 元",
        _live(
            "query_order",
            '{"id": "CN20261130001", "amount": 359.00, "items": 3, "created": "2026-11-30T18:05:00"}',
        ),
        _stub("track_parcel", "物流查询暂不可用", 45.0, language="zh"),
    ),
    "weather": _scene(
        "Will it rain in Berlin on December 5, 2026?",
        _stub("forecast", "The forecast is unavailable", 90.0, language="en"),
    ),
    "transfer": _scene(
        "给张三转账 2000 元",
        _live("get_balance", "账户余额 12,345.67 元"),
        ("transfer", unknown_outcome(language="zh", reason="timeout")),
    ),
    "tickets": _scene(
        "How many tickets of project 42 are open, and how many closed?",
        _live("open_tickets", '{"open": 17, "urgent": 5}'),
        (
            "closed_tickets",
            Observation(
                error_text("http_5xx", "closed_tickets failed (http_5xx)"),
                Source.ERROR,
                status_code=502,
                attempts=3,
                dependency_failed=True,
            ),
        ),
    ),
    "houses": _scene(
        "比较北京、上海和深圳的平均房价",
        _live("house_price", "北京 68,500 元/平方米(2026年11月)"),
        _live("house_price", "上海 64200 元/平方米(2026年11月)"),
        ("house_price", Observation(SKIPPED["zh"], Source.SKIPPED, status_code=499)),
    ),
    "rate": _scene(
        "What is the dollar in yuan, and what are 1,500 dollars?",
        _stale("fx_rate", "USD/CNY 7.0812 (2026-12-01)", 7260.0, language="en"),
        history=("My budget is $4,000.", "Noted: 4,000 dollars."),
    ),
    "tomorrow": _scene(
        "明天上海到北京的高铁还有票吗?",
        _live("now", "2026-12-02 09:15 星期三"),
        _stub("train_tickets", "余票查询暂不可用", 60.0, language="zh"),
    ),
    "tesla": _scene(
        "查一下特斯拉(TSLA)今天的股价,并告诉我现在几点",
        _live("now", "2026-12-02T17:05:33+08:00 Asia/Shanghai"),
        _stub("get_stock_price", "行情暂不可用", 27.4, language="zh", attempts=2, code=503),
    ),
    "parcel_en": _scene(
        "Where is my order #A-10293 and what did I pay?",
        _live("order", '{"order_id": "A-10293", "total_cents": 4599, "eta": "2026-12-06"}'),
        _stub("tracking", "Tracking is unavailable", None, language="en", attempts=2),
    ),
    "gap": _scene(
        "帮我算一下,北京和上海的气温差多少?",
        _live("weather", "北京 -3.5°C,湿度 40%"),
        _stale("weather", "上海 8°C,湿度 65%", 3700, language="zh"),
    ),
    "sales": _scene(
        "Summarise sales for Q3 2026 in EU and US",
        _live("sales", '{"region": "EU", "revenue": 12400000, "growth": 0.083, "units": 15302}'),
        _stub("sales", "Sales data is unavailable", 300.0, language="en"),
    ),
    "news": _scene(
        "搜索最近的AI新闻",
        _live("web_search", "1. OpenAI 发布 GPT-5(2026年11月28日) 2. 英伟达市值突破5万亿美元"),
        (
            "fetch_page",
            Observation("{}", Source.ERROR, dependency_failed=True, attempts=3, status_code=504),
        ),
    ),
}

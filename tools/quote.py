"""A tool over HTTP that stays honest when its upstream does not answer.

`LOOPWORKER_QUOTE_URL` is asked with `?symbol=…` and answers `{"price": 12.5, "currency": "USD"}`;
without it every call ends in the stub, and the log says `not_configured`.
Three failures in a row open the breaker of `quote`; then `LOOPWORKER_QUOTE_URL_2` is asked, if it
is set; then the last good price stands in for up to a minute; then comes 行情暂不可用.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

import httpx
from pydantic import Field

from worker import NotConfigured, ToolContext, ToolError, tool

# What `loopworker tools` and `loopworker doctor` miss when it is not set; the tool runs all the same.
NEEDS = ("LOOPWORKER_QUOTE_URL",)
Symbol = Annotated[str, Field(pattern=r"^[A-Za-z0-9.^=-]{1,15}$")]


async def ask_second_provider(ctx: ToolContext, symbol: Symbol) -> dict[str, Any]:
    """Ask the other provider, when the first has failed."""
    return await _ask("LOOPWORKER_QUOTE_URL_2", ctx, symbol)


@tool(
    effect="read",
    dependency="quote",
    timeout_seconds=3,
    attempts=1,  # a price is asked for again soon enough; a retry would only delay the answer
    fail_max=3,
    alternative=ask_second_provider if os.environ.get("LOOPWORKER_QUOTE_URL_2") else None,
    stale_seconds=60,
    stub="行情暂不可用",
)
async def get_stock_price(ctx: ToolContext, symbol: Symbol) -> dict[str, Any]:
    """查询一只股票的最新价格。Latest price of one stock.

    Args:
        symbol: 股票代码,如 AAPL、600519.SS、0700.HK。Ticker symbol.
    """
    return await _ask("LOOPWORKER_QUOTE_URL", ctx, symbol)


async def _ask(setting: str, ctx: ToolContext, symbol: str) -> dict[str, Any]:
    url = os.environ.get(setting)
    if not url:
        raise NotConfigured(f"no quote service: {setting} is not set")
    reply = await ctx.http.get(httpx.URL(url).copy_merge_params({"symbol": symbol}))
    if reply.status_code == 404:
        raise ToolError(f"no stock has the symbol {symbol!r}")
    reply.raise_for_status()
    quote = reply.json()
    price = quote.get("price") if isinstance(quote, dict) else None
    if isinstance(price, bool) or not isinstance(price, (int, float)):
        raise ValueError("the quote service sent no price")
    told = {name: quote[name] for name in ("currency", "time") if quote.get(name)}
    return {"symbol": symbol, "price": price, **told}

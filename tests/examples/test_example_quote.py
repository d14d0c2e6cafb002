"""`get_stock_price`: over HTTP, behind a breaker, and honest when there is no price."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import tools.quote
from tests.examples.upstream import Upstream
from tools.quote import get_stock_price
from worker import NotConfigured, ToolContext, ToolError
from worker.guard.guards import Guards
from worker.guard.policy import CallPolicy, Fallback, GuardPolicy
from worker.telemetry.tell import Telemetry

Context = Callable[..., ToolContext]


@pytest.fixture(autouse=True)
def _configured(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWORKER_QUOTE_URL", f"{upstream.url}/quote?symbol=")


async def test_price_comes_from_the_upstream(upstream: Upstream, context: Context):
    """The symbol goes into the query; what else the upstream says is left out."""
    upstream.body = json.dumps({"price": 12.5, "currency": "USD", "internal": "x"}).encode()

    got = await get_stock_price.invoke(context(), {"symbol": "BRK.B"})

    assert got == {"symbol": "BRK.B", "price": 12.5, "currency": "USD"}
    assert upstream.asked == ["/quote?symbol=BRK.B"]


@pytest.mark.parametrize("symbol", ["", "苹果", "A" * 16, "A&x=1", "../etc"])
async def test_symbol_that_is_none_is_not_asked_for(
    upstream: Upstream, context: Context, symbol: str
):
    """The schema keeps it from the upstream, and the model learns what a symbol looks like."""
    with pytest.raises(ToolError, match="symbol: "):
        await get_stock_price.invoke(context(), {"symbol": symbol})
    assert upstream.asked == []


async def test_unknown_symbol_is_the_models_to_correct(upstream: Upstream, context: Context):
    """404 is an answer, not a failure of the dependency."""
    upstream.status = 404

    with pytest.raises(ToolError, match="no stock has the symbol 'NOPE'"):
        await get_stock_price.invoke(context(), {"symbol": "NOPE"})


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (503, b"busy", httpx.HTTPStatusError),
        (200, b"<html>", ValueError),
        (200, b"[]", ValueError),
        (200, b'{"price": "12"}', ValueError),
        (200, b'{"price": true}', ValueError),
    ],
)
async def test_nonsense_never_poses_as_a_price(
    upstream: Upstream, context: Context, status: int, body: bytes, error: type[Exception]
):
    """An error status and an answer without a price are failures of the dependency."""
    upstream.status, upstream.body = status, body

    with pytest.raises(error):
        await get_stock_price.invoke(context(), {"symbol": "ACME"})


async def test_without_a_service_there_is_no_price(
    context: Context, monkeypatch: pytest.MonkeyPatch
):
    """The log names the setting; the answer will be the stub, and no invented number."""
    monkeypatch.delenv("LOOPWORKER_QUOTE_URL")

    with pytest.raises(NotConfigured, match="LOOPWORKER_QUOTE_URL is not set"):
        await get_stock_price.invoke(context(), {"symbol": "ACME"})
    assert get_stock_price.stub == "行情暂不可用"


async def test_second_provider_is_the_alternative(
    upstream: Upstream, context: Context, monkeypatch: pytest.MonkeyPatch
):
    """Where a second address is set when the worker starts, it is asked after the first."""
    monkeypatch.setenv("LOOPWORKER_QUOTE_URL_2", f"{upstream.url}/other")
    module = importlib.reload(tools.quote)
    try:
        upstream.body = b'{"price": 3}'
        made: Any = module.get_stock_price
        got = await made.call_alternative({"symbol": "ACME"}, context())
    finally:
        monkeypatch.undo()
        importlib.reload(tools.quote)

    assert got == {"symbol": "ACME", "price": 3}
    assert upstream.asked == ["/other?symbol=ACME"]


async def test_three_time_outs_open_the_breaker(upstream: Upstream, context: Context):
    """The author's own knowledge: three in a row, no retry, then 行情暂不可用 without asking."""
    knows = get_stock_price
    policy = CallPolicy(
        kind="tool",
        target=knows.name,
        timeout_seconds=0.05,  # settings win over the author's 3 seconds
        attempts=knows.attempts,
        fallback=Fallback(stub=knows.stub),
    )
    guards = Guards(Telemetry(), overrides={knows.dependency: GuardPolicy(fail_max=knows.fail_max)})
    upstream.hang = True
    attempts = []

    def attempt(info: Any) -> Any:
        attempts.append(info)
        return knows.call({"symbol": "ACME"}, context())

    async def call() -> Any:
        return await guards.get(knows.dependency).call(attempt, policy)

    outcomes = [await call() for _ in range(5)]

    assert [str(each.source) for each in outcomes] == ["stub"] * 5
    assert {each.value for each in outcomes} == {"行情暂不可用"}
    assert [each.reason for each in outcomes] == ["timeout"] * 3 + ["breaker_open"] * 2
    assert len(attempts) == 3  # a busy machine may time out before the upstream is reached
    assert len(upstream.asked) <= 3
    guards.close()


async def test_missing_setting_is_not_the_upstreams_fault(
    context: Context, monkeypatch: pytest.MonkeyPatch
):
    """However often it is asked for, the breaker of a service that nobody named stays closed."""
    monkeypatch.delenv("LOOPWORKER_QUOTE_URL")
    knows, ctx = get_stock_price, context()
    policy = CallPolicy(kind="tool", target=knows.name, fallback=Fallback(stub=knows.stub))
    guards = Guards(Telemetry(), overrides={knows.dependency: GuardPolicy(fail_max=knows.fail_max)})
    guard = guards.get(knows.dependency)

    outcomes = [
        await guard.call(lambda info: knows.call({"symbol": "ACME"}, ctx), policy)
        for _ in range(12)
    ]

    assert {(str(o.source), o.reason, o.attempts) for o in outcomes} == {
        ("stub", "not_configured", 1)
    }
    assert guard.state == "closed"
    assert guard.snapshot()["consecutive_failures"] == 0
    guards.close()

"""The watched pool: whom it tells the trace, and when it starts anew."""

from __future__ import annotations

import httpx
import pytest

from tests.outbound.faulty import Exchange, faulty
from worker.http import HttpClient, HttpOptions
from worker.outbound.pool import PoolRules, WatchedPool
from worker.telemetry.signals import ClientRecycled


class Scripted(httpx.AsyncBaseTransport):
    """A transport that answers with what it is told to, and notes what it saw."""

    def __init__(self, *script: type[httpx.RequestError] | None) -> None:
        self.script = list(script)
        self.seen: list[httpx.Request] = []
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raise or answer, as the script says; answer once it is over."""
        self.seen.append(request)
        error = self.script.pop(0) if self.script else None
        if error is not None:
            raise error("scripted", request=request)
        return httpx.Response(200, stream=httpx.ByteStream(b"ok"), request=request)

    async def aclose(self) -> None:
        """Note it."""
        self.closed = True


def watched(*pools: Scripted, connections_max: int = 2, **rules) -> tuple[WatchedPool, list[str]]:
    """Build a pool that takes the given transports one after the other."""
    waiting = list(pools)
    recycled: list[str] = []
    settings = {"pool_seconds": 1.0, "trace_hosts": frozenset({"127.0.0.1"}), **rules}
    pool = WatchedPool(
        lambda: waiting.pop(0),
        rules=PoolRules(connections_max=connections_max, **settings),
        recycled=lambda: recycled.append("recycled"),
        clock=lambda: 100.0,
    )
    return pool, recycled


async def ask(pool: WatchedPool, url: str = "http://127.0.0.1/") -> httpx.Response:
    """Send one request."""
    return await pool.handle_async_request(httpx.Request("GET", url))


async def test_three_pool_timeouts_in_a_row_with_free_slots_start_a_new_pool():
    """A pool that refuses while nothing is going on is poisoned; the next one takes over."""
    old, new = Scripted(*[httpx.PoolTimeout] * 3), Scripted()
    pool, recycled = watched(old, new)
    for _ in range(3):
        with pytest.raises(httpx.PoolTimeout):
            await ask(pool)
    await ask(pool)

    assert recycled == ["recycled"]
    assert (len(old.seen), len(new.seen)) == (3, 1)
    assert old.closed


@pytest.mark.parametrize("between", [None, httpx.ConnectError])
async def test_anything_else_ends_the_row(between):
    """A request that got a connection proves that the pool still gives some."""
    timeout = httpx.PoolTimeout
    only = Scripted(timeout, timeout, between, timeout, timeout)
    pool, recycled = watched(only)
    for _ in range(5):
        try:
            await (await ask(pool)).aclose()
        except httpx.RequestError:
            continue

    assert recycled == []


async def test_busy_pool_is_not_poisoned():
    """As long as the slots are really in use a PoolTimeout is only the truth."""
    only = Scripted(None, None, *[httpx.PoolTimeout] * 3)
    pool, recycled = watched(only)
    held = [await ask(pool), await ask(pool)]
    for _ in range(3):
        with pytest.raises(httpx.PoolTimeout):
            await ask(pool)

    assert recycled == []
    assert len(held) == 2


async def test_old_pool_is_closed_only_when_its_replies_are():
    """A reply that is still being read keeps its pool open."""
    old, new = Scripted(None, *[httpx.PoolTimeout] * 3), Scripted()
    pool, _ = watched(old, new)
    reading = await ask(pool)
    for _ in range(3):
        with pytest.raises(httpx.PoolTimeout):
            await ask(pool)
    await ask(pool)
    before = old.closed
    await reading.aclose()
    await ask(pool)

    assert (before, old.closed) == (False, True)


async def test_closing_closes_all_pools():
    """Nothing stays open behind a closed client."""
    old, new = Scripted(None, *[httpx.PoolTimeout] * 3), Scripted()
    pool, _ = watched(old, new)
    await ask(pool)
    for _ in range(3):
        with pytest.raises(httpx.PoolTimeout):
            await ask(pool)
    await pool.aclose()

    assert (old.closed, new.closed) == (True, True)


async def test_trace_goes_to_listed_hosts_only():
    """A third party learns nothing of our traces, and nobody gets baggage."""
    only = Scripted()
    pool, _ = watched(only, trace_headers=lambda: {"traceparent": "00-a-b-01", "baggage": "user=1"})
    await ask(pool, "http://127.0.0.1/")
    await ask(pool, "http://stranger.test/")
    ours, theirs = (request.headers for request in only.seen)

    assert ours.get("traceparent") == "00-a-b-01"
    assert "traceparent" not in theirs
    assert "baggage" not in ours


async def test_trace_that_the_caller_set_is_kept():
    """A tool that hands on its own context knows better."""
    only = Scripted()
    pool, _ = watched(only, trace_headers=lambda: {"traceparent": "ours"})
    request = httpx.Request("GET", "http://127.0.0.1/", headers={"traceparent": "own"})
    await pool.handle_async_request(request)

    assert only.seen[0].headers["traceparent"] == "own"


@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
async def test_a_client_tells_the_trace_as_the_pool_does(transport):
    """Also on its short way to the socket: to listed hosts, once, and what the caller set wins."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply()

    offered = {"traceparent": "ours", "baggage": "user=1"}
    told = []
    async with faulty(script) as server:
        for hosts, headers in (
            ({"127.0.0.1"}, {}),
            ({"127.0.0.1"}, {"TraceParent": "own"}),
            ((), {}),
        ):
            options = HttpOptions(transport=transport, trace_hosts=frozenset(hosts))
            client = HttpClient(options, trace_headers=lambda: offered)
            await client.request("GET", server.url, headers=headers)
            await client.aclose()
        for exchange in server.requests:
            head = exchange.head.decode().lower()
            told.append((head.count("traceparent:"), exchange.header("traceparent")))
            assert "baggage" not in head

    assert told == [(1, "ours"), (1, "own"), (0, None)]


async def test_client_tells_that_it_was_recycled(monkeypatch):
    """Operators see a poisoned pool, by the name of its client."""
    pools = [Scripted(*[httpx.PoolTimeout] * 3), Scripted()]
    monkeypatch.setattr(HttpClient, "_transport", lambda self, proxy: pools.pop(0))
    told: list[ClientRecycled] = []
    client = HttpClient(name="quotes", tell=told.append)
    for _ in range(3):
        with pytest.raises(httpx.PoolTimeout):
            await client.client.get("http://127.0.0.1/")
    await client.aclose()

    assert told == [ClientRecycled(target="quotes")]

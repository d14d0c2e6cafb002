"""The client below the SDK's streamable HTTP: bounded, and honest about what failed."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from worker.mcp.faults import HTTP_FAILED
from worker.mcp.streamable import Address, BodyTooLong, Bounded, _certificates, _proxy_for

URL = "http://127.0.0.1:1/mcp"


class Wire(httpx2.AsyncBaseTransport):
    """Answers each request with what the test has put there."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer or raise."""
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Pieces(httpx2.AsyncByteStream):
    """A body in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


async def sent(answer: Any, *, method: str = "POST", bytes_max: int = 100) -> httpx2.Response:
    """Send one request through the bounds."""
    bounded = Bounded(Wire(answer), bytes_max)
    return await bounded.handle_async_request(httpx2.Request(method, URL))


async def failure_of(answer: Any) -> dict[str, Any]:
    """The data of the error that stands for a failed request."""
    response = await sent(answer)
    body = json.loads(await response.aread())
    assert body["error"]["code"] == HTTP_FAILED
    return dict(body["error"]["data"], status_of_response=response.status_code)


@pytest.mark.parametrize(
    ("error", "kind", "was_sent"),
    [
        (httpx2.ConnectError("refused"), "connection", False),
        (httpx2.ConnectTimeout("slow"), "timeout", False),
        (httpx2.PoolTimeout("full"), "timeout", False),
        (httpx2.ReadError("reset"), "connection", True),
        (httpx2.ReadTimeout("silent"), "timeout", True),
        (httpx2.RemoteProtocolError("gone"), "connection", True),
    ],
)
async def test_a_server_out_of_reach_fails_one_request(error: Exception, kind: str, was_sent: bool):
    """The SDK would end the whole session; and whether anything was sent is kept."""
    failed = await failure_of(error)
    assert (failed["kind"], failed["sent"]) == (kind, was_sent)


@pytest.mark.parametrize(
    ("status", "kind", "was_sent"),
    [(404, "http_4xx", False), (401, "http_4xx", False), (500, "http_5xx", None)],
)
async def test_a_refusal_keeps_its_status(status: int, kind: str, was_sent: bool | None):
    """What the guard rules on is not lost."""
    failed = await failure_of(httpx2.Response(status, text="nope"))
    assert (failed["status"], failed["kind"], failed.get("sent")) == (status, kind, was_sent)


async def test_a_server_that_asks_to_wait_is_heard():
    """Retry-After in seconds is passed on; nonsense is not."""
    busy = httpx2.Response(429, headers={"retry-after": "7"})
    assert (await failure_of(busy))["retry_after"] == 7.0
    odd = httpx2.Response(429, headers={"retry-after": "soon"})
    assert "retry_after" not in await failure_of(odd)


async def test_an_error_of_the_protocol_is_left_to_the_sdk():
    """A 400 whose body is an error of JSON-RPC says more than its status."""
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "bad"}}
    response = await sent(httpx2.Response(400, json=error))
    assert json.loads(await response.aread()) == error


async def test_answers_are_bounded_and_never_inflated():
    """Neither a long body nor a small one that unpacks to a long one gets through."""
    response = await sent(httpx2.Response(200, stream=Pieces(b"x" * 60, b"x" * 60)))
    with pytest.raises(BodyTooLong, match="more than 100 bytes"):
        async for _ in response.stream:
            pass
    packed = httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Pieces(b"x"))
    assert (await failure_of(packed))["status"] == 502


async def test_a_stream_of_news_has_no_length_but_an_answer_no_long_silence():
    """Only what answers a request is timed; the goodbye is short."""
    wire = Wire(httpx2.Response(200, stream=Pieces(b"x" * 1000)))
    bounded = Bounded(wire, 100, silence_seconds=7.0)
    timeouts = []
    for method in ("GET", "POST", "DELETE"):
        request = httpx2.Request(method, URL, extensions={"timeout": {"read": None}})
        response = await bounded.handle_async_request(request)
        timeouts.append(request.extensions["timeout"]["read"])
        if method == "GET":
            assert [len(piece) async for piece in response.stream] == [1000]
    assert timeouts == [None, 7.0, 2.0]


async def test_streams_are_not_asked_for_again_at_once(monkeypatch: pytest.MonkeyPatch):
    """A server may say `retry: 0`; the second request waits all the same."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    bounded = Bounded(Wire(httpx2.Response(200)), 100)
    for _ in range(3):
        await bounded.handle_async_request(httpx2.Request("GET", URL))
    assert slept[0] == 0
    assert slept[1] == pytest.approx(1.0, abs=0.1)
    assert slept[2] == pytest.approx(2.0, abs=0.1)


def test_headers_are_not_part_of_a_repr():
    """Whoever prints an address prints no key."""
    assert "s3cret" not in repr(Address("http://127.0.0.1/", {"authorization": "s3cret"}))


def test_proxies_are_used_only_where_operations_say_so(monkeypatch: pytest.MonkeyPatch):
    """The environment alone leads nobody astray."""
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    address = Address("https://example.com/mcp")
    assert _proxy_for(address) is None
    assert _proxy_for(Address(address.url, proxies=True)) == "http://proxy.example:3128"


def test_certificates_of_the_machine_are_checked():
    """They are read once: a server that is away is connected to again and again."""
    assert _certificates().verify_mode is ssl.CERT_REQUIRED
    assert _certificates() is _certificates()

"""One request to a model server: what comes back, whatever way it came, and what it fails with."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from email.utils import formatdate

import pytest

from tests.outbound.faulty import Exchange, faulty
from worker.core.errors import AttemptFailed, AttemptTimeout
from worker.http import Bounds, HttpClient, HttpOptions
from worker.model.transport import ChatTransport, ReplyFailed
from worker.outbound.failures import Silence

REPLY = {
    "id": "r1",
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    ],
}


def event(**delta: object) -> bytes:
    """Write one chunk of a stream."""
    reason = delta.pop("finish_reason", None)
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.dumps({"id": "s1", "choices": [choice]}).encode() + b"\n\n"


HI, STOP, DONE = event(content="Hi"), event(finish_reason="stop"), b"data: [DONE]\n\n"
SSE = "text/event-stream; charset=utf-8"


@pytest.fixture(params=["aiohttp", "httpx"])
async def http(request: pytest.FixtureRequest) -> AsyncIterator[HttpClient]:
    """A client over each transport."""
    client = HttpClient(HttpOptions(transport=request.param))
    yield client
    await client.aclose()


async def ask(http: HttpClient, script, *, stream: bool = False, **bounds: float):
    """Ask a server that follows the script."""
    async with faulty(script) as server:
        transport = ChatTransport(http, base_url=server.url + "/v1/", api_key="k")
        return await transport.ask(b"{}", stream=stream, bounds=Bounds(**bounds))  # type: ignore[arg-type]


def said(raw) -> str:
    """Return the text of a reply."""
    return raw.body["choices"][0]["message"]["content"]


def chunked(*pieces: bytes, end: bool = True):
    """Stream the pieces, each in a network chunk of its own."""

    async def script(exchange: Exchange) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {SSE}\r\ntransfer-encoding: chunked\r\n\r\n"
        await exchange.send(head.encode())
        for piece in pieces:
            await exchange.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            await asyncio.sleep(0)
        if end:
            await exchange.send(b"0\r\n\r\n")
            exchange.keep = True

    return script


async def answer_json(exchange: Exchange) -> None:
    """Answer at once."""
    body = json.dumps(REPLY).encode()
    await exchange.reply(body, headers={"content-type": "application/json"})


async def test_request_is_what_the_endpoint_expects(http):
    """One POST to /chat/completions below the base URL, with the key and the type."""
    async with faulty(answer_json) as server:
        transport = ChatTransport(http, base_url=server.url + "/v1/", api_key="k")
        await transport.ask(b'{"a":1}', stream=False, bounds=Bounds())
        sent = server.requests[0]

    assert sent.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert sent.header("authorization") == "Bearer k"
    assert sent.header("content-type") == "application/json"
    assert sent.body == b'{"a":1}'


async def test_query_of_the_base_url_stays_behind_the_path(http):
    """Some servers want their version there."""
    async with faulty(answer_json) as server:
        transport = ChatTransport(http, base_url=server.url + "/v1/?api-version=3&a=%2F")
        await transport.ask(b"{}", stream=False, bounds=Bounds())
        sent = server.requests[0]

    assert sent.head.startswith(b"POST /v1/chat/completions?api-version=3&a=%2F HTTP/1.1\r\n")


async def test_no_key_sends_no_authorization(http):
    """A local server needs no key, and gets no empty one."""
    async with faulty(answer_json) as server:
        await ChatTransport(http, base_url=server.url).ask(b"{}", stream=False, bounds=Bounds())

    assert server.requests[0].header("authorization") is None


@pytest.mark.parametrize("stream", [False, True])
async def test_json_is_read_whether_or_not_a_stream_was_asked_for(http, stream):
    """Some servers answer a streamed request with one JSON body."""
    raw = await ask(http, answer_json, stream=stream)

    assert (said(raw), raw.first_chunk_seconds) == ("Hi", None)


@pytest.mark.parametrize("stream", [False, True])
async def test_events_are_read_whether_or_not_they_were_asked_for(http, stream):
    """Some servers only stream."""
    raw = await ask(
        http, chunked(event(content="H"), event(content="i"), STOP, DONE), stream=stream
    )

    assert said(raw) == "Hi"
    assert raw.first_chunk_seconds is not None and raw.first_chunk_seconds > 0


async def test_events_cut_anywhere_are_read(http):
    """Network chunks know nothing of characters and lines."""
    whole = event(content="中文🙂") + STOP + DONE
    raw = await ask(http, chunked(*(whole[i : i + 1] for i in range(len(whole)))), stream=True)

    assert said(raw) == "中文🙂"


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/json"])
async def test_events_under_a_wrong_type_are_recognised(http, kind):
    """A proxy that loses the content type does not lose the reply."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(b": hi\n\n" + HI + STOP + DONE, headers={"content-type": kind})

    assert said(await ask(http, script, stream=True)) == "Hi"


async def test_json_that_calls_itself_a_stream_is_recognised(http):
    """A server that cannot stream may set the type that was asked for all the same."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(json.dumps(REPLY).encode(), headers={"content-type": SSE})

    raw = await ask(http, script, stream=True)

    assert (said(raw), raw.first_chunk_seconds) == ("Hi", None)


@pytest.mark.parametrize("before", [b"\n\n\n", b"\xef\xbb\xbf"])
async def test_json_after_keepalives_or_a_bom_is_read(http, before):
    """Blank lines keep a slow connection alive; a BOM is nobody's intention."""

    async def script(exchange: Exchange) -> None:
        body = before + json.dumps(REPLY).encode()
        await exchange.reply(body, headers={"content-type": "application/json"})

    assert said(await ask(http, script)) == "Hi"


async def test_line_that_stays_open_after_done_is_left(http):
    """[DONE] is the end, whatever the server does with the connection."""
    hung = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await chunked(HI, STOP, DONE, end=False)(exchange)
        await hung.wait()

    began = time.monotonic()
    raw = await ask(http, script, stream=True)

    assert said(raw) == "Hi"
    assert time.monotonic() - began < 10  # the line stays open for ever


async def test_connection_of_a_finished_stream_is_used_again(http):
    """Streaming does not cost a new connection for each reply."""
    async with faulty(chunked(HI, STOP, DONE)) as server:
        transport = ChatTransport(http, base_url=server.url)
        for _ in range(3):
            await transport.ask(b"{}", stream=True, bounds=Bounds())

    assert (server.connections, len(server.requests)) == (1, 3)


@pytest.mark.parametrize("reset", [False, True])
async def test_stream_that_breaks_after_its_finish_reason_is_whole(http, reset):
    """Only [DONE] is missing, and it says nothing new."""

    async def script(exchange: Exchange) -> None:
        await chunked(HI, STOP, end=False)(exchange)
        if reset:
            await asyncio.sleep(0.05)
            exchange.reset()

    assert said(await ask(http, script, stream=True)) == "Hi"


async def test_stream_that_breaks_before_is_a_connection_failure(http):
    """Half a reply is none."""
    with pytest.raises(AttemptFailed) as caught:
        await ask(http, chunked(HI, end=False), stream=True)

    assert (caught.value.kind, caught.value.retryable) == ("connection", True)


async def test_stream_that_ends_well_without_an_end_mark_is_cut(http):
    """A clean end of the connection does not make a reply complete."""
    with pytest.raises(ReplyFailed) as caught:
        await ask(http, chunked(HI), stream=True)

    assert (caught.value.status, caught.value.transient) == ("model_unavailable", True)
    assert caught.value.text == "Hi"


async def test_error_within_a_stream_is_a_failure_by_its_code(http):
    """What came before the error is not an answer."""
    error = b'data: {"error": {"code": 429, "message": "slow down"}}\n\n'
    with pytest.raises(ReplyFailed) as caught:
        await ask(http, chunked(HI, error, DONE), stream=True)

    assert caught.value.failure.status == "rate_limited"


async def test_endless_event_is_refused(http):
    """A stream that never ends a line fills no memory."""

    async def script(exchange: Exchange) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {SSE}\r\nconnection: close\r\n\r\ndata: "
        await exchange.send(head.encode())
        while True:
            await exchange.send(b"x" * 65536)

    with pytest.raises((ReplyFailed, AttemptFailed)):
        await ask(http, script, stream=True, body_bytes_max=1_000_000)


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (401, {}, b'{"error": {"message": "bad key"}}', ("auth_error", False, None)),
        (429, {"retry-after": "2"}, b"{}", ("rate_limited", True, 2.0)),
        (429, {"retry-after-ms": "300", "retry-after": "2"}, b"{}", ("rate_limited", True, 0.3)),
        (429, {"retry-after": "soon"}, b"{}", ("rate_limited", True, None)),
        (503, {"x-should-retry": "false"}, b"", ("model_unavailable", False, None)),
        (502, {}, b"<html><title>Bad Gateway</title>", ("model_unavailable", True, None)),
        (302, {"location": "/x"}, b"", ("protocol_error", False, None)),
    ],
)
async def test_refusal_is_judged(http, status, headers, body, expected):
    """Status, headers and body together say what to do next."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(body, status=status, headers=headers)

    with pytest.raises(ReplyFailed) as caught:
        await ask(http, script)
    failure = caught.value.failure

    assert (failure.status, failure.transient, failure.retry_after_seconds) == expected


async def test_date_in_retry_after_is_read_by_the_wall_clock(http):
    """A date is as good as seconds."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(
            status=429, headers={"retry-after": formatdate(1_000_030, usegmt=True)}
        )

    async with faulty(script) as server:
        transport = ChatTransport(http, base_url=server.url, wall=lambda: 1_000_000.0)
        with pytest.raises(ReplyFailed) as caught:
            await transport.ask(b"{}", stream=False, bounds=Bounds())

    assert caught.value.retry_after_seconds == pytest.approx(30)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", "model_unavailable"),
        (b'{"id": "x", "cho', "model_unavailable"),
        (b"<html>captcha</html>", "protocol_error"),
        (b"[1, 2]", "protocol_error"),
        (gzip.compress(json.dumps(REPLY).encode(), mtime=0)[:40], "model_unavailable"),
    ],
)
async def test_success_that_is_no_json_object_is_retried(http, body, status):
    """Two hundred and nonsense is a failure of transport, not an answer."""
    packed = {"content-encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}

    async def script(exchange: Exchange) -> None:
        await exchange.reply(body, headers={"content-type": "application/json", **packed})

    with pytest.raises(ReplyFailed) as caught:
        await ask(http, script)

    assert (caught.value.status, caught.value.transient) == (status, True)


async def test_silence_within_a_stream_is_told_from_a_lack_of_time(http):
    """A quiet server may be asked again; a used-up time is used up."""
    hung = asyncio.Event()

    async def quiet(exchange: Exchange) -> None:
        await chunked(HI, end=False)(exchange)
        await hung.wait()

    async def trickle(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n")
        while True:
            await exchange.send(b" ")
            await asyncio.sleep(0.02)

    with pytest.raises(Silence):
        await ask(http, quiet, stream=True, read_seconds=0.1, total_seconds=5)
    with pytest.raises(AttemptTimeout) as caught:
        await ask(http, trickle, read_seconds=0.15, total_seconds=0.2)

    assert type(caught.value) is AttemptTimeout

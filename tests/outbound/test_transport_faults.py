"""Both transports under the faults of real servers: the same suite, the same exceptions."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.outbound.faulty import Exchange, faulty
from worker.core.errors import AttemptFailed, AttemptTimeout
from worker.http import Bounds, HttpClient, HttpOptions

OK_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BODY = b'{"id": "x", "choices": []}'


@contextlib.contextmanager
def full_backlog() -> Iterator[str]:
    """An address that never completes a handshake."""
    with contextlib.ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = open_sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def cut_with_length(exchange: Exchange) -> None:
    """Promise more than is sent."""
    await exchange.send(OK_HEAD + b"content-length: 5000\r\n\r\n" + BODY)


async def cut_chunked(exchange: Exchange) -> None:
    """Leave out the last chunk."""
    chunk = b"%x\r\n%s\r\n" % (len(BODY), BODY)
    await exchange.send(OK_HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk)


async def cut_within_chunk(exchange: Exchange) -> None:
    """End inside a chunk."""
    await exchange.send(OK_HEAD + b"transfer-encoding: chunked\r\n\r\n500\r\n" + BODY)


async def broken_chunk_size(exchange: Exchange) -> None:
    """Send something that is no chunk size."""
    await exchange.send(OK_HEAD + b"transfer-encoding: chunked\r\n\r\nxyz\r\n" + BODY)


async def garbage_status(exchange: Exchange) -> None:
    """Speak another protocol."""
    await exchange.send(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


async def silence_then_end(exchange: Exchange) -> None:
    """Close without a word."""


async def half_a_head(exchange: Exchange) -> None:
    """Close within the headers."""
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-ty")


async def plain_called_gzip(exchange: Exchange) -> None:
    """Claim an encoding that the body does not have."""
    length = f"content-length: {len(BODY)}\r\n".encode()
    await exchange.send(OK_HEAD + b"content-encoding: gzip\r\n" + length + b"\r\n" + BODY)


async def reset_in_body(exchange: Exchange) -> None:
    """Reset after a part of the body has certainly arrived."""
    await exchange.send(OK_HEAD + b"content-length: 5000\r\n\r\n" + BODY)
    await asyncio.sleep(0.02)
    exchange.reset()


async def reset_before_head(exchange: Exchange) -> None:
    """Reset instead of an answer."""
    exchange.reset()


PROTOCOL = httpx.RemoteProtocolError
FAULTS = {
    cut_with_length: (PROTOCOL,),
    cut_chunked: (PROTOCOL,),
    cut_within_chunk: (PROTOCOL,),
    broken_chunk_size: (PROTOCOL,),
    garbage_status: (PROTOCOL,),
    silence_then_end: (PROTOCOL,),
    half_a_head: (PROTOCOL,),
    plain_called_gzip: (httpx.DecodingError,),
    # aiohttp tells a reset within a body from an early end only in its text.
    reset_in_body: (httpx.ReadError, PROTOCOL),
    reset_before_head: (httpx.ReadError,),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_fault_is_the_same_httpx_exception(make, fault):
    """A tool that catches httpx's exception catches it whatever the transport is."""
    async with faulty(fault) as server:
        with pytest.raises(FAULTS[fault]):
            await make().client.post(server.url, content=b"{}")

    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_fault_is_a_connection_failure_that_was_sent(make, fault):
    """Our own requests see one kind, and know that the server may have acted."""
    async with faulty(fault) as server:
        with pytest.raises(AttemptFailed) as caught:
            await make().post(server.url, content=b"{}")

    assert (caught.value.kind, caught.value.sent) == ("connection", True)
    assert caught.value.retryable
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_nothing_is_sent_twice(make, method):
    """A broken connection is reported; sending again is the guard's decision."""
    async with faulty(reset_before_head) as server:
        with pytest.raises(AttemptFailed):
            await make().request(method, server.url)

    assert len(server.requests) == 1


async def test_body_cut_without_length_is_what_arrived(make):
    """Without a length the end of the connection is the end of the body: no error is possible."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(OK_HEAD + b"connection: close\r\n\r\n" + BODY[:9])

    async with faulty(script) as server:
        reply = await make().post(server.url, content=b"{}")

    assert reply.body == BODY[:9]


@pytest.mark.parametrize("cut", [False, True])
async def test_gzip_is_decoded_as_far_as_it_came(make, cut):
    """Gzip that is cut at a matching length is no error of the transport, only an odd body."""
    packed = gzip.compress(BODY)
    packed = packed[: len(packed) // 2] if cut else packed

    async def script(exchange: Exchange) -> None:
        await exchange.reply(packed, headers={"content-encoding": "gzip"})

    async with faulty(script) as server:
        reply = await make().get(server.url)

    assert BODY.startswith(reply.body)
    assert (reply.body == BODY) is not cut


async def test_trickle_ends_at_the_total_deadline(make):
    """Each byte restarts the read timeout; the total time does not care."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(OK_HEAD + b"content-length: 500\r\n\r\n")
        while True:
            await exchange.send(b"x")
            await asyncio.sleep(0.02)

    async with faulty(script) as server:
        bounds = Bounds(total_seconds=0.2, read_seconds=0.15)
        with pytest.raises(AttemptTimeout) as caught:
            await make().request("GET", server.url, bounds=bounds)

    assert "0.2 s" in str(caught.value)
    assert caught.value.sent


async def test_silence_is_a_read_timeout(make):
    """A server that says nothing is left after the read timeout, before the total one."""

    async def script(exchange: Exchange) -> None:
        await exchange.gone.wait()

    async with faulty(script) as server:
        client = make(read_seconds=0.1)
        with pytest.raises(httpx.ReadTimeout):
            await client.client.get(server.url)
        with pytest.raises(AttemptTimeout) as caught:
            await client.get(server.url)

    assert caught.value.sent


async def test_refused_connection_was_not_sent(make):
    """Where nobody listens nothing can have happened, so even a write may be tried again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(httpx.ConnectError):
            await make().client.get(url)
        with pytest.raises(AttemptFailed) as caught:
            await make().get(url)

    assert (caught.value.kind, caught.value.sent) == ("connection", False)


async def test_unknown_host_was_not_sent(make):
    """A name that does not exist is a failed connect."""
    with pytest.raises(httpx.ConnectError):
        await make().client.get("http://nowhere.invalid/")


async def test_connect_that_hangs_is_a_connect_timeout(make):
    """A full backlog never completes the handshake; nothing was sent."""
    with full_backlog() as url:
        client = make(connect_seconds=0.2)
        with pytest.raises(httpx.ConnectTimeout):
            await client.client.get(url)
        with pytest.raises(AttemptTimeout) as caught:
            await client.get(url)

    assert not caught.value.sent


async def test_full_pool_is_a_pool_timeout(make):
    """Waiting for a free connection is our limit, not the server's fault."""
    release = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await release.wait()
        await exchange.reply()

    async with faulty(script) as server:
        client = make(connections_max=1, pool_seconds=0.1)
        first = asyncio.create_task(client.get(server.url))
        await server.asked.wait()
        with pytest.raises(httpx.PoolTimeout):
            await client.client.get(server.url)
        with pytest.raises(AttemptFailed) as caught:
            await client.get(server.url)
        release.set()
        reply = await first

    assert (caught.value.kind, caught.value.sent) == ("bulkhead_full", False)
    assert reply.body == b"ok"


async def test_waiting_for_the_pool_does_not_cut_the_connecting(make):
    """A short pool timeout leaves the connect its own time."""
    with full_backlog() as url:
        client = make(connect_seconds=0.3, pool_seconds=0.01)
        with pytest.raises(httpx.ConnectTimeout):
            await client.client.get(url)


async def test_secret_in_the_query_stays_out_of_error_texts(make):
    """Error texts travel to logs; a query may hold a key."""
    texts = []
    for fault in (garbage_status, silence_then_end, reset_before_head):
        async with faulty(fault) as server:
            with pytest.raises(AttemptFailed) as caught:
                await make().get(server.url + "/?key=hush-hush")
            texts += [str(caught.value)]

    assert not any("hush" in text for text in texts)


async def storm(client: HttpClient, url: str) -> None:
    """Cancel five hundred calls at random moments."""
    dice = random.Random(7)

    async def caller() -> None:
        for _ in range(25):
            try:
                async with asyncio.timeout(dice.uniform(0.0005, 0.02)):
                    await client.post(url, content=b"{}")
            except (TimeoutError, AttemptFailed):
                continue

    async with asyncio.TaskGroup() as callers:
        for _ in range(20):
            callers.create_task(caller())


async def answer_after_a_while(exchange: Exchange) -> None:
    """Take long enough to be cancelled."""
    await asyncio.sleep(0.01)
    await exchange.reply()


async def test_cancelled_calls_leave_the_aiohttp_pool_usable():
    """A storm of cancellations at random moments costs no connection for good."""
    async with faulty(answer_after_a_while) as server:
        client = HttpClient(HttpOptions(connections_max=5, pool_seconds=1))
        await storm(client, server.url)
        replies = await asyncio.gather(*(client.get(server.url) for _ in range(20)))
        await client.aclose()

    assert [reply.body for reply in replies] == [b"ok"] * 20


async def test_httpx_pool_that_cancellations_poisoned_is_replaced():
    """Plain httpx loses connections to cancelled calls; at most three calls later it is well."""
    async with faulty(answer_after_a_while) as server:
        options = HttpOptions(transport="httpx", connections_max=5, pool_seconds=0.2)
        client = HttpClient(options)
        await storm(client, server.url)
        failures = 0
        while failures < 4:
            try:
                await client.get(server.url)
                break
            except AttemptFailed:
                failures += 1
        replies = await asyncio.gather(*(client.get(server.url) for _ in range(5)))
        await client.aclose()

    assert failures <= 3
    assert [reply.body for reply in replies] == [b"ok"] * 5

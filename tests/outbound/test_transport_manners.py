"""Both transports with well-behaved servers: what is kept, sent and shown is the same."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.outbound.faulty import Exchange, FaultyServer, faulty
from worker.core.errors import AttemptFailed

TLS = Path(__file__).parent / "tls"


async def test_connection_is_kept_and_used_again(make):
    """Several exchanges need one connection."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply()

    async with faulty(script) as server:
        client = make()
        for _ in range(5):
            await client.get(server.url)

    assert (server.connections, len(server.requests)) == (1, 5)


async def test_server_that_closed_the_idle_connection_is_asked_on_a_new_one(make):
    """A connection that ended while idle is not used again; the request succeeds."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply()
        exchange.keep = False

    async with faulty(script) as server:
        client = make()
        await client.post(server.url, content=b"1")
        await asyncio.sleep(0.05)  # the end has to arrive
        reply = await client.post(server.url, content=b"2")

    assert reply.body == b"ok"
    assert [exchange.body for exchange in server.requests] == [b"1", b"2"]


async def test_reply_left_early_does_not_spoil_the_next(make):
    """A stream that is left in the middle takes its connection with it."""

    async def script(exchange: Exchange) -> None:
        body = b"x" * 1_000_000 if exchange.number == 0 else b"fresh"
        await exchange.reply(body)

    async with faulty(script) as server:
        client = make()
        async with client.stream("GET", server.url) as reply:
            async for _ in reply.chunks():
                break
        second = await client.get(server.url)

    assert second.body == b"fresh"


async def test_body_over_the_limit_is_refused(make):
    """Reading stops at the limit, decoded bytes counted."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(gzip.compress(b"x" * 100_000), headers={"content-encoding": "gzip"})

    async with faulty(script) as server:
        with pytest.raises(AttemptFailed) as caught:
            await make(body_bytes_max=50_000).get(server.url)

    assert (caught.value.kind, caught.value.retryable) == ("result_too_large", False)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirect_is_returned_not_followed(make, status):
    """Where a request goes is decided by whoever made it."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(status=status, headers={"location": "http://127.0.0.1:1/"})

    async with faulty(script) as server:
        reply = await make().post(server.url, content=b"{}")
        through_client = await make().client.get(server.url)

    assert (reply.status, through_client.status_code) == (status, status)


async def test_cookies_do_not_reach_the_next_caller(make):
    """One pool serves everybody, so nothing that a server hands out is kept."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(headers={"set-cookie": "session=secret"})

    async with faulty(script) as server:
        client = make()
        await client.get(server.url)
        await client.client.get(server.url)
        await client.client.get(server.url)

    assert [exchange.header("cookie") for exchange in server.requests] == [None] * 3


async def test_url_goes_out_as_it_was_written(make):
    """Quoting a signed URL anew would break the signature."""
    path = "/a%2Fb%7Ec/%E4%B8%AD?sig=a%20b%2Bc%3D&x=%7E"

    async def script(exchange: Exchange) -> None:
        await exchange.reply()

    async with faulty(script) as server:
        await make().get(server.url + path)

    assert server.requests[0].head.split(b" ")[1].decode() == path


async def test_headers_are_those_that_were_given(make):
    """No transport adds its own name or types."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply()

    async with faulty(script) as server:
        await make().post(server.url, content=b"{}", headers={"content-type": "application/json"})

    sent = server.requests[0].head.lower()
    assert b"user-agent: loopworker\r\n" in sent
    assert sent.count(b"content-type:") == 1
    assert b"aiohttp" not in sent


async def test_long_header_is_taken(make):
    """A header of 20 kB is legal and is no reason to fail."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(headers={"x-long": "v" * 20_000})

    async with faulty(script) as server:
        reply = await make().get(server.url)

    assert len(reply.headers["x-long"]) == 20_000


async def test_streamed_upload_arrives(make):
    """A body that comes in pieces is framed once."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one,"
        yield b"two"

    received = b""

    async def script(exchange: Exchange) -> None:
        await exchange.reply()

    async with faulty(script) as server:
        server._talk = chunked_talk(server)  # type: ignore[method-assign]
        response = await make().client.post(server.url, content=pieces())
        received = server.requests[0].body

    assert response.status_code == 200
    assert received == b"one,two"
    assert server.requests[0].head.lower().count(b"transfer-encoding") == 1


def chunked_talk(server: FaultyServer):
    """Read one chunked request and answer it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        exchange = Exchange(head, body, writer, 0)
        server.requests.append(exchange)
        await exchange.reply()

    return talk


async def test_environment_proxy_is_used_only_when_trusted(make, monkeypatch):
    """A proxy that happens to be in the environment takes no traffic by itself."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(exchange.head.split(b" ")[1])

    async with faulty(script) as proxy, faulty(script) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        direct = await make().get(server.url + "/x")
        by_proxy = await make(trust_env=True).get("http://service.test/x")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        excepted = await make(trust_env=True).get(server.url + "/x")

    assert direct.body == excepted.body == b"/x"
    assert by_proxy.body == b"http://service.test/x"
    assert len(proxy.requests) == 1


async def test_unknown_certificate_is_refused_and_a_given_one_accepted(make):
    """TLS trusts the known authorities, or exactly the file that was given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")

    async def script(exchange: Exchange) -> None:
        await exchange.reply(b"private")

    async with faulty(script, context) as server:
        with pytest.raises(AttemptFailed) as caught:
            await make().get(server.url)
        with pytest.raises(httpx.ConnectError):
            await make().client.get(server.url)
        trusted = await make(ca_file=str(TLS / "cert.pem")).get(server.url)
        unchecked = await make(verify=False).get(server.url)

    assert (caught.value.kind, caught.value.sent) == ("connection", False)
    assert trusted.body == unchecked.body == b"private"


async def test_name_that_the_certificate_lacks_is_refused(make):
    """The right authority does not excuse the wrong name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")

    async def script(exchange: Exchange) -> None:
        await exchange.reply()

    async with faulty(script, context) as server:
        with pytest.raises(httpx.ConnectError):
            await make(ca_file=str(TLS / "cert.pem")).client.get(
                server.url, extensions={"sni_hostname": "other.test"}
            )


async def test_urls_that_cannot_be_asked_are_not_retried(make):
    """A wrong URL is a mistake of ours, and the same next time."""
    for url in ("ftp://127.0.0.1/x", "http://", "http://[::1/"):
        with pytest.raises(AttemptFailed) as caught:
            await make().get(url)

        assert (caught.value.retryable, caught.value.sent) == (False, False), url

"""Who may speak to the API, and how long a stranger may take."""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import replace

import httpx
import pytest

from tests.web.house import House, leave_at_once
from worker.core.errors import ConfigError
from worker.web import server as server_module
from worker.web.api import routes_of
from worker.web.server import ApiServer

TOKEN = "correct-horse"


ROUTES = [
    (method, re.sub(r"\{.*?\}", "t", route.path))
    for route in routes_of(House().parts)
    for method in sorted(route.methods - {"HEAD"})
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_wants_the_token(monkeypatch, method, path):
    """With a token set, no route answers without it, with a wrong one, or with half of it."""
    leave_at_once(monkeypatch)
    house = House()
    house.server = ApiServer("127.0.0.1", 0, parts=replace(house.parts, token=TOKEN))
    await house.server.start()
    async with httpx.AsyncClient(
        base_url=house.server.url, trust_env=False, verify=False
    ) as client:
        codes = [
            (await client.request(method, path, headers=headers)).status_code
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": f"Bearer {TOKEN[:-1]}"},
                {"Authorization": TOKEN},
                {"Authorization": f"Basic {TOKEN}"},
                {"Authorization": "Bearer \xff".encode("latin-1")},
            )
        ]
        good = await client.request(method, path, headers={"Authorization": f"bearer {TOKEN}"})
    await house.server.stop()

    assert codes == [401] * 6
    assert good.status_code not in (401, 403)


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"Host": "localhost:8080"}, True),
        ({"Host": "[::1]:8080"}, True),
        ({"Host": "evil.example"}, False),
        ({"Host": "127.0.0.1.evil.example:80"}, False),
        ({"Host": "localhost:80", "Origin": "http://localhost:80"}, True),
        ({"Host": "localhost:80", "Origin": "http://localhost:3000"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "same-origin"}, True),
    ],
)
async def test_without_a_token_browsers_of_other_sites_are_refused(client, headers, allowed):
    """A rebound name or a page of another origin may not submit a task."""
    answer = await client.post("/v1/tasks", json={"input": "x"}, headers=headers)

    assert answer.status_code == (202 if allowed else 403)


@pytest.mark.parametrize(
    ("host", "token", "setting"),
    [
        ("0.0.0.0", None, "LOOPWORKER_HTTP:"),
        ("::", None, "LOOPWORKER_HTTP:"),
        ("192.0.2.7", None, "LOOPWORKER_HTTP:"),
        ("", None, "LOOPWORKER_HTTP:"),
        ("worker.internal", None, "LOOPWORKER_HTTP:"),
        ("127.0.0.1", "short", "LOOPWORKER_HTTP_TOKEN:"),
        ("0.0.0.0", "with a space in it", "LOOPWORKER_HTTP_TOKEN:"),
    ],
)
def test_exposed_address_without_a_sound_token_is_refused(host, token, setting):
    """The start ends with the setting's name where the API would be open to others."""
    with pytest.raises(ConfigError, match=setting):
        ApiServer(host, 0, parts=replace(House().parts, token=token))


async def test_taken_port_is_a_config_error(house):
    """An address in use ends the start with the setting to change."""
    second = ApiServer("127.0.0.1", house.server.port, parts=house.parts)

    with pytest.raises(ConfigError, match="LOOPWORKER_HTTP"):
        await second.start()


async def test_half_open_request_is_dropped(monkeypatch):
    """A client that drips its request head is cut off, however often it drips."""
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.1)
    house = House()
    await house.server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    async with asyncio.timeout(10):
        while not reader.at_eof():
            try:
                writer.write(b"G")
                await writer.drain()
                await asyncio.wait_for(reader.read(1), 0.02)
            except TimeoutError:
                continue
            except ConnectionError:
                break
    writer.close()
    await house.server.stop()


async def test_server_frees_its_port(house, client):
    """After stop the port is free, and stopping again does nothing."""
    await house.server.stop()
    await house.server.stop()

    with socket.create_server(("127.0.0.1", house.server.port)):
        pass


async def test_reply_does_not_wait_for_an_acknowledgement(house, client):
    """Nagle's algorithm is off for every connection: with it, each kept one costs 40 ms a reply."""
    listener = house.server._server.servers[0].sockets[0]

    assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    await client.get("/v1/guards")
    (connection,) = house.server._server.server_state.connections
    accepted = connection.transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


@pytest.mark.parametrize("head", ["Content-Length: 2500000", "Transfer-Encoding: chunked"])
async def test_who_writes_too_much_before_it_reads_hears_why(head):
    """A body over the limit is let pass by, so that its 413 comes instead of a broken pipe."""
    house = House()
    await house.server.start()

    def post() -> bytes:
        part = b"x" * 2_500_000
        body = part if "Length" in head else b"%x\r\n%s\r\n0\r\n\r\n" % (len(part), part)
        with socket.create_connection(("127.0.0.1", house.server.port), 10) as line:
            line.sendall(
                b"POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: text/plain\r\n%s\r\n\r\n" % head.encode()
            )
            for start in range(0, len(body), 100_000):
                line.sendall(body[start : start + 100_000])
            with line.makefile("rb") as answer:
                return answer.read()

    answer = await asyncio.to_thread(post)
    await house.server.stop()

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"1048576 are allowed" in answer


async def test_who_asks_before_it_sends_too_much_sends_nothing():
    """`Expect: 100-continue`: the answer is the refusal, and no word to go on."""
    house = House()
    await house.server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
    writer.write(
        b"POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n"
        b"Content-Type: text/plain\r\nContent-Length: 2500000\r\n\r\n"
    )
    async with asyncio.timeout(10):
        answer = await reader.readline()
    writer.close()
    await house.server.stop()

    assert answer.startswith(b"HTTP/1.1 413 ")

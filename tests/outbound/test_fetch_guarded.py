"""Fetching for strangers: only public addresses, whatever the URL, the name or a redirect says."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from tests.outbound.faulty import Exchange, faulty
from worker.core.errors import AttemptFailed, AttemptTimeout, ToolError
from worker.outbound.addresses import UrlRefused, checked_url, is_public
from worker.outbound.fetch import Gate, fetch_guarded

NOBODY = frozenset[str]()


async def answer(exchange: Exchange) -> None:
    """Give a page."""
    await exchange.reply(b"<p>hi</p>", headers={"content-type": "text/html; charset=utf-8"})


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "127.0.0.1", "127.255.0.9", "0.0.0.0"),
        *("169.254.169.254", "100.64.0.1", "100.127.255.255", "224.0.0.1", "239.1.1.1"),
        *("240.0.0.1", "255.255.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "203.0.113.9"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "fec0::1"),
        *("::ffff:8.8.8.8", "::ffff:127.0.0.1", "::8.8.8.8", "2002:7f00:1::", "2002:808:808::1"),
        *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2001::1", "2001:db8::1"),
        *("100::1", "3fff::1", "nonsense", "127.1", "2606:4700::1111%1"),
    ],
)
def test_special_addresses_are_not_public(address):
    """Private, local, shared, reserved and embedding addresses are all closed."""
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::1"]
)
def test_ordinary_addresses_are_public(address):
    """The internet stays open."""
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.com/", "file:///etc/passwd", "gopher://example.com", "//example.com/x"),
        *("http://", "http:///x", "example.com", "", "javascript:alert(1)", "http://[::1"),
        *("http://user:pw@example.com/", "http://user@example.com/", "http://exa mple.com/"),
        *("http://example.com:22/", "http://example.com:8080/", "https://example.com:6379/"),
        *("http://127.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://10.1.2.3/"),
        *("http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/"),
        *("http://0x7f.0.0.1/", "http://127.0.0.1./", "http://127.0.0.0x1/", "http://0/"),
        *("http://169.254.169.254/latest/meta-data/", "http://[fe80::1%25eth0]/"),
        *("http://１２７.0.0.1/", "http://①②⑦.⓪.⓪.①/", "http://example.com\\@127.0.0.1/"),
    ],
)
def test_urls_that_lead_astray_are_refused(url):
    """Odd schemes, credentials, ports and disguised addresses do not get as far as a look-up."""
    with pytest.raises(UrlRefused):
        checked_url(url, allow_hosts=NOBODY)


@pytest.mark.parametrize(
    "url", ["http://example.com/a?b=c#d", "https://例子.测试/", "https://8.8.8.8/", "http://x1.com"]
)
def test_ordinary_urls_pass(url):
    """What a person would call a web address is one; the fragment stays at home."""
    assert checked_url(url, allow_hosts=NOBODY).fragment == ""


def test_refusal_is_for_the_model_to_read():
    """A wrong URL is a mistake of whoever wrote it, not a failure of a dependency."""
    assert issubclass(UrlRefused, ToolError)


def resolver(*answers: list[str]):
    """Answer look-ups in order, the last one for ever."""
    left = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


async def test_name_of_a_private_address_is_refused():
    """A public-looking name may have any address; it is the address that counts."""
    async with faulty(answer) as server:
        with pytest.raises(UrlRefused, match="no public address"):
            await fetch_guarded(
                f"http://innocent.test:{server.port}/",
                ports=[server.port],
                resolve=resolver(["127.0.0.1", "10.0.0.1", "::1"]),
            )

    assert server.connections == 0


async def test_private_address_beside_a_public_one_is_never_tried():
    """Of a mixed answer only the public part is used."""
    gate = Gate(NOBODY, resolver(["127.0.0.1", "8.8.8.8", "::ffff:127.0.0.1"]))

    assert [entry["host"] for entry in await gate.resolve("mixed.test", 80)] == ["8.8.8.8"]


async def test_address_is_judged_again_when_the_socket_is_made():
    """Whatever path leads to a connection, it passes the last look."""
    gate = Gate(NOBODY, resolver(["8.8.8.8"]))
    await gate.resolve("rebinding.test", 80)

    with pytest.raises(OSError, match="not a public address"):
        gate.open_socket((2, 1, 6, "", ("127.0.0.1", 80)))
    assert gate.refusal == "127.0.0.1 is not a public address"


async def test_name_is_looked_up_once_per_connection():
    """There is no second look-up between judging and connecting that could differ."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with faulty(answer) as server:
        page = await fetch_guarded(
            f"http://listed.test:{server.port}/x", allow_hosts=["listed.test"], resolve=resolve
        )

    assert (page.status, page.text, page.truncated) == (200, "<p>hi</p>", False)
    assert page.content_type == "text/html; charset=utf-8"
    assert asked == ["listed.test"]


async def test_listed_literal_address_may_be_fetched():
    """An operator can open one private host, by its address too."""
    async with faulty(answer) as server:
        page = await fetch_guarded(server.url, allow_hosts=["127.0.0.1"])

    assert page.body == b"<p>hi</p>"


@pytest.mark.parametrize(
    "target",
    [
        *("http://10.0.0.1/", "http://169.254.169.254/x", "file:///etc/passwd", "//2130706433/"),
        *("http://other.test:{port}/", "http://u:p@listed.test/", "https://listed.test@10.0.0.1/"),
    ],
)
async def test_redirect_is_judged_like_the_first_url(target):
    """A public page cannot send us where we would not have gone by ourselves."""

    async def script(exchange: Exchange) -> None:
        where = target.replace("{port}", str(server.port))
        await exchange.reply(status=302, headers={"location": where})

    async with faulty(script) as server:
        with pytest.raises(UrlRefused):
            await fetch_guarded(
                f"http://listed.test:{server.port}/",
                allow_hosts=["listed.test"],
                ports=[80, 443, server.port],
                resolve=resolver(["127.0.0.1"]),
            )

    assert len(server.requests) == 1


async def test_redirects_are_followed_and_bounded():
    """Five are followed; the sixth is a loop."""

    async def script(exchange: Exchange) -> None:
        left = int(exchange.head.split(b" ")[1].strip(b"/"))
        if left:
            await exchange.reply(status=307, headers={"location": f"/{left - 1}"})
        else:
            await answer(exchange)

    async with faulty(script) as server:
        page = await fetch_guarded(server.url + "/5", allow_hosts=["127.0.0.1"])
        with pytest.raises(UrlRefused, match="5 redirects"):
            await fetch_guarded(server.url + "/6", allow_hosts=["127.0.0.1"])

    assert page.url == server.url + "/0"


@pytest.mark.parametrize("packed", [False, True])
async def test_page_is_cut_at_its_limit(packed):
    """A page over the limit is cut and says so, also when it came compressed."""
    body = b"x" * 3_000_000

    async def script(exchange: Exchange) -> None:
        headers = {"content-encoding": "gzip"} if packed else {}
        await exchange.reply(gzip.compress(body) if packed else body, headers=headers)

    async with faulty(script) as server:
        page = await fetch_guarded(server.url, allow_hosts=["127.0.0.1"], max_bytes=1000)
        whole = await fetch_guarded(server.url, allow_hosts=["127.0.0.1"], max_bytes=3_000_000)

    assert (len(page.body), page.truncated) == (1000, True)
    assert (len(whole.body), whole.truncated) == (3_000_000, False)


@pytest.mark.parametrize("encoding", ["br", "gzip"])
async def test_page_in_an_unreadable_encoding_is_a_failure(encoding):
    """Bytes that cannot be decoded are not passed off as a page."""

    async def script(exchange: Exchange) -> None:
        await exchange.reply(b"plain", headers={"content-encoding": encoding})

    async with faulty(script) as server:
        with pytest.raises(AttemptFailed):
            await fetch_guarded(server.url, allow_hosts=["127.0.0.1"])


async def test_slow_page_ends_in_time():
    """The time limit covers redirects, look-ups and the last byte."""

    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n")
        while True:
            await exchange.send(b"x")
            await asyncio.sleep(0.02)

    async with faulty(script) as server:
        with pytest.raises(AttemptTimeout):
            await fetch_guarded(server.url, allow_hosts=["127.0.0.1"], timeout_seconds=0.2)


async def test_nothing_personal_is_sent(monkeypatch):
    """Neither cookies nor credentials nor a trace, and no proxy hears of it."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    async def script(exchange: Exchange) -> None:
        if exchange.number == 0:
            headers = {"set-cookie": "a=b", "location": "/next"}
            await exchange.reply(status=302, headers=headers)
        else:
            await answer(exchange)

    async with faulty(script) as server:
        await fetch_guarded(server.url, allow_hosts=["127.0.0.1"])

    names = {
        line.split(b":")[0].lower()
        for exchange in server.requests
        for line in exchange.head.split(b"\r\n")[1:]
        if line
    }
    assert names == {b"host", b"user-agent", b"accept", b"accept-encoding"}


async def test_unknown_name_is_a_failure_not_a_refusal():
    """A name that does not resolve may do so later."""

    async def resolve(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(AttemptFailed) as caught:
        await fetch_guarded("http://nowhere.test/", resolve=resolve)

    assert (caught.value.kind, caught.value.sent) == ("connection", False)

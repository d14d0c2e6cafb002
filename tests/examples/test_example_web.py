"""`fetch_page`: reads what is public, and nothing that is not."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.examples.upstream import Upstream
from tools.web import fetch_page
from worker import ToolContext, ToolError
from worker.outbound.fetch import fetch_guarded
from worker.toolresult import normalise_result

Context = Callable[..., ToolContext]
OPEN = functools.partial(fetch_guarded, allow_hosts={"127.0.0.1"}, timeout_seconds=5)


async def test_page_reaches_the_model_as_text(upstream: Upstream, context: Context):
    """The tool returns the page; the worker reduces it to what a reader sees."""
    upstream.body = "<html><title>价格</title><script>x()</script><p>ACME 12.50".encode()
    upstream.headers = {"content-type": "text/html; charset=utf-8"}

    page = await fetch_page(context(fetch=OPEN), f"{upstream.url}/page?q=1")

    assert (
        normalise_result(page, max_chars=1000, pages=fetch_page.pages).content
        == "价格\n\nACME 12.50"
    )
    assert upstream.asked == ["/page?q=1"]


async def test_charset_inside_the_page_counts(upstream: Upstream, context: Context):
    """Many Chinese pages name their encoding only in a meta element."""
    upstream.body = '<html><meta charset="gbk"><p>行情'.encode("gbk")
    upstream.headers = {"content-type": "text/html"}

    assert "行情" in await fetch_page(context(fetch=OPEN), upstream.url)


async def test_picture_is_not_shown_as_text(upstream: Upstream, context: Context):
    """Bytes stay bytes; the worker says how many there are."""
    upstream.body = b"\x89PNG\x00\xff"
    upstream.headers = {"content-type": "image/png"}

    page = await fetch_page(context(fetch=OPEN), upstream.url)

    assert normalise_result(page, max_chars=99).content == "(binary result, 6 bytes, not shown)"


@pytest.mark.parametrize("status", [404, 500])
async def test_error_page_never_poses_as_data(upstream: Upstream, context: Context, status: int):
    """The model is told the status, not the words of the error page."""
    upstream.status, upstream.body = status, b"the price is 5"

    with pytest.raises(ToolError, match=f"answered with status {status}") as caught:
        await fetch_page(context(fetch=OPEN), upstream.url)
    assert "price" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
        "http://2130706433:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "no address at all",
    ],
)
async def test_private_address_is_refused(upstream: Upstream, context: Context, url: str):
    """Before anything is sent, in words that the model can pass on."""
    guarded = functools.partial(fetch_guarded, timeout_seconds=5)

    with pytest.raises(ToolError):
        await fetch_page(context(fetch=guarded), url.format(port=upstream.port))
    assert upstream.asked == []


async def test_without_a_guarded_fetch_nothing_is_opened():
    """A context that was built by hand has no way out."""
    with pytest.raises(ToolError, match="without a guarded fetch"):
        await fetch_page(ToolContext(), "https://example.com/")

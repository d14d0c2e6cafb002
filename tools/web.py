"""Read a web page that a model, or a stranger, named.

`ctx.fetch` looks at the address before it connects, and again after each redirect: what is private
(this machine, the network around it, the cloud's metadata) is refused.
"""

from __future__ import annotations

import re

from worker import ToolContext, ToolError, tool

META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
TEXT_KINDS = ("text/", "application/json", "application/xml", "application/xhtml+xml")


@tool(effect="read", timeout_seconds=20, fail_max=10, stub="网页暂时无法打开", pages=True)
async def fetch_page(ctx: ToolContext, url: str) -> str | bytes:
    """打开一个网页并返回其文字内容。Open a web page and return its text.

    Args:
        url: 完整网址,以 http:// 或 https:// 开头。Full address, with http:// or https://.
    """
    page = await ctx.fetch(url)
    if page.status >= 400:
        raise ToolError(f"{page.url} answered with status {page.status}")
    if not page.content_type.startswith(TEXT_KINDS):
        return bytes(page.body)
    declared = META_CHARSET.search(page.body[:2048])
    if declared is None or "charset" in page.content_type.lower():
        return str(page.text)
    try:
        return str(page.body.decode(declared[1].decode(), "replace"))
    except LookupError:
        return str(page.text)

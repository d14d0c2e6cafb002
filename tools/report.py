"""A job: something that takes longer than a step, begun here and reported by somebody else.

`LOOPWORKER_RENDER_URL` is a service that makes documents. `PUT {url}/{key}` begins one and may be
repeated: the key is the call's own, so nothing is begun twice, whatever becomes of the worker. When
it is done, the service sends `{"result": …}` to `/v1/jobs/{key}` of any worker; and in case it
cannot, `GET {url}/{key}` is asked from time to time: `{"state": "running"}`, `{"state": "done",
"document": "https://…"}` or `{"state": "failed", "error": "…"}`.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import Field

from worker import Job, NotConfigured, ToolContext, ToolError, tool

NEEDS = ("LOOPWORKER_RENDER_URL",)
Title = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=50_000)]


async def look_at_report(ctx: ToolContext, handle: str) -> dict[str, Any] | None:
    """Ask how far a report is, for a service that does not report by itself."""
    reply = await ctx.http.get(_place(handle))
    reply.raise_for_status()
    seen = reply.json()
    state = seen.get("state") if isinstance(seen, dict) else None
    if state == "failed":
        raise ToolError(f"the report could not be made: {seen.get('error') or 'no reason given'}")
    if state == "done":
        return {"document": seen["document"]}
    if state != "running":
        raise ValueError(f"the render service told no state: {str(seen)[:200]}")
    return None


@tool(
    job=True,
    effect="idempotent",
    dependency="render",
    timeout_seconds=10,
    poll=look_at_report,
    stub="报告暂时无法生成",
)
async def render_report(ctx: ToolContext, title: Title, text: Text) -> Job:
    """把写好的内容做成一份 PDF 报告,完成后给出下载地址。Make a PDF report of a finished text; gives its address.

    Args:
        title: 报告标题。Title of the report.
        text: 报告全文,Markdown 格式。The whole text of the report, as Markdown.
    """
    reply = await ctx.http.put(_place(ctx.idempotency_key), json={"title": title, "text": text})
    reply.raise_for_status()
    return Job(ctx.idempotency_key, expires_seconds=6 * 3600, poll_after_seconds=60)


def _place(key: str) -> str:
    url = os.environ.get("LOOPWORKER_RENDER_URL")
    if not url:
        raise NotConfigured("no render service: LOOPWORKER_RENDER_URL is not set")
    return f"{url.rstrip('/')}/{key}"

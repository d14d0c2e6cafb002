"""The event stream of one task as server-sent events, until the final one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from worker.web.replies import encode
from worker.web.steps import StepUpdate

KEEP_ALIVE_SECONDS = 15.0
STREAM_SECONDS_MAX = 3600.0  # afterwards the client comes again and goes on where it was
# Without an empty line behind it: some clients take that for an event without data.
KEEP_ALIVE = b": still here\n"


@dataclass(slots=True)
class EventStream:
    """An ASGI response that sends updates as server-sent events until the final one.

    It ends as well when the client goes, when the worker closes, or after STREAM_SECONDS_MAX.
    """

    updates: AsyncIterator[StepUpdate | None]
    closing: asyncio.Event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; returns when it is over for whatever reason."""
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),  # nginx would hold back the stream
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        ends = [
            asyncio.create_task(self._pump(send)),
            asyncio.create_task(_gone(receive)),
            asyncio.create_task(self.closing.wait()),
        ]
        try:
            await asyncio.wait(
                ends, timeout=STREAM_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        spoke_at = loop.time()
        async for update in self.updates:
            if update is not None:
                await _write(send, as_event(update))
                spoke_at = loop.time()
            elif loop.time() - spoke_at >= KEEP_ALIVE_SECONDS:
                await _write(send, KEEP_ALIVE)
                spoke_at = loop.time()


def as_event(update: StepUpdate) -> bytes:
    """Write one update as a server-sent event. Its data is one line of JSON."""
    return b"id: %d\ndata: %b\n\n" % (update.seq, encode(update.to_wire()))


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

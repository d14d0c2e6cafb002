"""One HTTP request to a chat-completions endpoint, streamed or not, with honest timeouts.

What was asked for and what is answered are two things: the reply is read by its content type, or
by its looks where that says nothing. Reading stops at [DONE], since some servers keep the line
open, and a stream that has told its finish reason is complete however it ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NoReturn

import httpx

from worker.core.errors import AttemptFailed, ModelError
from worker.core.limits import Status
from worker.http import USER_AGENT, Bounds, HttpClient, HttpStream
from worker.model.deltas import ReplyAssembler
from worker.model.failures import ModelFailure, error_in, from_http, unreadable
from worker.model.jsontext import decode
from worker.model.sse import SseParser

ERROR_BYTES_MAX = 64 * 1024  # of a refusal, read for its message
# What may still come after the finish reason (usage, [DONE]) comes at once or not at all.
AFTERMATH_SECONDS = 5.0
# The end of the body follows [DONE] at once, and reading it keeps the connection for the next
# request; a server that keeps the line open is not waited for.
FAREWELL_SECONDS = 0.05
FAREWELL_CHUNKS_MAX = 3
EVENT_MARKS = (b"data:", b"event:", b"id:", b"retry:", b":")


class ReplyFailed(ModelError):
    """An attempt gave no reply; `failure` is the judgement of it."""

    def __init__(self, failure: ModelFailure, *, said: str = "") -> None:
        super().__init__(
            failure.text,
            status=failure.status,
            transient=failure.transient,
            text=said,
            retry_after_seconds=failure.retry_after_seconds,
        )
        self.failure = failure


@dataclass(frozen=True, slots=True)
class RawReply:
    """One reply body, in the shape of one that was not streamed, however it came."""

    body: dict[str, Any]
    first_chunk_seconds: float | None = None  # None when it was not streamed


class ChatTransport:
    """Requests to one endpoint. `wall` tells the time for a Retry-After that is a date."""

    def __init__(
        self,
        http: HttpClient,
        *,
        base_url: str,
        api_key: str | None = None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        base = httpx.URL(base_url)  # it may have a query: ?api-version=…
        self.url = base.copy_with(path=base.path.rstrip("/") + "/chat/completions")
        self._address = str(self.url)  # once, and not for each request
        self._http = http
        self._wall = wall
        self._clock = clock
        common = {"content-type": "application/json", "user-agent": USER_AGENT}
        if api_key:
            common["authorization"] = f"Bearer {api_key}"
        # Compression of a stream makes proxies hold it back.
        self._plain = {**common, "accept": "application/json", "accept-encoding": "gzip"}
        self._streamed = {**common, "accept": "text/event-stream", "accept-encoding": "identity"}

    def __repr__(self) -> str:
        return f"ChatTransport({self.url.host}:{self.url.port or self.url.scheme})"

    async def ask(self, body: bytes, *, stream: bool, bounds: Bounds) -> RawReply:
        """Send one request and read the whole reply.

        Raises ReplyFailed for whatever the server said instead of a reply, and AttemptFailed for
        what became of the connection. Cancelled: the connection is closed.
        """
        began = self._clock()
        headers = self._streamed if stream else self._plain
        exchange = self._http.stream(
            "POST", self._address, content=body, headers=headers, bounds=bounds
        )
        async with exchange as reply:
            if not 200 <= reply.status < 300:
                await self._refused(reply)
            kind = reply.headers.get("content-type", "")
            if "event-stream" in kind:
                return await self._read_events(reply, began)
            data = await reply.read()
        if data.lstrip()[:6].startswith(EVENT_MARKS):  # no JSON begins like that
            return _assembled(data)
        return RawReply(_decoded(data, kind))

    async def _refused(self, reply: HttpStream) -> NoReturn:
        data = bytearray()
        async with aclosing(reply.chunks()) as chunks:
            async for chunk in chunks:
                data += chunk
                if len(data) > ERROR_BYTES_MAX:
                    break
        failure = from_http(reply.status, reply.headers, bytes(data), now=self._wall())
        raise ReplyFailed(failure)

    async def _read_events(self, reply: HttpStream, began: float) -> RawReply:
        parser, assembler = SseParser(), ReplyAssembler()
        first: float | None = None
        left = FAREWELL_CHUNKS_MAX
        async with aclosing(reply.chunks()) as chunks:
            chunk = await anext(chunks, None)
            if chunk is not None and chunk.lstrip()[:1] == b"{":  # no event begins like that
                data = b"".join([chunk, *[more async for more in chunks]])
                return RawReply(_decoded(data, "application/json"))
            while left:
                events = parser.close() if chunk is None else parser.feed(chunk)
                _feed(assembler, events)
                if first is None and events:
                    first = self._clock() - began
                if chunk is None:
                    break
                left -= assembler.done
                chunk = await _next(chunks, assembler) if left else None
        return RawReply(_finished(assembler), first)


async def _next(chunks: AsyncGenerator[bytes, None], assembler: ReplyAssembler) -> bytes | None:
    """Return the next chunk, None at the end."""
    if not assembler.complete:
        return await anext(chunks, None)
    try:
        async with asyncio.timeout(FAREWELL_SECONDS if assembler.done else AFTERMATH_SECONDS):
            return await anext(chunks, None)
    except (TimeoutError, httpx.RequestError, AttemptFailed):
        return None  # the reply is whole; how the line ends is no matter


def _assembled(data: bytes) -> RawReply:
    parser, assembler = SseParser(), ReplyAssembler()
    _feed(assembler, parser.feed(data))
    _feed(assembler, parser.close())
    return RawReply(_finished(assembler))


def _feed(assembler: ReplyAssembler, events: list[str]) -> None:
    try:
        for event in events:
            if assembler.done:
                return
            assembler.feed(event)
    except ModelError as error:
        _fail(assembler, error)


def _finished(assembler: ReplyAssembler) -> dict[str, Any]:
    try:
        return assembler.finish()
    except ModelError as error:
        _fail(assembler, error)


def _fail(assembler: ReplyAssembler, error: ModelError) -> NoReturn:
    failure = assembler.failure or ModelFailure(error.status, error.transient, str(error))
    raise ReplyFailed(failure, said=error.text) from error


def _decoded(data: bytes, kind: str) -> dict[str, Any]:
    try:
        value = decode(data)
    except ValueError:
        value = None
    if isinstance(value, dict):
        failure = error_in(value) if "error" in value or not value.get("choices") else None
        if failure is not None:
            raise ReplyFailed(failure)
        return value
    if value is None:
        raise ReplyFailed(unreadable(data, kind))
    raise ReplyFailed(
        ModelFailure(
            Status.PROTOCOL_ERROR, True, "the reply is JSON, but no object", http_status=200
        )
    )

"""Ask an endpoint a few real questions, to learn which dialect it speaks.

Four questions, each answered or refused: a tool call, the same as a stream, the call with its
result, and tools that must not be called. What a server objects to is learned and sent again, as
the client does. Nothing is hidden: a question that got no reply is a trait as well.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from worker.core.errors import AttemptFailed, ModelError
from worker.core.limits import Status
from worker.core.messages import Message, Reply, ReplyKind
from worker.http import Bounds, HttpClient, HttpOptions, HttpStream
from worker.model import dialect
from worker.model.calls import id_source
from worker.model.client import Endpoint, ModelOptions
from worker.model.dialect import Heard, Trait, Verdict
from worker.model.failures import ModelFailure
from worker.model.normalise import NormaliseLimits, normalise
from worker.model.port import ModelRequest, OfferedTool
from worker.model.quirks import Quirks
from worker.model.transport import ChatTransport, ReplyFailed
from worker.model.wire import request_body

PROBE_SECONDS = 30.0
REQUESTS_MAX = 12  # what was learned and sent again included
WAIT_SECONDS_MAX = 5.0  # of a throttling server, once
SECONDS_MIN = 0.5  # with less left, a question is not worth asking
QUESTION = "What is the weather in Paris and in Tokyo right now? Use the tool for each city."
_QUESTION = Message({"role": "user", "content": QUESTION})
_RESULT = "18 degrees Celsius, light rain"
_VERSION = re.compile(r"/v\d+[a-z0-9]*/?\Z")
_NO_SUCH_PATH = frozenset({404, 405})


def _violations(value: Any) -> list[str]:
    city = value.get("city") if isinstance(value, dict) else None
    return [] if isinstance(city, str) and city else ["city: a text is required"]


WEATHER = OfferedTool(
    name="get_weather",
    wire_name="get_weather",
    description="Current weather of one city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Name of the city."}},
        "required": ["city"],
        "additionalProperties": False,
    },
    validate=_violations,
)


class Standing(StrEnum):
    """What an endpoint is good for."""

    USABLE = "usable"
    UNREACHABLE = "unreachable"  # or too busy, for now
    UNUSABLE = "unusable"  # it answers, and no loop can run on what it answers


@dataclass(slots=True)
class Report:
    """What the probe found; `quirks` as `Quirks.as_data` lists them."""

    standing: Standing = Standing.USABLE
    traits: list[Trait] = field(default_factory=list)
    quirks: list[str] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0


async def probe(
    endpoint: Endpoint,
    *,
    http: HttpOptions | None = None,
    options: ModelOptions | None = None,
    seconds: float = PROBE_SECONDS,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Report:
    """Ask the questions, all within `seconds`. Cancelled: the connection is closed.

    Never raises for what the endpoint does; ConfigError when the client cannot be made.
    """
    async with aclosing(_Recorder(http or HttpOptions(), name="probe")) as recorder:
        asked = _Probe(endpoint, recorder, options or ModelOptions(), seconds, sleep)
        return await asked.run()


class _Recorder(HttpClient):
    """A client that keeps what the last reply was made of."""

    heard: Heard | None = None

    @asynccontextmanager
    async def stream(self, *args: Any, **named: Any) -> AsyncIterator[HttpStream]:
        self.heard = None
        async with super().stream(*args, **named) as reply:
            kept = bytearray()
            try:
                yield _Tee(reply, kept)
            finally:
                self.heard = Heard(reply.status, reply.headers, bytes(kept))


class _Tee(HttpStream):
    """A reply that is kept while it is read."""

    __slots__ = ("_kept", "_reply")

    def __init__(self, reply: HttpStream, kept: bytearray) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self._reply = reply
        self._kept = kept

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._reply.chunks()) as chunks:
            async for chunk in chunks:
                self._kept += chunk
                yield chunk

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


@dataclass(frozen=True, slots=True)
class _Answer:
    body: dict[str, Any]
    heard: Heard
    reply: Reply


class _NotAsked(Exception):
    """The time or the number of requests was used up before the question."""


_FAILURES = (ModelError, AttemptFailed, _NotAsked)


class _Probe:
    """One probe: its quirks, its clock and what it found so far."""

    def __init__(
        self,
        endpoint: Endpoint,
        recorder: _Recorder,
        options: ModelOptions,
        seconds: float,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._endpoint = endpoint
        self._recorder = recorder
        self._options = options
        self._sleep = sleep
        self._began = time.monotonic()
        self._ends = self._began + seconds
        self._quirks = Quirks()
        self._new_id = id_source()
        self._transport = ChatTransport(
            recorder, base_url=endpoint.base_url, api_key=endpoint.api_key
        )
        self._report = Report()
        self._asked_first = False
        self._waited = False

    async def run(self) -> Report:
        report = self._report
        try:
            called = await self._ask([_QUESTION], stream=False)
        except _FAILURES as error:
            report.standing, trait = self._no_reply(error)
            report.traits.append(trait)
        else:
            self._asked_first = True
            plain = dialect.judge_call(called.body, called.reply)
            report.traits += plain
            streamed = await self._streamed(plain)
            calling = [
                answer.reply
                for answer in (called, streamed)
                if answer is not None and answer.reply.kind is ReplyKind.CALLS
            ]
            if calling:
                await self._results(calling[0])
            used = streamed if self._options.stream else called
            if used is not None and used.reply.kind is not ReplyKind.CALLS:
                report.standing = Standing.UNUSABLE
            await self._closing()
        report.traits += dialect.judge_quirks(self._quirks)
        report.quirks = self._quirks.as_data()
        report.seconds = time.monotonic() - self._began
        return report

    async def _streamed(self, plain: list[Trait]) -> _Answer | None:
        try:
            answer = await self._ask([_QUESTION], stream=True)
        except _FAILURES as error:
            does = "such a reply is thrown away and asked for again; leave LOOPWORKER_MODEL_STREAM"
            self._fail("stream", error, f"{does} off", fatal=self._options.stream)
            return None
        self._report.traits += dialect.judge_stream(answer.heard, self._quirks)
        again = dialect.judge_call(answer.body, answer.reply)
        self._report.traits += dialect.judge_streamed_call(plain, again)
        return answer

    async def _results(self, reply: Reply) -> None:
        results = [
            Message({"role": "tool", "tool_call_id": call.id, "content": _RESULT})
            for call in reply.calls
        ]
        try:
            answer = await self._ask([_QUESTION, Message(reply.message), *results], stream=False)
        except _FAILURES as error:
            self._fail("results", error, "a run ends here: no loop can go on", fatal=True)
        else:
            self._report.traits.append(dialect.judge_result(answer.reply))

    async def _closing(self) -> None:
        try:
            answer = await self._ask([_QUESTION], stream=False, allow_calls=False)
        except _FAILURES as error:
            does = "a run at its last step ends without an answer"
            self._fail("tool_choice", error, does, fatal=False)
        else:
            self._report.traits.append(dialect.judge_closing(answer.reply, self._quirks))

    def _fail(self, topic: str, error: Exception, does: str, *, fatal: bool) -> None:
        if isinstance(error, _NotAsked):
            trait = Trait(topic, f"not looked at: {error}", Verdict.QUIRK, "ask again")
        else:
            trait = Trait(topic, f"no reply: {error}", Verdict.WRONG, does)
            if fatal:
                self._report.standing = Standing.UNUSABLE
        self._report.traits.append(trait)

    async def _ask(
        self, messages: list[Message], *, stream: bool, allow_calls: bool = True
    ) -> _Answer:
        """Ask until there is a reply, or a refusal that teaches nothing new."""
        request = ModelRequest(messages, (WEATHER,), allow_calls)
        while True:
            try:
                return await self._send(request, stream)
            except ReplyFailed as failed:
                throttled = failed.failure.status == Status.RATE_LIMITED
                if not (throttled and await self._waits(failed.failure)) and not (
                    self._quirks.learn(failed.failure)
                ):
                    raise

    async def _send(self, request: ModelRequest, wanted: bool) -> _Answer:
        options = self._options
        stream = self._quirks.streams(wanted)
        left = self._ends - time.monotonic()
        if left < SECONDS_MIN or self._report.requests >= REQUESTS_MAX:
            raise _NotAsked("the probe has used up its time or its requests")
        body = request_body(
            request,
            model=self._endpoint.model,
            stream=stream,
            quirks=self._quirks,
            max_output_tokens=options.max_output_tokens,
            parallel_tool_calls=options.parallel_tool_calls,
            extra=options.extra,
        )
        # A question that hangs must leave time for those after it; without the first, none is asked.
        seconds = left / 2 if self._asked_first else left
        bounds = Bounds(
            total_seconds=seconds, read_seconds=seconds, body_bytes_max=options.reply_bytes_max
        )
        self._report.requests += 1
        raw = await self._transport.ask(body, stream=stream, bounds=bounds)
        limits = NormaliseLimits(options.max_argument_bytes, options.recover_text_calls)
        reply = normalise(raw.body, request.tools, new_id=self._new_id, limits=limits)
        heard = self._recorder.heard
        assert heard is not None, "a reply was read, so it was recorded"
        return _Answer(raw.body, heard, reply)

    async def _waits(self, failure: ModelFailure) -> bool:
        """Sit out the throttling once, if the server asks for little; tell whether to go on."""
        wait, heard = failure.retry_after_seconds, self._recorder.heard
        if self._waited or heard is None:
            return False
        self._waited = True
        self._report.traits.append(dialect.judge_throttling(heard, wait))
        left = self._ends - time.monotonic()
        if wait is None or wait > min(WAIT_SECONDS_MAX, left):
            return False
        await self._sleep(wait)
        return True

    def _no_reply(self, error: Exception) -> tuple[Standing, Trait]:
        """Judge the failure of the first question: without a reply to it nothing else is asked."""
        failure = error.failure if isinstance(error, ReplyFailed) else None
        status = failure.http_status if failure else None
        ending = error.status if isinstance(error, ModelError) else Status.MODEL_UNAVAILABLE
        standing = Standing.UNUSABLE
        text = str(error) or type(error).__name__
        if status in _NO_SUCH_PATH or ending == Status.PROTOCOL_ERROR:
            does = self._about_the_path()
            if status == 404 and "model" in text.lower():
                does = "check the name in LOOPWORKER_MODEL"
        elif ending == Status.AUTH_ERROR:
            does = "set LOOPWORKER_API_KEY to a key of this server"
        elif ending == Status.QUOTA_EXHAUSTED:
            does = "the account of this key has nothing left to spend"
        elif ending in (Status.RATE_LIMITED, Status.MODEL_UNAVAILABLE):
            standing = Standing.UNREACHABLE
            does = "runs wait and ask again, then are redelivered; check the server"
        else:
            does = "such a request is not sent again; see what the server objects to"
        return standing, Trait("calls", f"no reply: {text}", Verdict.WRONG, does)

    def _about_the_path(self) -> str:
        if _VERSION.search(self._transport.url.path.removesuffix("/chat/completions")):
            return "check the path of LOOPWORKER_MODEL_URL"
        return "check LOOPWORKER_MODEL_URL: the base URL should end in /v1"

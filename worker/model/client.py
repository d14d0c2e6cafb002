"""A chat model behind its guard: build the request, send it, read the reply, try again if it helps.

One call of `reply` is one logical request. Inside it, an attempt is one try that the guard counts;
a quirk that a server teaches us is answered within the attempt, since it is our mistake and not
its failure. Attempts repeat the same request: tools run only after a complete reply, so nothing
happens twice.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from worker.core.errors import (
    AttemptFailed,
    AttemptTimeout,
    ModelError,
    NoTimeLeft,
    Rejected,
    Throttled,
)
from worker.core.limits import Status
from worker.core.messages import Reply
from worker.core.prices import PriceList
from worker.guard.guard import Guard
from worker.guard.policy import AttemptInfo, CallPolicy, GuardPolicy, Outcome
from worker.guard.verdict import Ruling, Verdict
from worker.http import Bounds, HttpClient
from worker.model.calls import id_source
from worker.model.failures import MAX_WAIT_SECONDS, ModelFailure
from worker.model.foreign import minted
from worker.model.normalise import NormaliseLimits, normalise
from worker.model.port import ModelRequest
from worker.model.quirks import Quirks
from worker.model.transport import ChatTransport, RawReply, ReplyFailed
from worker.model.usage import metered
from worker.model.wire import request_body
from worker.outbound.failures import Silence
from worker.telemetry.signals import ModelCall, QuirkLearned
from worker.telemetry.tell import Telemetry

# The request itself is at fault: asking again, or blaming the server, is no use.
OUR_FAULT = frozenset({Status.BAD_REQUEST, Status.CONTEXT_OVERFLOW, Status.CONTENT_FILTERED})
OVERLOADED = 529


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model is. `provider` is the word of the GenAI conventions for who runs it."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    provider: str = "openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How the model is asked. `timeout_seconds` is the whole time of one attempt,
    `read_timeout_seconds` the longest silence within it; the first back-off is
    `backoff_seconds`. `extra` are further fields of the request body. A server that asks to wait
    longer than `patience_seconds` is not waited for.
    """

    attempts: int = 4
    backoff_seconds: float = 0.5
    backoff_seconds_max: float = 8.0
    extra: Mapping[str, Any] = field(default_factory=dict)
    max_argument_bytes: int = 65_536
    max_output_tokens: int | None = None
    parallel_tool_calls: bool | None = None
    patience_seconds: float = MAX_WAIT_SECONDS
    prices: PriceList = field(default_factory=PriceList)
    read_timeout_seconds: float = 60.0
    recover_text_calls: bool = True
    reply_bytes_max: int = 8 * 1024 * 1024
    stream: bool = False
    timeout_seconds: float = 120.0


def model_guard_policy(*, concurrency: int, attempts: int = 4) -> GuardPolicy:
    """Return the guard of a model endpoint that so many runs may ask at once.

    A model is slower to recover than a tool and every run needs it: a longer first window, and
    two good trials before everybody is let back in.
    """
    return GuardPolicy(
        fail_max=max(5, attempts + 2),
        limit=concurrency,
        open_seconds=10.0,
        queue_max=concurrency,
        queue_seconds=5.0,
        success_threshold=2,
    )


class ChatModel:
    """The model port over an OpenAI-compatible endpoint. Owns its HTTP client."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        http: HttpClient,
        guard: Guard,
        telemetry: Telemetry,
        options: ModelOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = endpoint.model
        self.endpoint = endpoint
        self.options = options or ModelOptions()
        self.quirks = Quirks()
        self.new_id = id_source()
        self.guard = guard
        self.telemetry = telemetry
        self.clock = clock
        self.transport = ChatTransport(http, base_url=endpoint.base_url, api_key=endpoint.api_key)
        self.address = f"{endpoint.model}@{self.transport.url.netloc.decode()}"
        self.limits = NormaliseLimits(
            max_argument_bytes=self.options.max_argument_bytes,
            recover_text_calls=self.options.recover_text_calls,
        )
        self._http = http
        self._policy = self._call_policy()

    def __repr__(self) -> str:
        return f"ChatModel({self.name} at {self.transport!r}, {self.quirks!r}, {self.guard!r})"

    async def reply(self, request: ModelRequest) -> Reply:
        """Ask for one reply, with all retries inside; see `port.Model.reply`."""
        url = self.transport.url
        operation = ModelCall(
            provider=self.endpoint.provider,
            model=self.name,
            server_address=url.host,
            server_port=url.port,
            stream=self.quirks.streams(self.options.stream),
        )
        with self.telemetry.watch(operation):
            return await self._reply(request, operation)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.aclose()

    async def _reply(self, request: ModelRequest, operation: ModelCall) -> Reply:
        left = request.seconds_left
        deadline = None if left is None else self.clock() + left
        asked = _Asked(self, request)
        outcome = await self._call(asked, deadline)
        operation.attempts = asked.made
        if outcome.error is not None:
            operation.error_type = outcome.error_type or "other"
            operation.error = str(outcome.error)
            failed = _model_error(outcome, has_deadline=left is not None)
            failed.attempted = asked.made > 0
            raise failed
        reply = outcome.value
        assert reply is not None, "a guard without a fallback gives a value or an error"
        usage = metered(
            reply, self.options.prices, requested=self.name, sent_bytes=asked.sent_bytes
        )
        reply = replace(
            reply,
            attempts=asked.made,
            endpoint=self.address,
            message=minted(reply.message, self.address),
            model=reply.model or self.name,
            usage=usage,
        )
        operation.first_chunk_seconds = asked.first_chunk_seconds
        _describe(operation, reply)
        return reply

    async def _call(self, asked: _Asked, deadline: float | None) -> Outcome[Reply]:
        """Call through the guard; sit out the throttling that other runs brought about.

        While this call waited for its own retry, the answer to another run may have put the end
        of the throttling further off; that ends this call's retries, though not its patience.
        """
        attempt: Callable[[AttemptInfo], Awaitable[Reply]] = asked.attempt
        for _ in range(self.options.attempts):
            outcome: Outcome[Reply] = await self.guard.call(
                attempt, self._policy, deadline=deadline
            )
            wait = outcome.retry_after_seconds or 0.0
            if not isinstance(outcome.error, Throttled) or wait > self.options.patience_seconds:
                break
        return outcome

    def _call_policy(self) -> CallPolicy:
        options = self.options
        return CallPolicy(
            kind="model",
            target=self.name,
            timeout_seconds=options.timeout_seconds,
            deadline_seconds=options.attempts * (options.timeout_seconds + MAX_WAIT_SECONDS),
            attempts=options.attempts,
            backoff_seconds=options.backoff_seconds,
            backoff_seconds_max=max(options.backoff_seconds, options.backoff_seconds_max),
            classify=partial(classify, patience_seconds=options.patience_seconds),
            throttle_wait_seconds=options.patience_seconds,
            is_trusted=True,
        )


class _Asked:
    """One logical request: what its attempts share."""

    def __init__(self, model: ChatModel, request: ModelRequest) -> None:
        self.model = model
        self.request = request
        self.made = 0  # attempts
        self.sent_bytes = 0  # of the last one
        self.first_chunk_seconds: float | None = None

    async def attempt(self, info: AttemptInfo) -> Reply:
        """Send the request, and again at once for each quirk that is learned on the way.

        Trusted by the guard: the HTTP client cuts it off at the time limit.
        """
        self.made += 1
        ends = self.model.clock() + info.timeout_seconds
        quirks = self.model.quirks
        while True:
            revision = quirks.revision
            try:
                raw = await self._send(max(0.001, ends - self.model.clock()))
            except ReplyFailed as failed:
                known = quirks.revision
                if not quirks.learn(failed.failure, sent=revision):
                    raise
                if quirks.revision != known:
                    self._tell(failed.failure)
                continue
            self.first_chunk_seconds = raw.first_chunk_seconds
            return normalise(
                raw.body,
                self.request.tools,
                withheld=self.request.withheld,
                new_id=self.model.new_id,
                limits=self.model.limits,
            )

    async def _send(self, seconds: float) -> RawReply:
        model, options = self.model, self.model.options
        stream = model.quirks.streams(options.stream)
        body = request_body(
            self.request,
            model=model.name,
            stream=stream,
            quirks=model.quirks,
            max_output_tokens=options.max_output_tokens,
            parallel_tool_calls=options.parallel_tool_calls,
            extra=options.extra,
            endpoint=model.address,
        )
        self.sent_bytes = len(body)
        bounds = Bounds(
            total_seconds=seconds,
            read_seconds=min(options.read_timeout_seconds, seconds),
            body_bytes_max=options.reply_bytes_max,
        )
        return await model.transport.ask(body, stream=stream, bounds=bounds)

    def _tell(self, failure: ModelFailure) -> None:
        host = self.model.transport.url.host
        signal = QuirkLearned(endpoint=host, quirk=failure.quirk or "", evidence=failure.text)
        self.model.telemetry.tell(signal)


def classify(error: BaseException, *, patience_seconds: float = MAX_WAIT_SECONDS) -> Ruling | None:
    """Tell the guard what an attempt's error says about the endpoint."""
    match error:
        case ReplyFailed():
            return _ruling(error.failure, patience_seconds)
        case ModelError():  # found by `normalise` in a reply that came with a 200
            wait = error.retry_after_seconds
            failure = ModelFailure(error.status, error.transient, str(error), wait)
            return _ruling(failure, patience_seconds)
        case Silence():
            return None
        case AttemptTimeout():
            # The model had all the time there is for one attempt; it would not need less now.
            return Ruling(Verdict.FAILURE, "timeout", "timeout", status_code=504)
        case AttemptFailed(kind="bulkhead_full"):
            return Ruling(
                Verdict.NEUTRAL, "bulkhead_full", "bulkhead_full", retryable=True, sent=False
            )
    return None


def _ruling(failure: ModelFailure, patience_seconds: float) -> Ruling:
    status, wait = failure.http_status, failure.retry_after_seconds
    throttled = failure.status == Status.RATE_LIMITED or status == OVERLOADED
    business = failure.status in OUR_FAULT
    if throttled:
        verdict, kind = Verdict.NEUTRAL, "rate_limited"
    else:
        # A bad call that the model wrote is no sign of a sick server either.
        fine = business or failure.status == Status.TOOL_ERRORS
        verdict = Verdict.SUCCESS if fine else Verdict.FAILURE
        kind = "other" if status is None or status < 400 else "http_4xx"
        kind = "http_5xx" if status is not None and status >= 500 else kind
    return Ruling(
        verdict,
        kind,
        failure.status,
        retryable=failure.transient and (wait is None or wait <= patience_seconds),
        business=business,
        throttled=throttled,
        status_code=status,
        retry_after_seconds=wait,
    )


def _model_error(outcome: Outcome[Reply], *, has_deadline: bool) -> ModelError:
    """Turn the last error into the ending it leads to."""
    error, hint = outcome.error, outcome.retry_after_seconds
    status, transient = Status.ERROR, False
    match error:
        case ModelError():
            return error
        case NoTimeLeft():
            status, transient = (Status.DEADLINE if has_deadline else Status.TIMEOUT), False
        case Throttled():
            status, transient = Status.RATE_LIMITED, True
        case Rejected():
            status, transient = Status.MODEL_UNAVAILABLE, True
        case AttemptTimeout() if outcome.reason == "deadline" and has_deadline:
            status, transient = Status.DEADLINE, False
        case AttemptTimeout():
            status, transient = Status.TIMEOUT, True
        case AttemptFailed(kind="result_too_large"):
            status, transient = Status.PROTOCOL_ERROR, False
        case AttemptFailed(kind="internal"):
            status, transient = Status.ERROR, False
        case AttemptFailed():
            status, transient = Status.MODEL_UNAVAILABLE, True
    is_ours = isinstance(error, AttemptFailed | Rejected)  # its text is for people as it is
    made = ModelError(
        str(error) if is_ours else f"{type(error).__name__}: {error}",
        status=status,
        transient=transient,
        retry_after_seconds=hint,
    )
    made.__cause__ = error
    return made


def _describe(operation: ModelCall, reply: Reply) -> None:
    usage = reply.usage
    operation.prompt_tokens = usage.prompt_tokens
    operation.completion_tokens = usage.completion_tokens
    operation.cached_tokens = usage.cached_tokens
    operation.reasoning_tokens = usage.reasoning_tokens
    operation.cost = usage.cost
    operation.finish_reason = reply.finish_reason
    operation.response_model = reply.model or None
    operation.response_id = reply.reply_id or None

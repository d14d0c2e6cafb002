"""Judge what a server refused: which ending it leads to, whether to ask again, and when.

The same judge serves HTTP errors, error objects inside a 200 and errors in the middle of a stream.
The status decides before the wording: "too many tokens, please wait" with a 429 is throttling,
not an overflow of the context.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from worker.core.errors import ModelError
from worker.core.limits import Status
from worker.model.errorbody import ErrorBody, error_of_bytes, error_of_value, is_page, safe_text
from worker.model.quirks import told_by
from worker.model.retryhints import in_words, retry_after_seconds

MAX_WAIT_SECONDS = 120.0  # a server that asks for more is not worth holding a task for

_QUOTA = re.compile(
    r"insufficient[_ ](?:quota|credits?|balance|funds)|billing[_ ]hard[_ ]limit|quota[_ ]exhausted"
    r"|credit balance is too low|not enough credits|payment required|out of credits|arrearage"
    r"|billing[_ ]not[_ ]active|exceeded[_ ]current[_ ]quota|account.{0,40}overdue"
    r"|欠费|余额不足|请充值|额度(?:已|不足|用完|用尽)"
)
_QUOTA_WORDS = re.compile(r"exceeded your (?:current )?quota|check your plan and billing")
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|max(?:imum)? (?:allowed )?"
    r"input length|model'?s? maximum context|prompt is too long|prompt too long|input is too long"
    r"|input token count.{0,40}exceeds|exceeds? (?:the )?(?:available |model'?s? )?context"
    r"|context (?:window|length|size|limit).{0,40}exceed|exceeds? (?:the )?max_seq_len"
    r"|exceeds? .{0,40}context (?:window|length|size|limit)|reduce the length of"
    r"|too large for model with \d+ maximum|tokens? .{0,40}exceeds? .{0,40}(?:max_model_len|limit of)"
    r"|range of input length|context_window_exceeded|input length .{0,20}exceeds"
    r"|(?:prompt|输入|上下文|提示词?|文本|内容|消息|token\w*)\s*(?:的)?(?:总?长度|数量?)?\s*(?:过长|超长|超限"
    r"|超[过出].{0,20}(?:长度|限制|上限|最大))"
)
_FILTERED = re.compile(
    r"content[_ ]?filter|responsibleaipolicy|content management policy|content[_ ]policy"
    r"|data[_ ]?inspection[_ ]?failed|sensitive[_ ]words|output.{0,20}content.{0,20}violat"
    r"|flagged by|moderation|safety_?(?:block|filter|check)|prohibited_content|risky? content"
    r"|(?:不安全|敏感|违规|不合规|不当).{0,8}内容|内容.{0,12}(?:违规|敏感|不合规|安全审核|风险)|敏感词"
)
_AUTH = re.compile(
    r"invalid[_ ]api[_ ]key|incorrect api key|invalid[_ ]authentication|authentication[_ ]error"
    r"|unauthorized|invalid token|api key not valid|permission[_ ](?:error|denied)"
)
_RATE = re.compile(
    r"rate[-_ ]?limit|too[-_ ]many[-_ ]requests|throttl|resource_exhausted|\btpm\b"
    r"|请求.{0,8}(?:频繁|过多|过快)|速率限制|限流|并发.{0,6}(?:过高|超)"
)
_BUSY = re.compile(r"overloaded|over capacity|capacity|server[_ ]?error|internal|unavailable"
                   r"|time[sd]?[- ]?out|upstream|disconnect|bad gateway|try again|engine")  # fmt: skip
_INVALID = re.compile(r"invalid[_ ]?request|invalid[_ ]?param|validation|bad[_ ]?request"
                      r"|not[_ ]found|does not exist|unprocessable|invalid[_ ]argument")  # fmt: skip
_PERMANENT_5XX = frozenset({501, 505, 511})
_TRANSIENT_4XX = frozenset({408, 409, 425, 498})
_REFUSES_FORM = frozenset({400, 404, 415, 422, 501})
_DIGITS = re.compile(r"\d{3}\Z")
_GENERATION = re.compile(r"tool_use_failed|failed_generation|failed to call a function")


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """One attempt that gave no reply.

    `status` is the ending it leads to when nothing else helps, `transient` whether the same
    request may succeed later, `quirk` the change to the request that it asks for.
    `retry_after_seconds` is a lower bound for the wait. `text` is safe to log and to show.
    """

    status: str
    transient: bool
    text: str
    retry_after_seconds: float | None = None
    quirk: str | None = None
    http_status: int | None = None

    def error(self, *, said: str = "") -> ModelError:
        """Make the exception of it; `said` is what the model did say before it failed."""
        return ModelError(
            self.text,
            status=self.status,
            transient=self.transient,
            text=said,
            retry_after_seconds=self.retry_after_seconds,
        )


def from_http(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float,
    max_wait_seconds: float = MAX_WAIT_SECONDS,
) -> ModelFailure:
    """Judge an HTTP answer that is not a success.

    `headers` answers lower-case names, `now` is the wall clock in seconds since the epoch.
    """
    error = error_of_bytes(body)
    words = f"{error.message} {error.inner}"
    wait = retry_after_seconds(status, headers, words, now=now)
    failure = replace(_judge(status, error, waits=wait is not None), retry_after_seconds=wait)
    told = headers.get("x-should-retry", "").strip().lower()
    if told == "false":
        failure = replace(failure, transient=False)
    elif told == "true":
        failure = replace(failure, transient=True)
    if failure.transient and wait is not None and wait > max_wait_seconds:
        text = f"{failure.text}; the server asks to wait {wait:.0f} s, which is too long"
        failure = replace(failure, transient=False, text=text)
    return failure


def error_in(value: dict[str, Any]) -> ModelFailure | None:
    """Judge the error inside a body or a stream chunk that came with a 200; None without one."""
    error = error_of_value(value)
    if error is None:
        return None
    status = _status_of(error)
    wait = in_words(error.message) if status == 429 else None
    return replace(_judge(status, error, waits=wait is not None), retry_after_seconds=wait)


def unreadable(body: bytes, content_type: str = "") -> ModelFailure:
    """Judge a 200 whose body is no JSON: cut, empty, or a page of some proxy. All worth a retry."""
    if not body.strip():
        return ModelFailure(Status.MODEL_UNAVAILABLE, True, "the reply is empty", http_status=200)
    if is_page(body):
        text = f"the reply is {error_of_bytes(body).message}, not JSON"
        return ModelFailure(Status.PROTOCOL_ERROR, True, safe_text(text), http_status=200)
    if body.lstrip()[:1] in (b"{", b"["):
        return ModelFailure(
            Status.MODEL_UNAVAILABLE, True, "the reply is JSON that was cut off", http_status=200
        )
    what = f" but {content_type}" if content_type and "json" not in content_type else ""
    return ModelFailure(
        Status.PROTOCOL_ERROR, True, safe_text(f"the reply is not JSON{what}"), http_status=200
    )


def _status_of(error: ErrorBody) -> int:
    """Find the HTTP status that an error object inside a 200 stands for."""
    if _DIGITS.match(error.code) and 400 <= int(error.code) <= 599:
        return int(error.code)
    words = f"{error.code} {error.kind}".lower()
    for said in (words, error.words):
        for pattern, status in _WORDED:
            if pattern.search(said):
                return status
    return 500


_WORDED = (
    (_QUOTA, 402),
    (_AUTH, 401),
    (_RATE, 429),
    (_FILTERED, 400),
    (_OVERFLOW, 400),
    (_GENERATION, 400),
    (_BUSY, 503),
    (_INVALID, 400),
)


def _judge(status: int, error: ErrorBody, *, waits: bool) -> ModelFailure:
    words = error.words
    ending, transient = _ending(status, words, waits)
    quirk = None
    if ending == Status.BAD_REQUEST and status in _REFUSES_FORM:
        quirk = told_by(f"{error.message} {error.inner}", error.param, error.code)
    said = error.message or error.code or error.kind
    text = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    return ModelFailure(ending, transient, safe_text(text), quirk=quirk, http_status=status)


def _ending(status: int, words: str, waits: bool) -> tuple[str, bool]:
    """Return the ending and whether the refusal may pass."""
    if status == 402 or _QUOTA.search(words) or (_QUOTA_WORDS.search(words) and not waits):
        return Status.QUOTA_EXHAUSTED, False
    if status == 429:
        return Status.RATE_LIMITED, True
    if status == 401 or (status in (400, 403) and _AUTH.search(words)):
        return Status.AUTH_ERROR, False
    if status in (503, 529) or status in _TRANSIENT_4XX:
        return Status.MODEL_UNAVAILABLE, True
    if _OVERFLOW.search(words):
        return Status.CONTEXT_OVERFLOW, False
    if status < 500 and _FILTERED.search(words):
        return Status.CONTENT_FILTERED, False
    if status == 403:
        return Status.AUTH_ERROR, False
    if status == 413:
        return Status.CONTEXT_OVERFLOW, False
    if status >= 500:
        return Status.MODEL_UNAVAILABLE, status not in _PERMANENT_5XX
    if status == 400 and _GENERATION.search(words):
        return Status.TOOL_ERRORS, True  # the model wrote a bad call; it may do better next time
    if status == 400 and _RATE.search(words):
        return Status.RATE_LIMITED, True
    if status < 400:
        return Status.PROTOCOL_ERROR, False
    return Status.BAD_REQUEST, False

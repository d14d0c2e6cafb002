"""The values that travel: Message, ToolCall, Observation, Usage."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from worker.core.digest import arguments_hash

COST_DIGITS = 12  # beyond that there is only the noise of binary fractions


class Source(StrEnum):
    """Where the content of an observation came from."""

    LIVE = "live"
    ALTERNATIVE = "alternative"
    STALE = "stale"
    STUB = "stub"
    ERROR = "error"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"


# The key of an assistant message that says which endpoint made it. It stays with the message, in
# the journal and in sessions, and is never sent: another endpoint must not be shown the ids,
# signatures and fields that only their maker understands.
MINTED_BY = "minted_by"


class Message:
    """One chat message as it goes over the wire, encoded once.

    `body` is the JSON object of the message and is never changed after construction. `encoded` and
    `adapted` are cache slots that belong to `model/wire.py`: a conversation is sent again with
    every step, and encoding each message once keeps that linear.
    """

    __slots__ = ("adapted", "body", "encoded")

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.encoded: bytes | None = None
        self.adapted: tuple[tuple[object, int], bytes] | None = None  # for whom, and as what

    @property
    def role(self) -> str:
        """The role: system, user, assistant or tool."""
        return str(self.body["role"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.body == other.body

    __hash__ = None  # type: ignore[assignment]  # the body is a dict

    def __repr__(self) -> str:
        return f"Message({self.body!r})"


class _Kept:
    """A place beside the fields for what follows from them; neither compared nor stored."""

    __slots__ = ("_digest",)
    _digest: str


@dataclass(frozen=True, slots=True)
class ToolCall(_Kept):
    """One request by the model to use a tool.

    `id` goes back byte for byte. `name` is the registered name when one matched, else what the
    model said. `arguments` are validated values, or None when the call cannot be run; then
    `problem` is the text for the model and `problem_kind` says whose mistake it was.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None
    problem: str | None = None
    problem_kind: str | None = None  # invalid_arguments | unknown_tool

    @property
    def digest(self) -> str:
        """`arguments_hash` of what was asked for; worked out once, and asked for by many."""
        try:
            return self._digest
        except AttributeError:
            digest = arguments_hash(self.arguments)
            object.__setattr__(self, "_digest", digest)
            return digest


@dataclass(frozen=True, slots=True)
class Observation:
    """What the loop learns from one tool call.

    `content` is text for the model: non-empty and bounded. `reason` is a word of the error_type
    vocabulary or a rejection reason (breaker_open, bulkhead_full, …) when the source is not live.
    """

    content: str
    source: Source = Source.LIVE
    error_type: str | None = None
    reason: str | None = None
    status_code: int = 200
    attempts: int = 0
    duration_seconds: float = 0.0
    result_bytes: int = 0
    age_seconds: float | None = None
    retry_after_seconds: float | None = None
    stub: str | None = None  # the text that must appear in the answer when source is stub
    dependency_failed: bool = False  # the dependency's error, as opposed to the model's mistake
    empty: bool = False  # a live result without information (two in a row: no_information)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls; cached and reasoning are subsets, never added."""

    model_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    guessed_tokens: int = 0  # of replies whose endpoint told none: for budgets, shown nowhere
    cost_is_partial: bool = False  # there are calls in it whose cost nobody knows

    def plus(self, other: Usage) -> Usage:
        """Add two usages; an unknown cost stays unknown only while both are."""
        known = [each.cost for each in (self, other) if each.cost is not None]
        cost = round(sum(known), COST_DIGITS) if known else None
        return Usage(
            self.model_calls + other.model_calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
            self.guessed_tokens + other.guessed_tokens,
            self.cost_is_partial or other.cost_is_partial or self._lacks_cost_of(other),
        )

    def _lacks_cost_of(self, other: Usage) -> bool:
        if (self.cost is None) is (other.cost is None):
            return False
        return (self if self.cost is None else other).model_calls > 0


class ReplyKind(StrEnum):
    """What a model reply turned out to be. Decided by its content, never by finish_reason alone."""

    ANSWER = "answer"  # text and no usable call
    CALLS = "calls"  # at least one call, runnable or not
    EMPTY = "empty"  # neither text nor call
    LENGTH = "length"  # cut by the token limit; nothing of it may run
    CONTENT_FILTERED = "content_filtered"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reply:
    """A model reply, normalised: the result of one model call, all its attempts included.

    `message` is what goes back in the history: unknown fields untouched, ids final, arguments a
    JSON object string (models.md R6). `text` is what a person may see (without <think> blocks).
    """

    kind: ReplyKind
    text: str
    message: dict[str, Any]
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str | None = None
    model: str = ""
    reply_id: str = ""
    attempts: int = 1
    recovered: str | None = None  # the dialect of a text-form call that was recovered
    endpoint: str = ""  # who made it; in its message under MINTED_BY
    switched: str | None = None  # the cause for which it was made by a fallback

"""What this endpoint taught us to do differently.

Servers that call themselves compatible contradict each other, so there is no fixed choice that
works everywhere. We send the common form first. When a server refuses it with a telling 400, the
one thing it objects to is changed, the request is sent once more, and the change is remembered.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker.model.failures import ModelFailure


class Quirk(StrEnum):
    """A change to what we send. Fields that are left out are named `without:<field>`."""

    MAX_COMPLETION_TOKENS = "max_completion_tokens"  # instead of max_tokens
    EMPTY_CONTENT_AS_TEXT = "empty_content_as_text"  # "" where an assistant turn has no text
    EMPTY_CONTENT_AS_NULL = "empty_content_as_null"  # null there
    STREAM = "stream"  # answers only as a stream
    NO_STREAM = "no_stream"  # cannot stream
    NO_TOOL_CHOICE = "no_tool_choice"  # closing turns go without tools and tool_choice
    BARE_TOOLS = "bare_tools"  # a tool without parameters is sent without a schema
    SHORT_IDS = "short_ids"  # tool call ids of nine letters and digits only
    EMPTY_REASONING = "empty_reasoning"  # foreign calls carry an empty reasoning_content
    DUMMY_SIGNATURE = "dummy_signature"  # foreign calls carry the documented dummy signature


OPPOSITES: dict[str, str] = {
    Quirk.EMPTY_CONTENT_AS_TEXT: Quirk.EMPTY_CONTENT_AS_NULL,
    Quirk.EMPTY_CONTENT_AS_NULL: Quirk.EMPTY_CONTENT_AS_TEXT,
    Quirk.STREAM: Quirk.NO_STREAM,
    Quirk.NO_STREAM: Quirk.STREAM,
}
WITHOUT = "without:"
# Fields that a request can do without. What a server says of any other field is a plain error.
OPTIONAL_FIELDS = (
    "parallel_tool_calls",
    "stream_options",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
    "stop",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "n",
    "user",
    "store",
    "metadata",
    "reasoning_effort",
    "response_format",
    "service_tier",
    "max_completion_tokens",
)
_OBJECTS = re.compile(
    r"unsupported|not supported|n't support|not support|unknown|unrecogni[sz]ed|unexpected|"
    r"not permitted|extra (?:inputs|fields)|extra_forbidden|not allowed|only supports|deprecated|"
    r"not available|does not exist|no endpoints found|invalid (?:parameter|argument|field)|no such|additional propert",
    re.IGNORECASE,
)
_WORD = r"(?<![\w.]){}(?!\w)"


class Quirks:
    """The quirks of one endpoint: asked by `wire`, taught by failures, shown by the doctor."""

    def __init__(self, *known: str) -> None:
        self._revision = 0
        self._active: dict[str, int] = {}
        self._ever: set[str] = set()
        for name in known:
            self._add(name)

    @property
    def revision(self) -> int:
        """How often something was learned; take it down before a request is built."""
        return self._revision

    def has(self, quirk: str) -> bool:
        """Tell whether this endpoint has the quirk."""
        return quirk in self._active

    def without(self, field: str) -> bool:
        """Tell whether this endpoint refuses the field."""
        return WITHOUT + field in self._active

    def streams(self, wanted: bool) -> bool:
        """Tell whether to stream, given what the settings want."""
        if Quirk.STREAM in self._active:
            return True
        return wanted and Quirk.NO_STREAM not in self._active

    def learn(self, failure: ModelFailure, *, sent: int | None = None) -> bool:
        """Remember what a failure teaches; tell whether to send the request once more.

        `sent` is the revision that the refused request was built with: when a concurrent request
        taught the same in the meantime, this one is worth sending again too. A quirk that was
        learned and did not help is not worth another request.
        """
        name = failure.quirk
        if name is None:
            return False
        if name in self._active:
            return sent is not None and sent < self._active[name]
        if name in self._ever:  # its opposite has been tried since: the two would go on for ever
            return False
        self._add(name)
        return True

    def as_data(self) -> list[str]:
        """List the quirks by name, in the order in which they were learned."""
        return list(self._active)

    def __repr__(self) -> str:
        return f"Quirks({', '.join(map(repr, self._active))})"

    def _add(self, name: str) -> None:
        self._revision += 1
        self._active.pop(OPPOSITES.get(name, ""), None)
        self._active[name] = self._revision
        self._ever.add(name)


# What servers say, and the quirk it means. The first that matches counts.
_TELLING: tuple[tuple[re.Pattern[str], Quirk], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), quirk)
    for pattern, quirk in (
        (r"missing .{0,40}thought_?signature|thought_?signature.{0,40}(?:missing|required)",
         Quirk.DUMMY_SIGNATURE),
        (r"missing .{0,20}reasoning_content|reasoning_content.{0,80}(?:passed back|is required"
         r"|missing)", Quirk.EMPTY_REASONING),
        (r"\bmax_tokens\b.{0,80}max_completion_tokens", Quirk.MAX_COMPLETION_TOKENS),
        (r"use ['\"`]?max_completion_tokens", Quirk.MAX_COMPLETION_TOKENS),
        (r"non-?streaming calls?|only supports? stream|stream(?:ing)? (?:mode )?(?:is )?required"
         r"|must (?:be )?(?:use |set )?stream|please (?:use|enable) stream|requires? stream"
         r"|set [`'\"]?stream[`'\"]?.{0,12}true", Quirk.STREAM),
        (r"stream(?:ing)?[`'\"]? (?:is |mode is )?(?:not|un) ?supported"
         r"|not support(?:ed)?:? ?[`'\"]?stream(?:ing)?\b(?!_)", Quirk.NO_STREAM),
        (r"content type: <nil>|content.{0,40}(?:must not|cannot|can't|can not|may not) be (?:null|none)"
         r"|content.{0,60}(?:should|must) be a (?:valid )?(?:string|list)"
         r"|content.{0,60}(?:got|is|was|found|received) (?:null|none|nil)\b"
         r"|(?:null|none|nil) .{0,30}content|missing.{0,20}content|content.{0,30}field required"
         r"|invalid type.{0,40}content.{0,40}got null", Quirk.EMPTY_CONTENT_AS_TEXT),
        (r"content.{0,60}(?:must be non-?empty|cannot be empty|can't be empty|must not be empty"
         r"|should not be empty|is empty|is blank|be at least 1 char|not be blank)"
         r"|text content blocks must", Quirk.EMPTY_CONTENT_AS_NULL),
        (r"tool_choice", Quirk.NO_TOOL_CHOICE),
        (r"properties: should be non-?empty|properties.{0,40}(?:must|should) (?:be|not be) "
         r"?(?:non-?)?empty", Quirk.BARE_TOOLS),
        (r"tool call id.{0,80}(?:length of 9|9 characters|a-z)"
         r"|(?:tool_call_id|tool_calls\S{0,20}\.id|call id).{0,120}(?:too long|maximum length"
         r"|at most 40|max(?:imum)? ?length)", Quirk.SHORT_IDS),
    )
)  # fmt: skip


def told_by(message: str, param: str = "", code: str = "") -> str | None:
    """Name the quirk that a refusal (400 or 422) tells of, None when it tells of none.

    `param` and `code` are the fields of that name in the error object, where the server has them.
    """
    if param == "max_tokens" and (code == "unsupported_parameter" or _OBJECTS.search(message)):
        return Quirk.MAX_COMPLETION_TOKENS
    if param == "tool_choice":
        return Quirk.NO_TOOL_CHOICE
    field = param.rpartition(".")[2]
    if field in OPTIONAL_FIELDS and not _is_about_the_value(message, code):
        return WITHOUT + field
    for pattern, quirk in _TELLING:
        if pattern.search(message) and not (
            quirk is Quirk.NO_TOOL_CHOICE and not _OBJECTS.search(message)
        ):
            return quirk
    if _OBJECTS.search(message):
        for name in OPTIONAL_FIELDS:
            if re.search(_WORD.format(name), message) and _stands_out(name, message):
                return WITHOUT + name
        if re.search(_WORD.format("max_tokens"), message):
            return Quirk.MAX_COMPLETION_TOKENS
        if re.search(r"parallel tool[- ]calls?|parallel function", message, re.IGNORECASE):
            return WITHOUT + "parallel_tool_calls"
    return None


def _is_about_the_value(message: str, code: str) -> bool:
    # "temperature must be below 2" is the caller's mistake: leaving it out would hide that.
    return code == "invalid_value" or not (code == "unsupported_parameter" or _speaks(message))


def _speaks(message: str) -> bool:
    return bool(_OBJECTS.search(message))


def _stands_out(name: str, message: str) -> bool:
    # `n`, `stop`, `user` and the like are English words; only quoted or after a colon they are
    # surely the field.
    if "_" in name:
        return True
    return bool(re.search(rf"[`'\":]\s*{name}(?:[`'\"\s,.]|$)", message))

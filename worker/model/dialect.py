"""Tell from raw replies which dialect a server speaks.

Pure judgement: `probe.py` asks, this file looks at what came back and says, trait by trait, what
was seen, whether it is as it should be, and what becomes of it here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from worker.core.messages import Reply, ReplyKind
from worker.model.errorbody import safe_text
from worker.model.jsontext import NotStrict, decode, read_strictly
from worker.model.quirks import WITHOUT, Quirk, Quirks
from worker.model.retryhints import in_words
from worker.model.sse import DONE, SseParser

_SHOWN_CHARS = 80  # of a text that came where a call was due
_DOES = {
    Quirk.MAX_COMPLETION_TOKENS: "max_completion_tokens is sent instead of max_tokens",
    Quirk.EMPTY_CONTENT_AS_TEXT: 'content is "" where an assistant turn has no text',
    Quirk.EMPTY_CONTENT_AS_NULL: "content is null where an assistant turn has no text",
    Quirk.STREAM: "every reply is asked for as a stream",
    Quirk.NO_STREAM: "no reply is asked for as a stream",
    Quirk.NO_TOOL_CHOICE: "closing turns go without tools and without tool_choice",
    Quirk.BARE_TOOLS: "a tool without parameters is sent without a schema",
    Quirk.SHORT_IDS: "call ids are sent as nine letters and digits",
}


class Verdict(StrEnum):
    """How a trait is to be taken: as it should be, odd but dealt with, or in the way."""

    OK = "ok"
    QUIRK = "quirk"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Trait:
    """One thing about an endpoint; `does` is what loopworker does about it, or what you can do."""

    topic: str
    seen: str
    verdict: Verdict = Verdict.OK
    does: str = ""

    def as_data(self) -> dict[str, str]:
        """Return the trait as plain data."""
        verdict = self.verdict.value
        return {"topic": self.topic, "seen": self.seen, "verdict": verdict, "does": self.does}


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer as it came; `headers` answers lower-case names, `data` is the raw body."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def is_stream(self) -> bool:
        """Whether the body is events, whatever its content type says."""
        kind = self.headers.get("content-type", "")
        if "event-stream" in kind:
            return True
        return self.data.lstrip()[:5] in (b"data:", b"event")


def judge_call(body: Mapping[str, Any], reply: Reply) -> list[Trait]:
    """Judge the reply to a question that asks for a tool call."""
    message, reason = _first(body)
    traits = [_form(message, reply)]
    entries = _entries(message)
    if reply.kind is ReplyKind.CALLS:
        if entries:
            traits += _arguments(entries[0], reply)
        listed = message.get("tool_calls")
        if entries and isinstance(listed, list) and listed:
            traits.append(_ids(entries))
        traits += [_finish(reason), _content(message)]
    traits.append(_usage(body))
    return traits


def _first(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    choice = body["choices"][0]  # `normalise` has read it before: it is there
    message = choice.get("message")
    return (message if isinstance(message, dict) else choice["delta"]), choice.get("finish_reason")


def _entries(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = message.get("tool_calls")
    entries = (
        [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    )
    legacy = message.get("function_call")
    return entries or ([{"function": legacy}] if isinstance(legacy, dict) else [])


def _form(message: Mapping[str, Any], reply: Reply) -> Trait:
    if reply.kind is not ReplyKind.CALLS:
        said = f": {safe_text(reply.text, _SHOWN_CHARS)!r}" if reply.text else ""
        return Trait(
            "calls",
            f"none; the reply is {_KINDS[reply.kind]}{said}",
            Verdict.WRONG,
            "nothing can be done here: switch on the server's tool calling, or take another model",
        )
    if reply.recovered is not None:
        does = "run as calls; the markup is taken out of the history"
        return Trait("calls", f"leaked into the text ({reply.recovered})", Verdict.QUIRK, does)
    if message.get("tool_calls"):
        return Trait("calls", "tool_calls")
    return Trait("calls", "function_call", Verdict.QUIRK, "read as a call; goes back as tool_calls")


_KINDS = {
    ReplyKind.ANSWER: "text",
    ReplyKind.EMPTY: "empty",
    ReplyKind.LENGTH: "cut by a limit on tokens",
    ReplyKind.CONTENT_FILTERED: "stopped by a content filter",
    ReplyKind.REFUSED: "a refusal",
}


def _arguments(entry: Mapping[str, Any], reply: Reply) -> list[Trait]:
    function = entry.get("function")
    given = (function if isinstance(function, dict) else entry).get("arguments")
    traits = [_form_of_arguments(given)]
    if reply.calls[0].arguments is None:
        does = "the call is not run; the model is told what is wrong, to try again"
        traits.append(Trait("schema", "the call does not fit the tool", Verdict.WRONG, does))
    return traits


def _form_of_arguments(given: Any) -> Trait:
    if isinstance(given, dict):
        return Trait("arguments", "an object", Verdict.QUIRK, "taken as it is; goes back as text")
    if given is None or given == "":
        seen = "missing" if given is None else "an empty text"
        return Trait("arguments", seen, Verdict.QUIRK, "taken as {}")
    try:
        value = read_strictly(given) if isinstance(given, str) else None
    except (ValueError, RecursionError, NotStrict):
        value = None
    if isinstance(value, dict):
        return Trait("arguments", "JSON text")
    if isinstance(value, str):
        does = "unwrapped, up to three times"
        return Trait("arguments", "JSON text within JSON text", Verdict.QUIRK, does)
    does = "mended where that is certain, else not run"
    return Trait("arguments", "not quite the JSON text of an object", Verdict.QUIRK, does)


def _ids(entries: Sequence[Mapping[str, Any]]) -> Trait:
    given = [each.get("id") for each in entries]
    does = "each call gets an id of its own, in the history and in the result"
    if any(each is None for each in given):
        return Trait("ids", "missing", Verdict.QUIRK, does)
    if any(each == "" for each in given):
        return Trait("ids", "empty", Verdict.QUIRK, does)
    if not all(isinstance(each, str) for each in given):
        return Trait("ids", f"no text but {type(given[0]).__name__}", Verdict.QUIRK, "sent as text")
    if len(set(given)) < len(given):
        does = "the first keeps its id, the others get one of their own"
        return Trait("ids", "the same for several calls", Verdict.QUIRK, does)
    return Trait("ids", "present")


def _finish(reason: Any) -> Trait:
    if reason in ("tool_calls", "function_call"):
        return Trait("finish_reason", str(reason))
    does = "not relied on: calls count whatever it says, unless it says that the reply was cut"
    seen = "missing beside a call" if not reason else f"{reason!r} beside a call"
    return Trait("finish_reason", seen, Verdict.QUIRK, does)


def _content(message: Mapping[str, Any]) -> Trait:
    if "content" not in message:
        return Trait("content", "missing beside a call", Verdict.QUIRK, "goes back as null")
    content = message["content"]
    if isinstance(content, list):
        return Trait("content", "a list of parts", Verdict.QUIRK, "its text parts are joined")
    if content is None:
        return Trait("content", "null beside a call")
    if not isinstance(content, str):
        seen = f"{type(content).__name__} beside a call"
        return Trait("content", seen, Verdict.QUIRK, "taken as no text")
    return Trait("content", "text beside a call" if content.strip() else '"" beside a call')


def _usage(body: Mapping[str, Any]) -> Trait:
    if isinstance(body.get("usage"), dict) and body["usage"]:
        return Trait("usage", "sent")
    does = "tokens count as none: limits on tokens and money cannot hold"
    return Trait("usage", "not sent", Verdict.QUIRK, does)


def judge_stream(heard: Heard, quirks: Quirks) -> list[Trait]:
    """Judge how a reply came that was asked for as a stream and is complete."""
    if quirks.has(Quirk.NO_STREAM):
        does = _DOES[Quirk.NO_STREAM]
        return [Trait("stream", "refused", Verdict.QUIRK, does)]
    if not heard.is_stream:
        return [Trait("stream", "answered as one JSON reply", Verdict.QUIRK, "read as such")]
    parser = SseParser()
    events = [*parser.feed(heard.data), *parser.close()]
    chunks = [chunk for chunk in map(_decoded, events) if isinstance(chunk, dict)]
    traits = [Trait("stream", f"sent, {len(chunks)} chunks")]
    if "event-stream" not in heard.headers.get("content-type", ""):
        seen = "sent, with another content type"
        traits = [Trait("stream", seen, Verdict.QUIRK, "known by its looks; read when it is over")]
    done = any(event.strip() == DONE for event in events)
    quirk = Trait("stream end", "no [DONE]", Verdict.QUIRK, "the finish reason ends the reply")
    traits.append(Trait("stream end", "[DONE]") if done else quirk)
    return traits + _indexes(chunks)


def _decoded(event: str) -> Any:
    try:
        return decode(event)
    except ValueError:
        return None


def _indexes(chunks: Sequence[Mapping[str, Any]]) -> list[Trait]:
    fragments = [each for chunk in chunks for each in _fragments(chunk)]
    if not fragments:
        return []
    given = [each.get("index") for each in fragments]
    does = "told apart by index, id and name, whichever can"
    if not all(isinstance(each, int) for each in given):
        return [Trait("stream index", "missing", Verdict.QUIRK, does)]
    ids: dict[Any, set[Any]] = {}
    for index, each in zip(given, fragments, strict=True):
        ids.setdefault(index, set()).update({each["id"]} if each.get("id") else ())
    if any(len(of_one) > 1 for of_one in ids.values()):
        return [Trait("stream index", "the same for several calls", Verdict.QUIRK, does)]
    if sorted(ids) != list(range(len(ids))):
        return [Trait("stream index", f"begins at {min(ids)} or skips", Verdict.QUIRK, does)]
    return [Trait("stream index", "counts from 0")]


def _fragments(chunk: Mapping[str, Any]) -> list[dict[str, Any]]:
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    delta = choice.get("delta") if isinstance(choice, dict) else None
    listed = delta.get("tool_calls") if isinstance(delta, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def judge_streamed_call(plain: Sequence[Trait], streamed: Sequence[Trait]) -> list[Trait]:
    """Keep of a streamed call what is odd about it and was not so without the stream."""
    known = {(trait.topic, trait.does) for trait in plain}
    return [
        Trait(f"stream {trait.topic}", trait.seen, trait.verdict, _done_in_stream(trait))
        for trait in streamed
        if trait.verdict is not Verdict.OK and (trait.topic, trait.does) not in known
    ]


def _done_in_stream(trait: Trait) -> str:
    if trait.verdict is Verdict.WRONG and trait.topic == "calls":
        return "leave LOOPWORKER_MODEL_STREAM off if this is always so"
    return trait.does


def judge_result(reply: Reply) -> Trait:
    """Judge the reply to a call that was sent back with its result."""
    if reply.kind is ReplyKind.CALLS:
        does = "a loop that repeats its calls is ended"
        return Trait("results", "accepted; the model calls again", Verdict.QUIRK, does)
    if reply.kind is ReplyKind.ANSWER:
        return Trait("results", "accepted and answered")
    seen = f"accepted; the reply is {_KINDS[reply.kind]}"
    return Trait("results", seen, Verdict.QUIRK, "asked again, or the run ends with its reason")


def judge_closing(reply: Reply, quirks: Quirks) -> Trait:
    """Judge the reply to a request that offers tools and forbids calls."""
    if reply.kind is ReplyKind.CALLS:
        does = "calls of a closing turn are not run"
        return Trait("tool_choice", "none is not heeded", Verdict.QUIRK, does)
    if quirks.has(Quirk.NO_TOOL_CHOICE):
        return Trait("tool_choice", "refused", Verdict.QUIRK, _DOES[Quirk.NO_TOOL_CHOICE])
    return Trait("tool_choice", "none is heeded")


def judge_quirks(quirks: Quirks) -> list[Trait]:
    """Tell what the endpoint objected to, and what is sent since."""
    return [Trait("learned", name, Verdict.QUIRK, _done_about(name)) for name in quirks.as_data()]


def _done_about(name: str) -> str:
    if name.startswith(WITHOUT):
        return f"{name.removeprefix(WITHOUT)} is not sent"
    return _DOES[Quirk(name)]


_NUMBER = re.compile(r"\s*\d+(\.\d+)?\s*\Z")


def judge_throttling(heard: Heard, wait_seconds: float | None) -> Trait:
    """Judge how a throttling server says when to come back; `wait_seconds` is what was read."""
    if wait_seconds is None:
        seen = f"HTTP {heard.status} without a usable word on when to come back"
        return Trait("throttling", seen, Verdict.QUIRK, "asked again with growing pauses")
    does = f"waits {wait_seconds:.1f} s, for all runs alike"
    return Trait("throttling", f"HTTP {heard.status}, {_wait_form(heard)}", Verdict.OK, does)


def _wait_form(heard: Heard) -> str:
    if heard.headers.get("retry-after-ms") is not None:
        return "retry-after-ms"
    given = heard.headers.get("retry-after")
    if given is not None:
        return "Retry-After in seconds" if _NUMBER.match(given) else "Retry-After as a date"
    if in_words(heard.data.decode("utf-8", "replace")) is not None:
        return "the wait in words"
    return "the wait in ratelimit-reset headers"

"""From any reply to text, calls and an outcome.

One place reads every reply, streamed or not, from any server. The order of the questions is the
policy: an error in the body, a refusal or a filter wins over calls; calls win over text; what the
finish reason says counts only when it says that something was cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from worker.core.errors import ModelError
from worker.core.limits import Status
from worker.core.messages import Reply, ReplyKind
from worker.model.calls import CallReader, RawCall, ReadCalls
from worker.model.failures import error_in
from worker.model.jsontext import scrub
from worker.model.port import OfferedTool
from worker.model.sound import sound
from worker.model.textcalls import TextCalls, find_calls
from worker.model.usage import read_usage

_CUT = frozenset(
    {"length", "max_tokens", "model_length", "max_output_tokens", "model_context_window_exceeded"}
)
_FILTERED = ("content_filter", "content-filter", "contentfilter", "sensitive", "safety",
             "prohibited_content", "blocklist", "guardrail")  # fmt: skip
_THINKING = re.compile(r"\s*<(think|thinking|thought)>(.*?)</\1>\s*", re.DOTALL | re.IGNORECASE)
_THINKING_OPEN = re.compile(r"\s*<(?:think|thinking|thought)>", re.IGNORECASE)
_THINKING_CLOSED = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE)
# Known fields that say nothing when they are empty, and that some servers refuse to get back.
_DROPPED_WHEN_EMPTY = ("refusal", "annotations", "audio", "tool_calls")


@dataclass(frozen=True, slots=True)
class NormaliseLimits:
    """What is taken from a reply at most."""

    max_argument_bytes: int = 65_536
    recover_text_calls: bool = True  # run calls that a server leaked into the text


DEFAULT_LIMITS = NormaliseLimits()


def normalise(
    raw: Any,
    tools: Sequence[OfferedTool],
    *,
    withheld: Sequence[OfferedTool] = (),
    new_id: Callable[[], str],
    limits: NormaliseLimits = DEFAULT_LIMITS,
) -> Reply:
    """Read a decoded reply. Never returns a call that may have been cut.

    `withheld` are tools that were not on offer and whose calls are read all the same.

    Raises ModelError when the body is an error or no reply at all; then nothing in it was used.
    """
    choice, message = _first_message(raw)
    message = sound(message)
    if isinstance(message.get("content"), dict):  # one part, without its list
        message = {**message, "content": [message["content"]]}
    reason = choice.get("finish_reason")
    reason = reason if isinstance(reason, str) and reason else None
    reader = CallReader(
        tools, withheld, max_argument_bytes=limits.max_argument_bytes, new_id=new_id
    )
    recovers = bool(tools or withheld) and limits.recover_text_calls
    beside = {
        "usage": read_usage(raw.get("usage")),
        "finish_reason": reason,
        "model": _text(raw.get("model")),
        "reply_id": _text(raw.get("id")),
    }
    return _read(message, beside, reader, recovers=recovers)


def _first_message(raw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    if not isinstance(raw, dict):
        if isinstance(raw, list) and raw and isinstance(raw[0], dict) and raw[0].get("error"):
            raw = raw[0]
        else:
            raise _not_a_reply(f"the reply is {type(raw).__name__}, not an object")
    failure = error_in(raw)
    if failure is not None:
        raise failure.error()
    choices = raw.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        keys = ", ".join(sorted(map(str, raw)))[:200] or "none"
        raise _not_a_reply(f"the reply has no choices; its top-level keys: {keys}")
    if choice.get("finish_reason") == "error" or choice.get("error"):
        failure = error_in(choice)
        if failure is not None:
            raise failure.error()
        raise ModelError(
            "the server ended the reply in error", status=Status.MODEL_UNAVAILABLE, transient=True
        )
    for key in ("message", "delta"):
        if isinstance(choice.get(key), dict):
            return choice, choice[key]
    keys = ", ".join(sorted(map(str, choice)))[:200]
    raise _not_a_reply(f"the reply has no message; the keys of its choice: {keys}")


def _not_a_reply(message: str) -> ModelError:
    return ModelError(message, status=Status.PROTOCOL_ERROR, transient=True)


def _read(
    message: dict[str, Any],
    beside: dict[str, Any],
    reader: CallReader,
    *,
    recovers: bool,
) -> Reply:
    """Read what was said. `beside` are the fields of the reply that stand outside the message."""
    spoken = said(message.get("content"))
    refusal = _refusal(message)
    lowered = (beside["finish_reason"] or "").lower()
    cut = lowered in _CUT
    text = shown_text(spoken, cut=cut)
    if refusal or lowered == "refusal":
        return Reply(ReplyKind.REFUSED, refusal or text, _echo(message, None), **beside)
    if lowered.startswith(_FILTERED):
        return Reply(ReplyKind.CONTENT_FILTERED, text, _echo(message, None), **beside)
    asked = _asked_calls(message)
    if asked:
        return _with_calls(message, text, reader.read(asked), cut, beside)
    found = find_calls(text) if recovers and text else None
    if found is not None:
        reply = _with_text_calls(message, found, reader, cut=cut, hidden=spoken[: -len(text)])
        if reply is not None:
            return replace(reply, **beside)
    if cut:
        return Reply(ReplyKind.LENGTH, text, _echo(message, None), **beside)
    kind = ReplyKind.ANSWER if text else ReplyKind.EMPTY
    return Reply(kind, text, _echo(message, None), **beside)


def _with_calls(
    message: dict[str, Any], text: str, read: ReadCalls, cut: bool, beside: dict[str, Any]
) -> Reply:
    if cut and read.cut:
        return Reply(ReplyKind.LENGTH, text, _echo(message, None), **beside)
    return Reply(ReplyKind.CALLS, text, _echo(message, read.echo), tuple(read.calls), **beside)


def _with_text_calls(
    message: dict[str, Any], found: TextCalls, reader: CallReader, *, cut: bool, hidden: str
) -> Reply | None:
    """Turn text calls into calls; None when the text had better be left as it is.

    `hidden` is the thinking before the text; it stays in the history.
    """
    raw = [RawCall(c.name, c.arguments, c.call_id, whole=c.whole) for c in found.calls]
    read = reader.read(raw)
    if cut and read.cut:
        return Reply(ReplyKind.LENGTH, found.prose, _echo(message, None))
    faulty = any(call.problem is not None for call in read.calls)
    if faulty and (found.prose or not found.certain):
        return None  # a quotation, or JSON that only looks like a call
    # The markup is now a call; a server that renders both would show it to the model twice.
    content = _content_before_markup(message.get("content"), hidden + found.prose)
    echo = _echo({**message, "content": content}, read.echo)
    return Reply(ReplyKind.CALLS, found.prose, echo, tuple(read.calls), recovered=found.dialect)


def _content_before_markup(content: Any, before: str) -> Any:
    if not isinstance(content, list):
        return before if before.strip() else None
    parts = [part for part in content if not said([part])]
    return ([*parts, {"type": "text", "text": before}] if before.strip() else parts) or None


def _asked_calls(message: dict[str, Any]) -> list[RawCall]:
    calls = message.get("tool_calls")
    asked = [_raw_call(entry) for entry in (calls if isinstance(calls, list) else [calls])]
    usable = [call for call in asked if call is not None]
    if usable:
        return usable
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        call = _raw_call({"function": legacy})
        return [call] if call is not None else []
    return []


def _raw_call(entry: Any) -> RawCall | None:
    """Take one entry of `tool_calls` apart; None when it names nothing and holds nothing."""
    if not isinstance(entry, dict):
        return None
    function = entry.get("function")
    inner = function if isinstance(function, dict) else entry
    name, arguments = inner.get("name"), inner.get("arguments")
    if not name and arguments in (None, "", {}):
        return None
    known = {"id", "type", "index", "function", "name", "arguments"}
    kept = {key: value for key, value in entry.items() if key not in known}
    within = {}
    if inner is not entry:
        within = {key: value for key, value in inner.items() if key not in known}
    return RawCall(name, arguments, entry.get("id"), entry=kept, function=within)


def _echo(message: dict[str, Any], calls: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Make the message that goes back: unknown fields untouched, the known ones made legal."""
    echo = {
        key: value
        for key, value in message.items()
        if key != "function_call" and (value or key not in _DROPPED_WHEN_EMPTY)
    }
    echo.pop("tool_calls", None)
    echo["role"] = "assistant"
    echo.setdefault("content", None)
    if calls:
        echo["tool_calls"] = calls
    elif echo["content"] is None:
        echo["content"] = ""  # null is legal only beside calls
    return echo


def said(content: Any) -> str:
    """Join the text of a reply: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    pieces = []
    for part in content:
        if isinstance(part, str):
            pieces.append(part)
        elif isinstance(part, Mapping) and part.get("type", "text") in ("text", "output_text"):
            pieces.append(_text(part.get("text")))
    return "".join(pieces)


def _refusal(message: dict[str, Any]) -> str:
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return refusal
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and part.get("type") == "refusal":
            return _text(part.get("refusal"))
    return ""


def shown_text(spoken: str, *, cut: bool = False) -> str:
    """Return what a person may see: without the thinking that leads it, "" when blank."""
    text = spoken
    while (thought := _THINKING.match(text)) is not None:
        text = text[thought.end() :]
    if _THINKING_OPEN.match(text):
        return "" if cut else text  # cut while it was still thinking: none of it is an answer
    if "</think>" in text and "<think>" not in text:
        # The chat template opened the block, so only its end came.
        closed = _THINKING_CLOSED.search(text)
        text = text[closed.end() :].lstrip() if closed else text
    return text if text.strip() else ""


def _text(value: Any) -> str:
    return scrub(value) if isinstance(value, str) else ""

"""Messages of an earlier conversation: repaired, and cut without orphaning a tool message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from worker.core.texts import INTERRUPTED, NO_OUTPUT

RawMessage = dict[str, Any]
ROLES = ("system", "user", "assistant", "tool")
OLDER_ROLES = ("developer", "function")  # read as `system` and `tool`
BYTES_OF_TOKEN = 3
TOKENS_OF_MESSAGE = 4  # for what stands around the text of each


def repaired(messages: Iterable[Any], *, language: str) -> list[RawMessage]:
    """Pair every call with one result, in call order, directly after it (invariant 2).

    A call without a result gets a synthetic one; a result without a call is dropped, because no
    server accepts it. So is whatever is no message at all: it may have been written by anybody.
    """
    known = [m for m in _portable(messages) if m.get("role") in ROLES]
    out: list[RawMessage] = []
    index = 0
    while index < len(known):
        message = _sound(known[index])
        index += 1
        if message is None:
            continue
        out.append(message)
        results: dict[str, RawMessage] = {}
        while message.get("tool_calls") and index < len(known) and known[index]["role"] == "tool":
            answered = known[index].get("tool_call_id")
            if isinstance(answered, str) and isinstance(known[index].get("content"), str | list):
                results.setdefault(answered, known[index])
            index += 1
        out += [
            _with_words(results.get(call["id"]))
            or {"role": "tool", "tool_call_id": call["id"], "content": INTERRUPTED[language]}
            for call in message.get("tool_calls", ())
        ]
    return out


def _portable(messages: Iterable[Any]) -> Iterable[RawMessage]:
    """Put the forms of other times and vendors into the one that every server takes."""
    called = ""
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        role, asked = message.get("role"), message.get("function_call")
        if "function_call" in message:
            message = {key: each for key, each in message.items() if key != "function_call"}
        if role == "developer":
            message = {**message, "role": "system"}
        elif role == "function":
            content = message.get("content")
            message = {"role": "tool", "tool_call_id": called, "content": content}
        elif role == "assistant" and isinstance(asked, dict) and not message.get("tool_calls"):
            called = f"fc{number:07d}"
            call = {"id": called, "type": "function", "function": asked}
            message["tool_calls"] = [call]
        yield message


def _with_words(result: RawMessage | None) -> RawMessage | None:
    content = None if result is None else result.get("content")
    if result is None or (content if not isinstance(content, str) else content.strip()):
        return result
    return {**result, "content": NO_OUTPUT}  # an empty one is refused by some servers


def without_calls(messages: list[RawMessage]) -> list[RawMessage]:
    """Keep of each turn what was said in it, for a run that is offered no tools.

    Some servers refuse a conversation with calls in it when the request names no tool.
    """
    return [m for m in messages if m["role"] != "tool" and not m.get("tool_calls")]


def _sound(message: RawMessage) -> RawMessage | None:
    """A message in a form that servers accept, without its result; None when there is none."""
    role, content = message["role"], message.get("content")
    if role == "tool":
        return None  # the results of a call are taken together with it
    calls = _calls(message.get("tool_calls")) if role == "assistant" else []
    if not calls and not (isinstance(content, str | list) and content):
        return None
    sound = {name: value for name, value in message.items() if name != "tool_calls"}
    if calls:
        sound["tool_calls"] = calls
    if not isinstance(content, str | list):
        sound["content"] = None
    return sound


def _calls(found: Any) -> list[RawMessage]:
    """The calls that can be sent back: each with an id of its own and the name of a tool."""
    calls: dict[str, RawMessage] = {}
    for call in found if isinstance(found, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if (
            isinstance(function, dict)
            and _is_name(function.get("name"))
            and _is_name(call.get("id"))
        ):
            calls.setdefault(call["id"], call)
    return list(calls.values())


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def cut(
    messages: list[RawMessage], *, at_most: int, tokens_max: int | None = None
) -> list[RawMessage]:
    """Keep the newest turns that fit in so many messages and so many estimated tokens.

    A turn begins with a user message. It is kept whole; from the first on that does not fit, turns
    are kept as what was said in them, without their calls; then not at all.
    """
    if _Budget(at_most, tokens_max).pay(messages):
        return messages
    return shaped(messages, *fitting(messages, at_most=at_most, tokens_max=tokens_max))


def fitting(messages: list[RawMessage], *, at_most: int, tokens_max: int | None) -> tuple[int, int]:
    """How many of the newest turns fit, and how many of those as a whole."""
    budget = _Budget(at_most, tokens_max)
    count = whole = 0
    for turn in reversed(turns(messages)):
        if whole == count and budget.pay(turn):
            whole += 1
        elif not budget.pay(said(turn)):
            break
        count += 1
    return count, whole


def shaped(messages: list[RawMessage], count: int, whole: int) -> list[RawMessage]:
    """Keep so many of the newest turns, the older ones of them as what was said in them."""
    parted = turns(messages)
    newest = parted[max(0, len(parted) - count) :]
    reduced = max(0, len(newest) - whole)
    kept = [*map(said, newest[:reduced]), *newest[reduced:]]
    return [message for turn in kept for message in turn]


def turns(messages: list[RawMessage]) -> list[list[RawMessage]]:
    """Part messages into turns; what stands before the first question belongs to none."""
    starts = [i for i, message in enumerate(messages) if message.get("role") == "user"]
    ends = [*starts[1:], len(messages)]
    return [messages[start:end] for start, end in zip(starts, ends, strict=False)]


def said(turn: list[RawMessage]) -> list[RawMessage]:
    """Reduce a turn to its question and its answer: no calls, so nothing to pair."""
    answers = [m for m in turn if m.get("role") == "assistant" and not m.get("tool_calls")]
    return [*turn[:1], *answers[-1:]]


def is_paired(messages: Iterable[RawMessage]) -> bool:
    """Whether every call has its one result, in call order, directly after it (invariant 2)."""
    waiting: list[Any] = []
    for message in messages:
        if message.get("role") == "tool":
            if not waiting or waiting.pop(0) != message.get("tool_call_id"):
                return False
        elif waiting:
            return False
        else:
            waiting = [call.get("id") for call in message.get("tool_calls") or ()]
    return not waiting


def tokens_of(message: RawMessage) -> int:
    """Estimate the tokens of a message: a third of its bytes in UTF-8, and a few.

    That is a token for a Chinese character and for three English letters: rather too many than too
    few, for a conversation that does not fit is refused as a whole.
    """
    content = message.get("content")
    if isinstance(content, str) and len(message) == 2:
        return tokens_of_text(content)
    return tokens_of_text(json.dumps(message, ensure_ascii=False, separators=(",", ":")))


def tokens_of_text(text: str) -> int:
    """Estimate the tokens of a message that consists of this text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return size // BYTES_OF_TOKEN + TOKENS_OF_MESSAGE


class _Budget:
    """What may still be kept."""

    def __init__(self, messages: int, tokens: int | None) -> None:
        self._messages = messages
        self._tokens = tokens

    def pay(self, messages: list[RawMessage]) -> bool:
        """Take the cost of some messages, if there is enough left for all of them."""
        if len(messages) > self._messages:
            return False
        if self._tokens is not None:
            cost = sum(map(tokens_of, messages))
            if cost > self._tokens:
                return False
            self._tokens -= cost
        self._messages -= len(messages)
        return True

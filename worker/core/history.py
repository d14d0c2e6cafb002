"""Messages of an earlier conversation: repaired, and cut without orphaning a tool message."""

from __future__ import annotations

from typing import Any

from worker.core.texts import INTERRUPTED

RawMessage = dict[str, Any]


def repaired(messages: list[RawMessage], *, language: str) -> list[RawMessage]:
    """Pair every call with one result, in call order, directly after it (invariant 2).

    A call without a result gets a synthetic one; a result without a call is dropped, because no
    server accepts it.
    """
    out: list[RawMessage] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if message.get("role") == "tool":
            continue
        calls = message.get("tool_calls")
        if not calls:
            out.append({k: v for k, v in message.items() if k != "tool_calls"})
            continue
        out.append(message)
        results: dict[Any, RawMessage] = {}
        while index < len(messages) and messages[index].get("role") == "tool":
            results.setdefault(messages[index].get("tool_call_id"), messages[index])
            index += 1
        out += [
            results.get(call["id"])
            or {"role": "tool", "tool_call_id": call["id"], "content": INTERRUPTED[language]}
            for call in calls
        ]
    return out


def cut(messages: list[RawMessage], *, at_most: int) -> list[RawMessage]:
    """Keep the newest turns that fit. A turn begins with a user message and is kept whole."""
    if len(messages) <= at_most:
        return messages
    starts = [i for i, message in enumerate(messages) if message.get("role") == "user"]
    for start in starts:
        if len(messages) - start <= at_most:
            return messages[start:]
    return []

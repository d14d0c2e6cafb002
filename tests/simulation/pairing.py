"""Whether each call in a conversation is answered once, where it has to be. Knows nothing of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def what_is_unpaired(messages: Sequence[dict[str, Any]]) -> str | None:
    """Say what is wrong with a list of messages as a strict server would; None: nothing."""
    open_ids: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            said = message.get("tool_call_id")
            if not open_ids or open_ids.pop(0) != said:
                return f"message {number} answers {said!r}, which is not the next open call"
            continue
        if open_ids:
            return f"message {number} comes before {open_ids[0]!r} is answered"
        open_ids = [call["id"] for call in message.get("tool_calls") or ()]
    return f"{open_ids[0]!r} is never answered" if open_ids else None

"""Put one reply together from the chunks of a stream.

What comes out has the shape of a reply that was not streamed, so that there is one way to read
replies. A stream without an end mark, with an error in it or with a line that cannot be read gives
no reply at all: nothing that was cut may be run.
"""

from __future__ import annotations

from typing import Any

from worker.core.errors import ModelError
from worker.core.limits import Status
from worker.model.callslots import CallSlots
from worker.model.failures import ModelFailure, error_in
from worker.model.jsontext import decode
from worker.model.sse import DONE

_HEAD = ("id", "model")
_SHORT = 16  # characters; [DONE] with some space around it
_GROWING = ("text", "summary", "thinking")
_JOINED = ("text", "summary", "thinking", "data", "signature")


class ReplyAssembler:
    """Takes the chunks of one streamed reply, in order; gives the whole reply at the end."""

    def __init__(self) -> None:
        self.done = False  # [DONE] was seen: stop reading, the server may keep the line open
        self.failure: ModelFailure | None = None
        self._finish_reason: str | None = None
        self._content: list[str] = []
        self._parts: list[Any] | None = None  # content that comes as a list of parts
        self._content_seen = False
        self._texts: dict[str, list[str]] = {}
        self._others: dict[str, Any] = {}
        self._calls = CallSlots()
        self._function_call = CallSlots()
        self._usage: dict[str, Any] | None = None
        self._head: dict[str, Any] = {}

    @property
    def complete(self) -> bool:
        """Whether an end mark was seen: a finish reason, or [DONE]."""
        return self.done or self._finish_reason is not None

    @property
    def text(self) -> str:
        """The text so far, as the server sent it."""
        return "".join(self._content)

    def feed(self, data: str) -> None:
        """Take the data of one event. Raises ModelError when it is an error or unreadable."""
        if len(data) < _SHORT and data.strip() == DONE:
            self.done = True
            return
        try:
            chunk = decode(data)
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict):
            self._fail(
                ModelFailure(
                    Status.MODEL_UNAVAILABLE, True, "the stream holds a line that is not JSON"
                )
            )
        self.add(chunk)

    def add(self, chunk: dict[str, Any]) -> None:
        """Take one chunk. Raises ModelError when it says that the reply failed."""
        choices = chunk.get("choices")
        if "error" in chunk or not choices:
            failure = error_in(chunk)
            if failure is not None:
                self._fail(failure)
        if chunk.get("usage") or "x_groq" in chunk:
            self._add_usage(chunk)
        if len(self._head) < len(_HEAD):
            self._head.update({key: chunk[key] for key in _HEAD if chunk.get(key)})
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and choice.get("index") in (0, None):
                    self._add_choice(choice)

    def finish(self) -> dict[str, Any]:
        """Return the whole reply, as if it had not been streamed.

        Raises ModelError, with the text so far, when the stream ended without an end mark.
        """
        if not self.complete:
            self._fail(
                ModelFailure(
                    Status.MODEL_UNAVAILABLE, True, "the stream ended before the reply was complete"
                )
            )
        message: dict[str, Any] = {"role": "assistant", "content": self._whole_content()}
        message.update(self._others)
        message.update({key: "".join(pieces) for key, pieces in self._texts.items()})
        if self._calls:
            message["tool_calls"] = self._calls.bodies()
        if self._function_call:
            message["function_call"] = self._function_call.bodies()[0]["function"]
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._head, "choices": [choice], "usage": self._usage}

    def _add_usage(self, chunk: dict[str, Any]) -> None:
        usage = chunk.get("usage")
        if usage is None and isinstance(chunk.get("x_groq"), dict):
            usage = chunk["x_groq"].get("usage")
        if isinstance(usage, dict):
            self._usage = usage

    def _add_choice(self, choice: dict[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if reason == "error" or choice.get("error"):
            self._fail(error_in(choice) or _UNEXPLAINED)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            for key, value in delta.items():
                if key == "content" and type(value) is str and self._parts is None:
                    self._content.append(value)  # what nearly every chunk is
                    self._content_seen = True
                elif value is not None:
                    self._add_field(key, value)
        elif isinstance(choice.get("message"), dict) and not self._content_seen and not self._calls:
            # A server that sends the whole message in place of deltas, or once more at the end.
            for key, value in choice["message"].items():
                if value is not None:
                    self._add_field(key, value)
        if isinstance(reason, str) and reason:
            self._finish_reason = reason

    def _add_field(self, key: str, value: Any) -> None:
        if key == "content":
            self._add_content(value)
        elif key == "tool_calls":
            for fragment in value if isinstance(value, list) else (value,):
                self._calls.add(fragment)
        elif key == "function_call":
            self._function_call.add({"index": 0, "function": value})
        elif key == "role":
            pass
        elif isinstance(value, str):
            self._texts.setdefault(key, []).append(value)
        elif isinstance(value, list):
            kept = self._others.get(key)
            self._others[key] = _merge(kept if isinstance(kept, list) else [], value)
        elif isinstance(value, dict) and isinstance(self._others.get(key), dict):
            self._others[key] = {**self._others[key], **value}
        else:
            self._others[key] = value

    def _add_content(self, value: Any) -> None:
        self._content_seen = True
        if isinstance(value, str):
            if self._parts is None:
                self._content.append(value)
            elif value:
                self._parts = _merge(self._parts, [{"type": "text", "text": value}])
        elif isinstance(value, list | dict):
            value = value if isinstance(value, list) else [value]
            if self._parts is None:
                before = "".join(self._content)
                self._parts = [{"type": "text", "text": before}] if before else []
            self._parts = _merge(self._parts, value)

    def _whole_content(self) -> Any:
        if self._parts is not None:
            return self._parts
        return "".join(self._content) if self._content_seen else None

    def _fail(self, failure: ModelFailure) -> None:
        self.failure = failure
        error: ModelError = failure.error(said=self.text)
        raise error


_UNEXPLAINED = ModelFailure(Status.MODEL_UNAVAILABLE, True, "the server ended the stream in error")


def _merge(kept: list[Any], more: list[Any]) -> list[Any]:
    """Append parts to the list; one that continues the last (same type and index) is joined."""
    for part in more:
        last = kept[-1] if kept else None
        if isinstance(part, dict) and isinstance(last, dict) and _continues(last, part):
            kept[-1] = _joined(last, part)
        else:
            kept.append(part)
    return kept


def _continues(last: dict[str, Any], part: dict[str, Any]) -> bool:
    if last.get("type") != part.get("type") or last.get("index") != part.get("index"):
        return False
    if last.get("id") and part.get("id") and last["id"] != part["id"]:
        return False
    if any(key in part and key in last for key in _GROWING):
        return True
    # A late signature has the index of its block and nothing that would be a block of its own.
    return part.get("index") is not None and not any(key in part for key in (*_GROWING, "data"))


def _joined(last: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    whole = dict(last)
    for key, value in part.items():
        before = whole.get(key)
        if key in _JOINED and isinstance(value, str) and isinstance(before, str):
            whole[key] = before + value
        elif key in _JOINED and isinstance(value, list) and isinstance(before, list):
            whole[key] = _merge(list(before), value)
        elif value is not None:
            whole[key] = value
    return whole

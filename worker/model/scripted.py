"""A model that follows a script: for tests and the simulator."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from worker.core.errors import ModelError
from worker.core.limits import Status
from worker.core.messages import Reply, ReplyKind, ToolCall, Usage
from worker.model.port import ModelRequest

Step = (
    Reply | str | BaseException | Callable[[ModelRequest], "Reply | str | Awaitable[Reply | str]"]
)


def answer(text: str, **fields: Any) -> Reply:
    """Make a reply that answers."""
    message = {"role": "assistant", "content": text}
    fields.setdefault("usage", Usage(model_calls=1))
    kind = ReplyKind.ANSWER if text else ReplyKind.EMPTY
    return Reply(kind, text, message, finish_reason="stop", **fields)


def calls(*wanted: tuple[str, dict[str, Any]] | ToolCall, text: str = "", **fields: Any) -> Reply:
    """Make a reply that asks for tools: (name, arguments) pairs get the ids c1, c2, …"""
    made = tuple(
        each if isinstance(each, ToolCall) else ToolCall(f"c{number}", each[0], each[1])
        for number, each in enumerate(wanted, 1)
    )
    asked = [_wire_call(call) for call in made]
    message = {"role": "assistant", "content": text or None, "tool_calls": asked}
    fields.setdefault("usage", Usage(model_calls=1))
    fields.setdefault("finish_reason", "tool_calls")
    return Reply(ReplyKind.CALLS, text, message, calls=made, **fields)


def _wire_call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments or {}, ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


class ScriptedModel:
    """Gives the steps of its script, one per call, and keeps the requests it was asked.

    A step is a reply, a text to answer with, an exception to raise, or a function (sync or async)
    of the request that gives a reply or text. After the last step: `otherwise`, for ever; without
    it, a ModelError with status `error`.
    """

    def __init__(self, *steps: Step, otherwise: Step | None = None, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self.closed = False
        self._steps: list[Step] = list(steps)
        self._otherwise = otherwise

    def __repr__(self) -> str:
        return f"ScriptedModel({len(self.requests)} asked, {len(self._steps)} steps left)"

    @property
    def steps_left(self) -> int:
        """How many steps have not been taken."""
        return len(self._steps)

    def add(self, steps: Iterable[Step]) -> None:
        """Append to the script."""
        self._steps.extend(steps)

    async def reply(self, request: ModelRequest) -> Reply:
        """Take the next step. Cancelled: the step is used up."""
        self.requests.append(request)
        step = self._steps.pop(0) if self._steps else self._otherwise
        match step:
            case None:
                raise ModelError("the script is over", status=Status.ERROR)
            case BaseException():
                raise step
            case Reply() | str():
                given: Reply | str = step
            case _:
                made = step(request)
                given = made if isinstance(made, Reply | str) else await made
        return answer(given) if isinstance(given, str) else given

    async def close(self) -> None:
        """Note that it was closed. Idempotent."""
        self.closed = True

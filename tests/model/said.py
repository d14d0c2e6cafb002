"""Say what a server says, in few words: replies, calls, chunks, and the tools of the cases."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.model.puredriver import Conversation, offer
from worker.core.messages import Reply
from worker.model.deltas import ReplyAssembler
from worker.model.normalise import NormaliseLimits, normalise
from worker.model.port import OfferedTool


def spec(name: str, required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    """Describe a tool by its properties; nothing else is allowed in its arguments."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


ADD = spec("add", ("a", "b"), a={"type": "integer"}, b={"type": "integer"})
PRICE = spec("get_stock_price", ("symbol",), symbol={"type": "string", "minLength": 1})
CLOCK = spec("get_current_time")
ORDER = spec(
    "get_order_detail",
    ("order_id", "region"),
    order_id={"type": "string", "minLength": 12, "maxLength": 20},
    region={"type": "string", "enum": ["CN", "US", "EU"]},
)
SPECS = [ADD, PRICE, CLOCK, ORDER]
RESULTS = {
    "add": {"$sum": ["a", "b"]},
    "get_stock_price": "12.50",
    "get_current_time": "12:00",
    "get_order_detail": "shipped",
}
TOOLS = offer(*SPECS)


def ids() -> Callable[[], str]:
    """Count ids up: new000001, new000002, …"""
    numbers = itertools.count(1)
    return lambda: f"new{next(numbers):06d}"


def call(
    name: Any, arguments: Any = "{}", call_id: Any = "call_1", **fields: Any
) -> dict[str, Any]:
    """Write one entry of tool_calls; an id of None leaves the key out."""
    entry = {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}
    return entry if call_id is None else {**entry, "id": call_id}


def body(
    content: Any = None, *, calls: Any = None, finish: Any = "stop", **fields: Any
) -> dict[str, Any]:
    """Write a whole reply with one choice."""
    message = {"role": "assistant", "content": content, **fields}
    if calls is not None:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "chatcmpl-x", "model": "mock", "choices": [choice], "usage": None}


def read(raw: Any, tools: Sequence[OfferedTool] = TOOLS, **limits: Any) -> Reply:
    """Normalise a reply against the tools of the cases."""
    return normalise(raw, tools, new_id=ids(), limits=NormaliseLimits(**limits))


def arguments_of(arguments: Any, *, tool: str = "add", finish: str = "tool_calls") -> Reply:
    """Normalise a reply that calls one tool with these raw arguments."""
    return read(body(calls=[call(tool, arguments)], finish=finish))


def problem_of(reply: Reply) -> dict[str, Any]:
    """Return the structured problem of the only call, as the model gets it."""
    (only,) = reply.calls
    assert only.problem is not None
    assert only.arguments is None
    error: dict[str, Any] = json.loads(only.problem)["error"]
    return error


def chunk(finish: Any = None, **delta: Any) -> dict[str, Any]:
    """Write one chunk of a stream."""
    return {"id": "s", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def streamed(*chunks: dict[str, Any], done: bool = True) -> dict[str, Any]:
    """Assemble chunks into a raw reply."""
    assembler = ReplyAssembler()
    for part in chunks:
        assembler.feed(json.dumps(part))
    if done:
        assembler.feed("[DONE]")
    return assembler.finish()


def played(*responses: Any, mode: str = "nonstream", **context: Any) -> tuple[Any, Conversation]:
    """Play replies (bodies, or whole responses) as a conversation; return outcome and it."""
    scripted = [
        response if "status" in response else {"status": 200, "body": response}
        for response in responses
    ]
    conversation = Conversation(
        {
            "request_context": {
                "mode": mode,
                "user": "Please help",
                "tools": SPECS,
                "tool_results": RESULTS,
                **context,
            },
            "responses": scripted,
        }
    )
    return conversation.play(), conversation

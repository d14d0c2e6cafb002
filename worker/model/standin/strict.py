"""Refuse every request that some real server refuses: what passes here passes anywhere.

Pairs, order and ids of messages, the form of tools and arguments, and the fields themselves. The
strictest known server is taken for each rule.
"""

from __future__ import annotations

import json
import re
from typing import Any

ROLES = frozenset({"system", "user", "assistant", "tool"})
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
ID_CHARS_MAX = 40
TOOLS_MAX = 128
FIELDS = frozenset(
    [
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "n",
        "stop",
        "seed",
        "user",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "response_format",
        "metadata",
        "store",
        "reasoning_effort",
        "service_tier",
    ]
)


class Objection(Exception):
    """The request is refused: the text, the field and a code, as servers give them."""

    def __init__(self, message: str, *, param: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


def checked(raw: bytes) -> dict[str, Any]:
    """Decode a request and return it; raises Objection for the first thing that is wrong."""
    try:
        body: Any = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Objection(f"the body is not JSON: {error}", param="", code="invalid_json") from None
    if not isinstance(body, dict):
        raise Objection("the body must be an object", param="")
    for name in body:
        _require(name in FIELDS, f"Unrecognized request argument supplied: {name}", name)
    _require(_is_text(body.get("model")), "model must be a non-empty string", "model")
    _check_messages(body.get("messages"))
    _check_tools(body)
    _check_numbers(body)
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _require(holds: object, message: str, param: str, code: str = "invalid_value") -> None:
    if not holds:
        raise Objection(message, param=param, code=code)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _check_messages(messages: Any) -> None:
    _require(isinstance(messages, list) and messages, "messages must not be empty", "messages")
    open_ids: list[str] = []
    before = ""
    for number, message in enumerate(messages):
        at = f"messages[{number}]"
        _require(isinstance(message, dict), f"{at} must be an object", at)
        role = message.get("role")
        _require(role in ROLES, f"{at}: unknown role {role!r}", f"{at}.role")
        if role == "tool":
            _check_result(message, at, open_ids)
        else:
            _require(
                not open_ids,
                "An assistant message with 'tool_calls' must be followed by tool messages"
                f" responding to each 'tool_call_id'; missing: {', '.join(open_ids)}",
                at,
            )
            _require(
                not (role == "user" and before == "tool"),
                "Unexpected role 'user' after role 'tool'",
                f"{at}.role",
                "invalid_request_message_order",
            )
            _check_spoken(message, at)
            open_ids = _check_calls(message, at)
        before = role
    _require(not open_ids, f"no tool message answers {', '.join(open_ids)}", "messages")
    _require(
        before in ("user", "tool"),
        f"Expected last role User or Tool but got {before}",
        "messages",
        "invalid_request_message_order",
    )


def _check_result(message: dict[str, Any], at: str, open_ids: list[str]) -> None:
    call_id = message.get("tool_call_id")
    _require(
        bool(open_ids),
        f"{at}: a message with role 'tool' must follow a message with 'tool_calls'",
        at,
    )
    _require(
        call_id == open_ids[0],
        f"{at}: tool_call_id {call_id!r} is not {open_ids[0]!r}, the next call to answer",
        f"{at}.tool_call_id",
    )
    open_ids.pop(0)
    _require(_is_said(message.get("content")), f"{at}: content is empty", f"{at}.content")


def _check_spoken(message: dict[str, Any], at: str) -> None:
    content = message.get("content")
    if message["role"] != "assistant":
        _require(_is_said(content), f"{at}: content must be a non-empty text", f"{at}.content")
        return
    _require("content" in message, f"{at}: content is missing", f"{at}.content")
    if content is None:
        wants = "content may be null only beside tool_calls"
        _require("tool_calls" in message, f"{at}: {wants}", f"{at}.content")
    elif isinstance(content, str):
        blank = content != "" and not content.strip()
        _require(not blank, f"{at}: content is only white space", f"{at}.content")
    else:
        _require(isinstance(content, list), f"{at}: content must be text", f"{at}.content")


def _is_said(content: Any) -> bool:
    if isinstance(content, list):
        return bool(content) and all(
            isinstance(part, dict) and part.get("type") == "text" and _is_text(part.get("text"))
            for part in content
        )
    return isinstance(content, str) and bool(content.strip())


def _check_calls(message: dict[str, Any], at: str) -> list[str]:
    if "tool_calls" not in message:
        return []
    calls = message["tool_calls"]
    at = f"{at}.tool_calls"
    _require(message["role"] == "assistant", f"{at}: only an assistant calls tools", at)
    _require(
        isinstance(calls, list) and calls,
        f"Invalid '{at}': empty array. Expected an array with minimum length 1",
        at,
        "empty_array",
    )
    ids: list[str] = []
    for number, call in enumerate(calls):
        _check_call(call, f"{at}[{number}]")
        _require(call["id"] not in ids, f"{at}[{number}]: the id is not unique", f"{at}[{number}]")
        ids.append(call["id"])
    return ids


def _check_call(call: Any, at: str) -> None:
    _require(isinstance(call, dict), f"{at} must be an object", at)
    call_id = call.get("id")
    _require(_is_text(call_id), f"{at}: id must be a non-empty string", f"{at}.id")
    _require(
        len(call_id) <= ID_CHARS_MAX,
        f"Invalid '{at}.id': string too long. Expected a string with maximum length 40",
        f"{at}.id",
        "string_above_max_length",
    )
    _require(call.get("type") == "function", f"{at}: type must be 'function'", f"{at}.type")
    function = call.get("function")
    _require(isinstance(function, dict), f"{at}: function is missing", f"{at}.function")
    name = function.get("name")
    named = isinstance(name, str) and NAME.match(name)
    _require(named, f"{at}: {name!r} is no function name", f"{at}.function.name")
    arguments = function.get("arguments")
    at = f"{at}.function.arguments"
    _require(isinstance(arguments, str), f"{at} must be a string", at)
    try:
        value = json.loads(arguments, parse_constant=_no_constant)
    except ValueError:
        value = None
    _require(isinstance(value, dict), f"Failed to parse {at} as a JSON object", at)


def _check_tools(body: dict[str, Any]) -> None:
    if "tools" not in body:
        for name in ("tool_choice", "parallel_tool_calls"):
            _require(name not in body, f"{name} is only allowed with tools", name)
        return
    tools = body["tools"]
    _require(isinstance(tools, list) and tools, "[] is too short - 'tools'", "tools")
    _require(len(tools) <= TOOLS_MAX, f"at most {TOOLS_MAX} tools", "tools")
    names: set[str] = set()
    for number, tool in enumerate(tools):
        names.add(_check_tool(tool, f"tools[{number}]", names))
    _check_choice(body.get("tool_choice", "auto"), names)
    parallel = body.get("parallel_tool_calls", True)
    _require(isinstance(parallel, bool), "parallel_tool_calls: no boolean", "parallel_tool_calls")


def _check_tool(tool: Any, at: str, taken: set[str]) -> str:
    _require(isinstance(tool, dict) and tool.get("type") == "function", f"{at}: no function", at)
    function = tool.get("function")
    _require(isinstance(function, dict), f"{at}: function is missing", f"{at}.function")
    name = function.get("name")
    named = isinstance(name, str) and NAME.match(name)
    _require(named, f"Invalid '{at}.function.name': {name!r}", f"{at}.function.name")
    _require(name not in taken, f"{at}: the name {name} is taken", f"{at}.function.name")
    described = function.get("description", "")
    _require(isinstance(described, str), f"{at}: description is no text", f"{at}.function")
    schema = function.get("parameters", {"type": "object", "properties": {}})
    good = isinstance(schema, dict) and schema.get("type") == "object"
    good = good and isinstance(schema.get("properties"), dict)
    _require(
        good,
        f"Invalid schema for function '{name}': it must be an object with properties",
        f"{at}.function.parameters",
        "invalid_function_parameters",
    )
    return str(name)


def _check_choice(choice: Any, names: set[str]) -> None:
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        _require(name in names, f"tool_choice names {name!r}, which is not offered", "tool_choice")
    else:
        known = choice in ("none", "auto", "required")
        _require(known, f"tool_choice cannot be {choice!r}", "tool_choice")


def _check_numbers(body: dict[str, Any]) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        value = body.get(name, 1)
        good = isinstance(value, int) and not isinstance(value, bool) and value > 0
        _require(good, f"{name} must be a positive integer", name)
    _require(isinstance(body.get("stream", False), bool), "stream must be a boolean", "stream")
    if "stream_options" in body:
        _require(
            body.get("stream") is True,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
        options = body["stream_options"]
        _require(isinstance(options, dict), "stream_options must be an object", "stream_options")

"""The JSON of a request, and nothing about its reply.

A conversation is sent again with every step, so each message is encoded once and joined as bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from worker.core.errors import ConfigError
from worker.core.messages import MINTED_BY, Message
from worker.model.arguments import BadArguments, read_arguments
from worker.model.foreign import portable, portable_id, with_origin, with_short_ids
from worker.model.jsontext import encode, scrub
from worker.model.port import ModelRequest, OfferedTool
from worker.model.quirks import Quirk, Quirks

__all__ = ["encode_message", "portable_id", "request_body", "scrub", "wire_names"]

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME = 64
_MAX_CACHED_LISTS = 64
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_RESERVED = frozenset({"model", "messages", "tools", "tool_choice", "stream"})


def request_body(
    request: ModelRequest,
    *,
    model: str,
    stream: bool,
    quirks: Quirks,
    max_output_tokens: int | None = None,
    parallel_tool_calls: bool | None = None,
    extra: Mapping[str, Any] | None = None,
    endpoint: str = "",
) -> bytes:
    """Write the body of one request: UTF-8 JSON, the same bytes for the same history.

    `extra` are further fields of the endpoint's settings; those of the request go before them.
    `endpoint` is who reads it: what another one made is put into the portable form (`foreign.py`).
    Raises ValueError when a field has no JSON form.
    """
    fields: dict[str, Any] = {**(extra or {}), **request.extra}
    for name in _RESERVED:
        fields.pop(name, None)
    fields["model"] = model
    if max_output_tokens is not None:
        renamed = quirks.has(Quirk.MAX_COMPLETION_TOKENS)
        fields["max_completion_tokens" if renamed else "max_tokens"] = max_output_tokens
    if quirks.streams(stream):
        fields["stream"] = True
        fields.setdefault("stream_options", {"include_usage": True})
    closing = not request.allow_calls
    with_tools = bool(request.tools) and not (closing and quirks.has(Quirk.NO_TOOL_CHOICE))
    if not with_tools:
        fields.pop("parallel_tool_calls", None)
    elif parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = parallel_tool_calls
    if with_tools and closing:
        fields["tool_choice"] = "none"
    fields = {name: value for name, value in fields.items() if not quirks.without(name)}
    messages = b",".join(
        [
            encode_message(message, quirks, foreign=foreign)
            for message, foreign in with_origin(request.messages, endpoint)
        ]
    )
    parts = [encode(fields)[:-1], b',"messages":[', messages, b"]"]
    if with_tools:
        parts += (b',"tools":', _encode_tools(request.tools, quirks.has(Quirk.BARE_TOOLS)))
    parts.append(b"}")
    return b"".join(parts)


def encode_message(message: Message, quirks: Quirks, *, foreign: bool = False) -> bytes:
    """Encode one message; at once from its cache when no quirk of this endpoint touches it."""
    if foreign:
        return _encode_foreign(message, quirks)
    body = message.body
    encoded = message.encoded
    if encoded is None:
        encoded = message.encoded = encode(_presentable(body))
    changed = _for_endpoint(body, quirks)
    return encoded if changed is body else encode(_presentable(changed))


def _encode_foreign(message: Message, quirks: Quirks) -> bytes:
    """Encode what another endpoint made; once, while the reader and its quirks stay the same."""
    reader = (quirks, quirks.revision)
    adapted = message.adapted
    if adapted is None or adapted[0] != reader:
        body = _for_endpoint(portable(message.body, quirks), quirks)
        adapted = message.adapted = (reader, encode(_presentable(body)))
    return adapted[1]


def _for_endpoint(body: dict[str, Any], quirks: Quirks) -> dict[str, Any]:
    """Apply the quirks that are about messages; the very same body when none of them does."""
    if body.get("role") == "assistant" and _is_blank(body.get("content")):
        if quirks.has(Quirk.EMPTY_CONTENT_AS_TEXT):
            body = {**body, "content": ""}
        elif quirks.has(Quirk.EMPTY_CONTENT_AS_NULL) and body.get("tool_calls"):
            body = {**body, "content": None}
    return with_short_ids(body) if quirks.has(Quirk.SHORT_IDS) else body


def _is_blank(content: Any) -> bool:
    return content is None or (isinstance(content, str) and not content.strip())


def _presentable(body: dict[str, Any]) -> dict[str, Any]:
    """Mend what strict servers refuse in an assistant message, wherever the message came from."""
    if body.get("role") != "assistant":
        return body
    changed = dict(body)
    changed.pop(MINTED_BY, None)
    content = body.get("content")
    calls = body.get("tool_calls")
    if isinstance(content, str) and content and not content.strip():
        changed["content"] = None if calls else ""  # white space alone is refused as text
    if not calls:
        changed.pop("tool_calls", None)  # an empty list is refused
        return changed
    changed.setdefault("content", None)
    changed["tool_calls"] = [_presentable_call(call) for call in calls]
    return changed


def _presentable_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    given = function.get("arguments")
    try:
        text = read_arguments(given, max_bytes=2**31).text
    except BadArguments:
        text = "{}"
    return call if text == given else {**call, "function": {**function, "arguments": text}}


# Encoded tool lists. A list is offered again with every step of every run, and there are few; an
# entry holds its tools, so that their identities, which are the key, stay theirs.
_encoded_tools: OrderedDict[tuple[Any, ...], tuple[tuple[OfferedTool, ...], bytes]] = OrderedDict()


def _encode_tools(tools: Sequence[OfferedTool], bare: bool) -> bytes:
    key = (bare, *map(id, tools))
    found = _encoded_tools.get(key)
    if found is None:
        found = (tuple(tools), encode([_tool(tool, bare) for tool in tools]))
        _encoded_tools[key] = found
        if len(_encoded_tools) > _MAX_CACHED_LISTS:
            _encoded_tools.popitem(last=False)
    return found[1]


def _tool(tool: OfferedTool, bare: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.wire_name}
    if tool.description:
        function["description"] = tool.description
    parameters = tool.parameters or _NO_PARAMETERS
    if parameters.get("type") == "object" and "properties" not in parameters:
        parameters = {**parameters, "properties": {}}
    if not (bare and not parameters.get("properties")):
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Give every registered tool name a name that is legal on the wire: [a-zA-Z0-9_-]{1,64}.

    Raises ConfigError when a name is empty, registered twice, or two names become the same.
    """
    taken: dict[str, str] = {}
    wire: dict[str, str] = {}
    for name in names:
        legal = _legal(name)
        if legal in taken:
            raise ConfigError(
                f"tool {name!r}: its name on the wire, {legal!r}, is taken by tool"
                f" {taken[legal]!r}; rename one of them (a-z, A-Z, 0-9, _ and - are kept)"
            )
        taken[legal] = name
        wire[name] = legal
    return wire


def _legal(name: str) -> str:
    if not name:
        raise ConfigError("a tool has an empty name; give it one of 1 to 64 characters")
    legal = _ILLEGAL.sub("_", name)
    mark = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    if not legal.strip("_-"):  # nothing of it can be written, as with a Chinese name
        return f"tool_{mark}"
    return legal if len(legal) <= _MAX_NAME else f"{legal[: _MAX_NAME - 9]}_{mark}"

"""Tool calls written as tags in the text of a reply.

Three families: `<tool_call>` around JSON, XML or key and value pairs; `<function=…>` with
parameters; `<invoke name="…">` with parameters, under the names of several vendors. Each reader
takes the text from the first tag on and returns every call of it, or None when anything else is
mixed in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from worker.model.jsontext import NotStrict, read_first, read_strictly


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call found in text; `whole` tells that it was written to its end."""

    name: str
    arguments: Any
    call_id: str | None = None
    whole: bool = True


_DSML = re.compile(r"<(/?)[|｜]{1,2}DSML[|｜]{1,2}")
_WRAPPERS = re.compile(
    r"\s*</?(?:tool_calls|function_calls|minimax:tool_call|antml:function_calls|tool_call)>"
)
_INVOKE = re.compile(r"\s*<(?:antml:)?invoke\s+name=[\"']?([^\"'<>]+)[\"']?\s*>")
_NAMED = re.compile(
    r"\s*<(?:antml:)?parameter\s+name=[\"']?([^\"'<>]+?)[\"']?"
    r"(?:\s+string=[\"']?(true|false)[\"']?)?\s*>"
)
_FUNCTION = re.compile(r"\s*<function=[\"']?([^\"'<>]+?)[\"']?\s*>")
_PARAMETER = re.compile(r"\s*<parameter=[\"']?([^\"'<>]+?)[\"']?\s*>")
_NAME_KEY = re.compile(r'"name"\s*:\s*"([^"\\]{1,200})"')
_PLAIN_NAME = re.compile(r"[\w.:-]{1,200}\Z")


def tool_call_tags(text: str) -> list[TextCall] | None:
    """Read `<tool_call>…</tool_call>` blocks, whatever dialect is inside."""
    calls: list[TextCall] = []
    at = 0
    while at < len(text):
        if not text.startswith("<tool_call>", at):
            return None
        start = at + len("<tool_call>")
        end, at = _block_end(text, start, "</tool_call>")
        found = _inside_tool_call(text[start:end].strip(), closed=at > end)
        if found is None:
            return None
        calls += found
        at = _skip_space(text, at)
    return calls


def _block_end(text: str, start: int, tag: str) -> tuple[int, int]:
    """Return where a block's content ends and where to go on; JSON may quote the closing tag."""
    try:
        after = read_first(text, start)[1]
    except (ValueError, NotStrict, RecursionError):
        after = start
    end = text.find(tag, after)
    return (len(text), len(text)) if end < 0 else (end, end + len(tag))


def _inside_tool_call(inner: str, *, closed: bool) -> list[TextCall] | None:
    if inner.startswith(("{", "[")):
        return json_calls(inner) or _broken_json(inner, closed)
    if inner.startswith("<function="):
        return function_tags(inner)
    if inner.startswith(("<invoke", "<|DSML", "<｜DSML")):
        return invoke_tags(inner)
    name, found, pairs = inner.partition("<arg_key>")
    if not _PLAIN_NAME.match(name.strip()):
        return None
    arguments = _key_value_pairs(found + pairs)
    return None if arguments is None else [TextCall(name.strip(), arguments, whole=closed)]


def _broken_json(inner: str, closed: bool) -> list[TextCall] | None:
    # Only so that the model can be told: what cannot be read is never run.
    name = _NAME_KEY.search(inner)
    return [TextCall(name.group(1), inner, whole=closed)] if name else None


def _key_value_pairs(text: str) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    at = 0
    while at < len(text):
        if not text.startswith("<arg_key>", at):
            return None
        key_end = text.find("</arg_key>", at)
        value = text.find("<arg_value>", key_end)
        value_end = text.find("</arg_value>", value)
        if min(key_end, value, value_end) < 0 or text[key_end + 10 : value].strip():
            return None
        found[text[at + 9 : key_end].strip()] = text[value + 11 : value_end]
        at = _skip_space(text, value_end + 12)
    return found


def json_calls(text: str) -> list[TextCall] | None:
    """Read calls as JSON: one object, a list of them, or several objects in a row."""
    calls: list[TextCall] = []
    at = 0
    while at < len(text):
        try:
            value, at = read_first(text, at)
        except (ValueError, NotStrict, RecursionError):
            return None
        for item in value if isinstance(value, list) else [value]:
            call = _json_call(item)
            if call is None:
                return None
            calls.append(call)
        while at < len(text) and text[at] in " \t\r\n;,":
            at += 1
    return calls or None


def _json_call(item: Any) -> TextCall | None:
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("function"), dict):
        item = {**item["function"], "id": item.get("id")}
    name = item.get("name")
    keys = [key for key in ("arguments", "parameters") if key in item]
    if not isinstance(name, str) or len(keys) != 1 or set(item) - _CALL_KEYS:
        return None
    call_id = item.get("id")
    return TextCall(name, item[keys[0]], call_id if isinstance(call_id, str) else None)


_CALL_KEYS = {"name", "arguments", "parameters", "id", "type"}


def function_tags(text: str) -> list[TextCall] | None:
    """Read `<function=f>` blocks that hold parameters or one JSON object."""
    return _blocks(text, _FUNCTION, "</function>", _PARAMETER)


def invoke_tags(text: str) -> list[TextCall] | None:
    """Read `<invoke name="f">` blocks: DeepSeek's DSML in all its bars, MiniMax, and kin."""
    return _blocks(_DSML.sub(r"<\1", text), _INVOKE, "</invoke>", _NAMED)


def _blocks(
    text: str, opening: re.Pattern[str], closing: str, parameter: re.Pattern[str]
) -> list[TextCall] | None:
    """Read blocks of parameters or of one JSON object, wrappers between them left out."""
    calls: list[TextCall] = []
    at = 0
    while at < len(text):
        opened = opening.match(text, at)
        if opened is None:
            wrapper = _WRAPPERS.match(text, at)
            if wrapper is None:
                return None
            at = _skip_space(text, wrapper.end())
            continue
        start = opened.end()
        end, at = _block_end(text, start, closing)
        body = text[start:end].strip()
        arguments: Any = body if body.startswith("{") else _parameters(body, parameter)
        if arguments is None:
            return None
        calls.append(TextCall(opened.group(1).strip(), arguments, whole=at > end))
        at = _skip_space(text, at)
    return calls


def _parameters(text: str, opening: re.Pattern[str]) -> dict[str, Any] | None:
    """Read parameter tags; a missing closing tag ends at the next parameter."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(text):
        opened = opening.match(text, at)
        if opened is None:
            return None
        following = opening.search(text, opened.end())
        limit = following.start() if following else len(text)
        end = text.find("</parameter>", opened.end(), limit)
        value = text[opened.end() : limit if end < 0 else end]
        name = opened.group(1).strip()
        if name in found:
            return None
        found[name] = _value(value, opened)
        at = _skip_space(text, limit if end < 0 else end + len("</parameter>"))
    return found


def _value(text: str, opened: re.Match[str]) -> Any:
    # One newline on either side belongs to the markup, further ones to the value.
    text = text.removeprefix("\n").removesuffix("\n")
    if opened.re is _NAMED and opened.group(2) == "false":
        try:
            return read_strictly(text.strip())
        except (ValueError, NotStrict, RecursionError):
            return text
    return text


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at

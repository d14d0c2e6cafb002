"""From the result of a server to a value that a model can read; the rest is as for any tool.

A model is sent text. What is no text is named, with its kind and its size, so that nobody wonders
where the picture is. Links are never followed: their addresses come from a stranger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from worker.core.errors import ToolError

BLOCKS_MAX = 500
NAME_CHARS_MAX = 300
ASKS_BACK = "the tool wants to ask somebody something first, which is not possible here"


def value_of(result: Any) -> Any:
    """Return text, or JSON where the result holds nothing else.

    Raises ToolError for what the tool itself calls an error, and when it asks for more input.
    """
    if not hasattr(result, "content"):
        raise ToolError(ASKS_BACK)
    texts = list(_texts(result.content))
    text = "\n\n".join(texts)
    if result.is_error:
        raise ToolError(text.strip() or "the tool reports an error without a word about it")
    structured = result.structured_content
    if structured is None or _says_the_same(texts, structured):
        return text
    if not text.strip():
        return structured
    return f"{text}\n\n{json.dumps(structured, ensure_ascii=False)}"


def _texts(blocks: list[Any]) -> Iterator[str]:
    for block in blocks[:BLOCKS_MAX]:
        yield _text(block)
    if len(blocks) > BLOCKS_MAX:
        yield f"[{len(blocks) - BLOCKS_MAX} more parts, left out]"


def _text(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type} {_short(block.mime_type)}, {_bytes_of(block.data)}: not shown]"
        case "resource_link":
            about = f": {_short(block.description)}" if block.description else ""
            return f"[link {_short(block.name)} {_short(block.uri)}{about}]"
        case "resource":
            return _resource(block.resource)
    return f"[{_short(block.type)}: not shown]"


def _resource(resource: Any) -> str:
    uri = _short(resource.uri)
    if hasattr(resource, "text"):
        return f"[{uri}]\n{resource.text}"
    return f"[{uri} {_short(resource.mime_type or 'data')}, {_bytes_of(resource.blob)}: not shown]"


def _bytes_of(base64: str) -> str:
    return f"{len(base64) * 3 // 4} bytes"


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= NAME_CHARS_MAX else text[: NAME_CHARS_MAX - 1] + "…"


def _says_the_same(texts: list[str], structured: Any) -> bool:
    """Servers repeat structured content as text, whole, or each item of a wrapped list by itself."""
    inner = structured
    if isinstance(structured, dict) and list(structured) == ["result"]:
        inner = structured["result"]
    if isinstance(inner, str):
        return texts == [inner]
    if len(texts) == 1:
        read = _read(texts[0])
        return read is not None and read in (structured, inner)
    is_list = isinstance(inner, list) and len(inner) == len(texts)
    return is_list and all(
        item in (text, _read(text)) for item, text in zip(inner, texts, strict=True)
    )


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

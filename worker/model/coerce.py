"""Turn values into the type that a schema asks for, where nothing is lost by it.

Models write "5" for 5, 5.0 for 5 and objects as text; leaked markup has only text. A value is
changed only when its own type is not allowed and exactly the same value exists in an allowed one.
Everything else stays as it is for the validator to judge: true is not 1, "abc" is no number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from worker.model.jsontext import (
    INT_MAX,
    INT_MIN,
    NotStrict,
    depth_exceeds,
    read_strictly,
    scrub,
)

_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,19})(?:\.0{1,20})?\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,40})(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?\Z")
_MAX_DEPTH = 32
_MAX_EXACT = 2**53  # beyond it a float no longer says which integer was meant
_ALL = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})

Schema = Mapping[str, Any]


def coerce(value: Any, schema: Schema) -> Any:
    """Return the value with every lossless change that the schema asks for.

    The very same object comes back when nothing had to change.
    """
    return _coerce(value, schema, schema, 0)


def _coerce(value: Any, schema: Any, root: Schema, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return value
    if "$ref" in schema:
        schema = _resolve(schema, root)
    kind = _kind(value)
    allowed = _allowed(schema, root, 0)
    if kind not in allowed and not (kind == "integer" and "number" in allowed):
        value = _converted(value, kind, allowed)
        kind = _kind(value)
    if kind == "object":
        return _coerce_object(value, schema, root, depth)
    if kind == "array":
        return _coerce_array(value, schema, root, depth)
    return value


def _coerce_object(value: Any, schema: Schema, root: Schema, depth: int) -> Any:
    schema = _branch(schema, root, "properties")
    properties = schema.get("properties")
    others = schema.get("additionalProperties")
    changed: dict[str, Any] | None = None
    for key, item in value.items():
        part = properties.get(key, others) if isinstance(properties, Mapping) else others
        if part is None or part is True or part is False:
            continue
        better = _coerce(item, part, root, depth + 1)
        if better is not item:
            changed = changed if changed is not None else dict(value)
            changed[key] = better
    return value if changed is None else changed


def _coerce_array(value: list[Any], schema: Schema, root: Schema, depth: int) -> Any:
    schema = _branch(schema, root, "items")
    leading = schema.get("prefixItems")
    leading = leading if isinstance(leading, list) else []
    rest = schema.get("items")
    items = [
        _coerce(item, leading[at] if at < len(leading) else rest, root, depth + 1)
        for at, item in enumerate(value)
    ]
    return items if any(new is not old for new, old in zip(items, value, strict=True)) else value


def _branch(schema: Schema, root: Schema, keyword: str) -> Schema:
    """Find the one subschema that describes the parts; none when several could."""
    if keyword in schema:
        return schema
    found = [part for part in _parts(schema, root) if keyword in part]
    return found[0] if len(found) == 1 else schema


def _parts(schema: Schema, root: Schema) -> list[Schema]:
    parts: list[Schema] = []
    for keyword in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(keyword) or ():
            if isinstance(part, Mapping):
                parts.append(_resolve(part, root))
    return parts


def _resolve(schema: Schema, root: Schema) -> Schema:
    for _ in range(8):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        target: Any = root
        for step in reference[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping):
            return schema
        schema = target
    return schema


def _allowed(schema: Schema, root: Schema, depth: int) -> frozenset[str] | set[str]:
    named = schema.get("type")
    if isinstance(named, str):
        return {named}
    if isinstance(named, list):
        return {name for name in named if isinstance(name, str)}
    if isinstance(schema.get("enum"), list):
        return {_kind(value) for value in schema["enum"]}
    if "const" in schema:
        return {_kind(schema["const"])}
    if depth > 4:
        return _ALL
    for keyword in ("anyOf", "oneOf"):
        parts = schema.get(keyword)
        if isinstance(parts, list) and parts:
            return {
                name
                for part in parts
                if isinstance(part, Mapping)
                for name in _allowed(_resolve(part, root), root, depth + 1)
            }
    found: set[str] | frozenset[str] = _ALL
    for part in schema.get("allOf") or ():
        if isinstance(part, Mapping):
            found = found & _allowed(_resolve(part, root), root, depth + 1)
    return found


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if value is None:
        return "null"
    return "object" if isinstance(value, dict) else "array"


def _converted(value: Any, kind: str, allowed: frozenset[str] | set[str]) -> Any:
    if kind == "string":
        return _from_text(value, allowed)
    if kind == "number" and "integer" in allowed:
        return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else value
    if kind == "integer" and "string" in allowed:
        return str(value)  # an order number written without its quotes
    return value


def _from_text(value: str, allowed: frozenset[str] | set[str]) -> Any:
    text = value.strip()
    if "integer" in allowed and _INTEGER.match(text):
        number = int(text.partition(".")[0])
        return number if INT_MIN <= number <= INT_MAX else value
    if "number" in allowed and _NUMBER.match(text):
        return _strictly(text, value, int | float)
    if "boolean" in allowed and text in ("true", "True", "false", "False"):
        return text in ("true", "True")
    if "null" in allowed and text in ("null", "None"):
        return None
    if "object" in allowed and text.startswith("{"):
        return _strictly(text, value, dict)
    if "array" in allowed and text.startswith("["):
        return _strictly(text, value, list)
    return value


def _strictly(text: str, otherwise: str, wanted: Any) -> Any:
    try:
        found = read_strictly(text)
    except (NotStrict, ValueError, RecursionError):
        return otherwise
    if not isinstance(found, wanted) or depth_exceeds(found, _MAX_DEPTH):
        return otherwise
    return scrub(found)

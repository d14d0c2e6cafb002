"""Is the schema of a stranger's tool safe to compile, to check arguments with, and to pass on?

Pure. Refused is what reaches outside (`$ref` to an address), what has no end (a schema that refers
to itself at the same place, or to itself twice at the next), what costs far more than it is long
(references that double, patterns that backtrack), what is larger or deeper than any parameters
need, and what is no object at the top.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from worker.mcp.ambiguity import danger_in
from worker.mcp.schemawork import work_of

BYTES_MAX = 65_536
DEPTH_MAX = 48
NODES_MAX = 5_000
NAME_CHARS_MAX = 64  # of a parameter; servers of models refuse longer ones
PATTERNS_MAX = 20
WORK_MAX = 2_000  # schemas that one value may be held against, over all its levels

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NO_SCHEMAS = frozenset({"enum", "const", "default", "examples", "example", "required", "type"})
_DIALECTS = ("http://json-schema.org/", "https://json-schema.org/")


class Refused(Exception):
    """The schema is not taken; the text says why, in a way that follows "its schema"."""


def checked(schema: Any) -> dict[str, Any]:
    """Return the schema, with `type: object` where that was left out. Raises Refused."""
    if not isinstance(schema, dict):
        raise Refused("is no object")
    if schema.get("type", "object") != "object":
        raise Refused(f"describes {str(schema['type'])[:40]!r}, not an object of parameters")
    _measure(schema)
    dialect = schema.get("$schema")
    if dialect is not None and not str(dialect).startswith(_DIALECTS):
        raise Refused(f"is written in the dialect {str(dialect)[:80]!r}, which nobody here knows")
    nodes = list(_nodes(schema))
    if len(nodes) > NODES_MAX:
        raise Refused(f"has more than {NODES_MAX} parts")
    for node in nodes:
        _check_node(node, is_root=node is schema)
    _check_patterns(nodes)
    _check_work(schema, nodes)
    return schema if "type" in schema else {"type": "object", **schema}


def _measure(schema: dict[str, Any]) -> None:
    """Bound depth first: the encoder of the standard library is recursive."""
    level: list[Any] = [schema]
    for _ in range(DEPTH_MAX):
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, (dict, list))
        ]
        if not level:
            break
    else:
        raise Refused(f"is nested deeper than {DEPTH_MAX} levels")
    try:
        size = len(json.dumps(schema, ensure_ascii=False).encode())
    except (ValueError, TypeError):
        raise Refused("is not JSON") from None
    if size > BYTES_MAX:
        raise Refused(f"has {size} bytes; {BYTES_MAX} are the limit")


def _nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every object that may be a schema; what stands for a value is none."""
    stack: list[Any] = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack += [child for child in value if isinstance(child, (dict, list))]
            continue
        yield value
        for key, child in value.items():
            if key in _NO_SCHEMAS and not _is_schema_like(child):
                continue
            if isinstance(child, (dict, list)):
                stack.append(child)


def _is_schema_like(value: Any) -> bool:
    """A parameter may be called `default`; then what follows describes it."""
    return isinstance(value, dict) and any(
        key in value for key in ("type", "properties", "anyOf", "$ref", "enum")
    )


def _check_node(node: dict[str, Any], *, is_root: bool) -> None:
    for keyword in _REFERENCES:
        reference = node.get(keyword)
        if isinstance(reference, str) and not reference.startswith("#"):
            raise Refused(f"refers to {reference[:120]!r}, outside itself")
    if not is_root and isinstance(node.get("$id"), str):
        raise Refused("has an $id inside, which changes what '#' refers to")
    properties = node.get("properties")
    if isinstance(properties, dict):
        for name in properties:
            if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable():
                raise Refused(f"has a parameter called {name[:40]!r}")


def _check_patterns(nodes: list[dict[str, Any]]) -> None:
    patterns = [node["pattern"] for node in nodes if isinstance(node.get("pattern"), str)]
    for node in nodes:
        named = node.get("patternProperties")
        patterns += list(named) if isinstance(named, dict) else []
    if len(patterns) > PATTERNS_MAX:
        raise Refused(f"has {len(patterns)} patterns; {PATTERNS_MAX} are the limit")
    for pattern in dict.fromkeys(patterns):
        danger = danger_in(pattern)
        if danger is not None:
            raise Refused(f"has the pattern {pattern[:80]!r}, which {danger}")


def _check_work(schema: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    targets: dict[int, list[dict[str, Any]]] = {}
    for node in nodes:
        for keyword in _REFERENCES:
            reference = node.get(keyword)
            if isinstance(reference, str):
                target = _resolved(schema, nodes, reference)
                if target is None:
                    raise Refused(f"refers to {reference[:120]!r}, where there is nothing")
                targets.setdefault(id(node), []).append(target)
    problem, work = work_of(schema, targets)
    if problem is not None:
        raise Refused(problem)
    if work > WORK_MAX:
        raise Refused("costs far more than it is long: its references multiply")


def _resolved(
    schema: dict[str, Any], nodes: list[dict[str, Any]], reference: str
) -> dict[str, Any] | None:
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        anchors = ("$anchor", "$dynamicAnchor")
        named = (n for n in nodes if pointer in [n.get(anchor) for anchor in anchors])
        return next(named, None)
    found: Any = schema
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isascii() and part.isdigit():
            found = found[int(part)] if int(part) < len(found) else None
        else:
            return None
    # True and False are schemas as well, and nothing follows from them.
    return found if isinstance(found, dict) else {} if isinstance(found, bool) else None

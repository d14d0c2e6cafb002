"""Schemas of strangers: what is refused before anything compiles it, and what is taken."""

from __future__ import annotations

import time
from typing import Any

import pytest

from worker.mcp.schema import Refused, checked

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]{8}$", "description": "An order."},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "default": {"type": "string", "enum": ["a", "b"], "default": "a"},
    },
    "required": ["id"],
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}
TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        }
    },
}


def nested(depth: int) -> dict[str, Any]:
    """A schema of objects within objects."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    """Small to write, and 2 to the power of its levels to check."""
    definitions: dict[str, Any] = {f"d{levels}": {"type": "string"}}
    for level in range(levels):
        both = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {"allOf": [both, dict(both)]}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@pytest.mark.parametrize("schema", [ORDER, TREE, {"type": "object"}, nested(10)])
def test_ordinary_schemas_are_taken_as_they_are(schema: dict[str, Any]):
    """References within, trees, and parameters with names of keywords are nothing to fear."""
    assert checked(schema) == schema


def test_a_schema_without_a_type_is_one_of_an_object():
    """Servers of models want it said."""
    assert checked({"properties": {}}) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ({"$ref": "http://127.0.0.1/x.json"}, "outside itself"),
        ({"$ref": "file:///etc/passwd"}, "outside itself"),
        ({"$ref": "other.json#/x"}, "outside itself"),
        ({"$dynamicRef": "https://example.com/x"}, "outside itself"),
        ({"$ref": "#/$defs/nowhere"}, "where there is nothing"),
        ({"$id": "http://example.com/", "type": "string"}, r"\$id inside"),
        ({"$ref": "#/properties/x"}, "without an end"),
        ({"type": "string", "pattern": "^(a+)+$"}, "exponential time"),
        ({"type": "object", "patternProperties": {"(x*)*": {}}}, "exponential time"),
        ({"type": "object", "properties": {"p" * 65: {}}}, "a parameter called"),
        ({"type": "object", "properties": {"a\u202eb": {}}}, "a parameter called"),
        ({"anyOf": [{"type": "string", "pattern": f"^{n}$"} for n in range(21)]}, "21 patterns"),
        ({"enum": ["x" * 70_000]}, "bytes"),
    ],
)
def test_dangerous_schemas_are_refused(inside: dict[str, Any], why: str):
    """What reaches outside, has no end, or costs far more than it is long."""
    with pytest.raises(Refused, match=why):
        checked({"type": "object", "properties": {"x": inside}})


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (nested(60), "deeper"),
        (doubling(20), "multiply"),
        ([], "no object"),
        ({"type": "string"}, "not an object"),
        ({"type": "object", "$schema": "urn:mine"}, "dialect"),
        ({"type": "object", "properties": {"x": {"enum": [1] * 6000}, "y": nested(47)}}, "deeper"),
        (
            {"type": "object", "properties": {"x": {"anyOf": [{"a": {}}] * 5001}}},
            "parts|bytes",
        ),
    ],
)
def test_schemas_of_a_wrong_form_are_refused(schema: Any, why: str):
    """Too deep, too large, or none at all."""
    with pytest.raises(Refused, match=why):
        checked(schema)


def test_a_tree_that_doubles_at_each_level_is_refused():
    """A value of thirty levels would cost a thousand million checks."""
    node = {"$ref": "#/$defs/node"}
    both = {"type": "object", "properties": {"x": {"allOf": [node, dict(node)]}}}
    with pytest.raises(Refused, match="each level would double"):
        checked({"type": "object", "properties": {"x": node}, "$defs": {"node": both}})


def test_refusing_is_quick_whatever_the_schema():
    """The doubling is seen without doing it."""
    began = time.process_time()
    for levels in (20, 40):
        with pytest.raises(Refused):
            checked(doubling(levels))
    assert time.process_time() - began < 1.0

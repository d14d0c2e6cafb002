"""Hold arguments against the schema that was sent, and say every violation as a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs

from worker.core.errors import ConfigError

Check = Callable[[Any], list[str]]

VIOLATIONS_MAX = 20  # a model corrects a handful; more would only fill its context
VALUE_CHARS_MAX = 80


def compile_check(schema: dict[str, Any], *, where: str) -> Check:
    """Compile a JSON schema once; the check returns no sentence when the arguments fit.

    Raises ConfigError, beginning with `where`, when the schema is no schema or points outside
    itself: a validator that fetches references would let a schema reach the network.
    """
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise ConfigError(
                f"{where}: $ref {reference!r} points outside the schema; use $defs and '#/$defs/…'"
            )
    validator = _compile(schema, where)
    is_valid = validator.is_valid

    def check(arguments: Any) -> list[str]:
        try:
            if is_valid(arguments):
                return []
            return _sentences(validator, arguments)
        except (ValueError, TypeError) as error:
            # Not JSON at all: NaN, a lone surrogate, or nested too deep to look at.
            return [f"arguments: not valid JSON ({error})"]

    return check


def _compile(schema: dict[str, Any], where: str) -> Any:
    try:
        # The linear engine first; patterns with look-around need the other, which counts its steps.
        options = jsonschema_rs.RegexOptions()
        return jsonschema_rs.validator_for(schema, pattern_options=options, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as first:
        try:
            return jsonschema_rs.validator_for(schema, offline=True)
        except (ValueError, jsonschema_rs.ReferencingError):
            raise ConfigError(f"{where}: not a valid JSON schema: {first}") from first


def _references(node: Any) -> Iterator[str]:
    """Walk the schema without recursion: a hostile one may be deep."""
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str):
                    yield value
                else:
                    stack.append(value)
        elif isinstance(node, list):
            stack.extend(node)


def _sentences(validator: Any, arguments: Any) -> list[str]:
    found: list[str] = []
    for error in validator.iter_errors(arguments):
        if len(found) == VIOLATIONS_MAX:
            found.append("… and more")
            break
        found.append(_sentence(error))
    return found or ["arguments: do not fit the schema"]


def _sentence(error: Any) -> str:
    kind = error.kind
    path = _path(error.instance_path)
    where = path or "arguments"
    match kind.name:
        case "required":
            return f"{_join(path, kind.property)}: required, but missing"
        case "additionalProperties" | "unevaluatedProperties":
            names = ", ".join(_join(path, name) for name in kind.unexpected)
            return f"{_shorten(names)}: unknown, no such parameter"
        case "enum":
            allowed = ", ".join(_show(option) for option in kind.options)
            return f"{where}: must be one of {allowed}, got {_show(error.instance)}"
        case "const":
            return f"{where}: must be {_show(kind.expected_value)}, got {_show(error.instance)}"
        case "type":
            return f"{where}: must be {' or '.join(kind.types)}, got {_show(error.instance)}"
        case "minLength" | "maxLength":
            word = "at least" if kind.name == "minLength" else "at most"
            have = len(error.instance)
            return f"{where}: must have {word} {kind.limit} characters, got {have}"
        case "anyOf" | "oneOf":
            return f"{where}: {_alternatives(kind)}got {_show(error.instance)}"
    return f"{where}: {_shorten(error.message)}"


def _alternatives(kind: Any) -> str:
    """Say what each branch wants, when the branches fail for a plain reason each."""
    if kind.name == "oneOf" or not hasattr(kind, "context"):
        return "fits none, or more than one, of the allowed forms, "
    wants: list[str] = []
    for branch in kind.context:
        for error in branch:
            want = _sentence(error).split(", got ")[0].partition(": ")[2]
            if want and want not in wants:
                wants.append(want)
    return f"{', or '.join(wants)}, " if wants else "fits none of the allowed forms, "


def _path(parts: Any) -> str:
    text = ""
    for part in parts:
        text = f"{text}[{part}]" if isinstance(part, int) else _join(text, part)
    return text


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _show(value: Any) -> str:
    """Show a plain value; a container may be huge, or deeper than the encoder can go."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return _shorten(json.dumps(value, ensure_ascii=False, default=str))


def _shorten(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"

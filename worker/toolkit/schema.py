"""From a typed function to the JSON schema a model fills in, and back to the function's arguments.

The schema is what goes over the wire; pydantic is used to write it and to build values that JSON
does not have (enum, datetime, models). It never judges plain values: `check` does, against the
schema itself, because pydantic would quietly turn True into 1.
"""

from __future__ import annotations

import copy
import functools
import inspect
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pydantic
from pydantic.fields import FieldInfo

from worker.core.errors import ConfigError
from worker.toolcontext import ToolContext
from worker.toolkit.docstring import parameter_docs

Convert = Callable[[dict[str, Any]], dict[str, Any]]

_PLAIN = {str, int, float, bool, type(None), Any, object}
# Metadata that the JSON schema shows in full; a Predicate, say, it does not.
_CONSTRAINTS = {"Ge", "Gt", "Interval", "Le", "Len", "Lt", "MaxLen", "MinLen", "MultipleOf"}


@dataclass(frozen=True, slots=True)
class Shape:
    """How a function is called: its schema, whether it takes `ctx`, and how values are built.

    `convert` is None when validated JSON can be passed as it is. `problems` tells, as sentences,
    why values that fit the schema still cannot be built (a date that does not exist).
    """

    parameters: dict[str, Any]
    wants_context: bool
    convert: Convert | None = None
    problems: Callable[[dict[str, Any]], list[str]] | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tool was written, for messages that a person can follow."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: tool {self.name!r}"


def shape_of(
    function: Callable[..., Any],
    *,
    place: Place,
    raw: Mapping[str, Any] | None = None,
    local_names: Mapping[str, Any] | None = None,
) -> Shape:
    """Read a function's signature. Raises ConfigError that names file, line and parameter."""
    signature = _signature(function, place)
    hints = _hints(function, signature, place, local_names or {})
    parameters = list(signature.parameters.values())
    wants_context = bool(parameters) and _is_context(parameters[0], hints)
    parameters = parameters[1:] if wants_context else parameters
    for parameter in parameters:
        _refuse_odd_kind(parameter, place, raw=raw is not None)
        if hints.get(parameter.name) is ToolContext:
            raise ConfigError(
                f"{place}: {parameter.name} must be the first parameter, {parameter.name}: ToolContext"
            )
    if raw is not None:
        return Shape(_raw_schema(raw, parameters, place), wants_context)
    return _typed_shape(function, parameters, hints, place, wants_context)


def _signature(function: Callable[..., Any], place: Place) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{place}: its signature cannot be read ({error})") from error


def _hints(
    function: Callable[..., Any],
    signature: inspect.Signature,
    place: Place,
    local_names: Mapping[str, Any],
) -> dict[str, Any]:
    """Resolve the annotations of the parameters, one by one so that an error can name its own."""
    names = getattr(_routine(function), "__globals__", {})
    hints: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.annotation is parameter.empty:
            continue
        probe = types.FunctionType((lambda: None).__code__, names)
        probe.__annotations__ = {parameter.name: parameter.annotation}
        try:
            hints |= typing.get_type_hints(probe, names, dict(local_names), include_extras=True)
        except (NameError, TypeError, AttributeError, SyntaxError) as error:
            raise ConfigError(
                f"{place}: parameter {parameter.name!r}: annotation {parameter.annotation!r} "
                f"cannot be resolved ({error})"
            ) from error
    return hints


def _routine(function: Callable[..., Any]) -> Any:
    inner = innermost(function)
    return inner if inspect.isroutine(inner) else type(inner).__call__


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function behind partials and decorators."""
    while isinstance(function, functools.partial):
        function = function.func
    inner: Callable[..., Any] = inspect.unwrap(function)
    return inner


def written_at(function: Callable[..., Any]) -> tuple[str, int]:
    """The file and line of a function, or of the class whose instances can be called."""
    inner = innermost(function)
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("?", 0)


def _is_context(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    if hint is None:
        return parameter.name == "ctx" and parameter.kind is not parameter.VAR_KEYWORD
    return hint is ToolContext


def _refuse_odd_kind(parameter: inspect.Parameter, place: Place, *, raw: bool) -> None:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise ConfigError(f"{place}: parameter *{parameter.name} cannot be filled by name")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigError(f"{place}: parameter {parameter.name!r} is positional-only")
    if parameter.kind is parameter.VAR_KEYWORD and not raw:
        raise ConfigError(f"{place}: **{parameter.name} needs a raw schema, tool(parameters={{…}})")


# --- a raw schema -------------------------------------------------------------------------------


def _raw_schema(
    raw: Mapping[str, Any], parameters: list[inspect.Parameter], place: Place
) -> dict[str, Any]:
    if not isinstance(raw, Mapping) or raw.get("type", "object") != "object":
        raise ConfigError(f"{place}: parameters must be a JSON schema of type object")
    schema = copy.deepcopy(dict(raw))
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return schema
    schema.setdefault("additionalProperties", False)
    accepted = {p.name for p in parameters}
    unknown = sorted(set(schema["properties"]) - accepted)
    if unknown:
        raise ConfigError(f"{place}: the schema has {unknown[0]!r}, which the function lacks")
    needed = {p.name for p in parameters if p.default is p.empty}
    missing = sorted(needed - set(schema.get("required", ())))
    if missing:
        raise ConfigError(
            f"{place}: the function needs {missing[0]!r}, which the schema does not require"
        )
    return schema


# --- a schema from annotations ------------------------------------------------------------------


def _typed_shape(
    function: Callable[..., Any],
    parameters: list[inspect.Parameter],
    hints: Mapping[str, Any],
    place: Place,
    wants_context: bool,
) -> Shape:
    docs = parameter_docs(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    # Fields are numbered and reached by alias: a parameter may be called `schema` or `json`.
    names: dict[str, str] = {}
    for number, parameter in enumerate(parameters):
        if parameter.name not in hints:
            raise ConfigError(
                f"{place}: parameter {parameter.name!r} has no annotation{_meant(parameter.name)}"
            )
        names[f"p{number}"] = parameter.name
        fields[f"p{number}"] = _field(parameter, hints[parameter.name], docs.get(parameter.name))
    try:
        model = _model(place.name, fields)
        with warnings.catch_warnings(action="ignore"):  # a default that JSON has no word for
            schema = tidy_schema(model.model_json_schema(by_alias=True, mode="validation"))
    except pydantic.PydanticUserError as error:
        for parameter, field in zip(parameters, fields.values(), strict=True):
            _probe(parameter, field, place)
        raise ConfigError(f"{place}: no schema can be made of it ({error})") from error
    if all(_is_plain(hints[p.name]) and not _is_field(p.default) for p in parameters):
        return Shape(schema, wants_context)
    return Shape(
        schema,
        wants_context,
        convert=lambda arguments: _convert(model, names, arguments),
        problems=lambda arguments: _problems(model, arguments),
    )


def _model(name: str, fields: dict[str, Any]) -> type[pydantic.BaseModel]:
    config = pydantic.ConfigDict(extra="forbid", use_enum_values=False)
    return pydantic.create_model(name, __config__=config, **fields)


def _field(parameter: inspect.Parameter, hint: Any, doc: str | None) -> tuple[Any, Any]:
    """Describe one parameter to pydantic; a description in the annotation wins over the docs."""
    given = [m for m in (*getattr(hint, "__metadata__", ()), parameter.default) if _is_field(m)]
    extra: dict[str, Any] = {}
    if not any(field.alias for field in given):
        extra["alias"] = parameter.name
    if doc and not any(field.description for field in given):
        extra["description"] = doc
    annotated = typing.Annotated[hint, pydantic.Field(**extra)] if extra else hint
    default = ... if parameter.default is parameter.empty else parameter.default
    return annotated, default


def _probe(parameter: inspect.Parameter, field: tuple[Any, Any], place: Place) -> None:
    """Build the schema of one parameter alone, so that an error can name it."""
    try:
        _model("probe", {"p": field}).model_json_schema()
    except pydantic.PydanticUserError as error:
        text = str(error).splitlines()[0]
        shown = inspect.formatannotation(parameter.annotation)
        raise ConfigError(
            f"{place}: parameter {parameter.name!r}: unsupported annotation {shown} ({text})"
        ) from error


def _is_field(value: Any) -> bool:
    return isinstance(value, FieldInfo)


def _is_plain(hint: Any) -> bool:
    """Say whether a value that fits the schema already is what the function wants."""
    if isinstance(hint, typing.Hashable) and hint in _PLAIN:
        return True
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_plain(hint.__origin__) and all(map(_is_constraint, hint.__metadata__))
    if origin is typing.Literal:
        return all(type(value) in _PLAIN for value in typing.get_args(hint))
    if origin in (list, dict, typing.Union, types.UnionType):
        return all(map(_is_plain, typing.get_args(hint)))
    return hint in (list, dict)


def _is_constraint(metadata: Any) -> bool:
    """Say whether this only narrows or describes values, in a way that the JSON schema shows."""
    if _is_field(metadata):
        described = metadata.alias is None and metadata.is_required()
        return described and all(map(_is_constraint, metadata.metadata))
    kind = type(metadata)
    shown = kind.__module__ == "annotated_types" and kind.__name__ in _CONSTRAINTS
    return shown or isinstance(metadata, str)


def _convert(
    model: type[pydantic.BaseModel], names: Mapping[str, str], arguments: dict[str, Any]
) -> dict[str, Any]:
    built = model.model_validate(arguments)
    return {name: getattr(built, field) for field, name in names.items()}


def _problems(model: type[pydantic.BaseModel], arguments: dict[str, Any]) -> list[str]:
    try:
        model.model_validate(arguments)
    except pydantic.ValidationError as error:
        return [
            f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}"
            for entry in error.errors(include_url=False, include_input=False)
        ]
    return []


# --- tidying what pydantic writes ---------------------------------------------------------------


def tidy_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove titles and put definitions in place; those that contain themselves stay apart.

    Titles repeat the name and cost tokens; several servers do not follow `$ref`.
    """
    definitions = schema.pop("$defs", {})
    recursive = {name for name in definitions if _reaches(name, name, definitions)}
    tidied: dict[str, Any] = _tidy(schema, definitions, recursive)
    tidied.setdefault("properties", {})
    if recursive:
        tidied["$defs"] = {n: _tidy(definitions[n], definitions, recursive) for n in recursive}
    return tidied


def _tidy(node: Any, definitions: Mapping[str, Any], recursive: set[str]) -> Any:
    if isinstance(node, list):
        return [_tidy(item, definitions, recursive) for item in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and name not in recursive:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _tidy({**definitions[name], **beside}, definitions, recursive)
    out = {}
    for key, value in node.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("default", "const", "enum", "examples"):
            out[key] = value
        elif key == "properties":
            out[key] = {n: _tidy(sub, definitions, recursive) for n, sub in value.items()}
        else:
            out[key] = _tidy(value, definitions, recursive)
    return out


def _reaches(start: str, goal: str, definitions: Mapping[str, Any]) -> bool:
    seen: set[str] = set()
    stack = [definitions[start]]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(node)
        elif isinstance(node, dict):
            name = str(node.get("$ref", "")).removeprefix("#/$defs/")
            if name == goal:
                return True
            if name in definitions and name not in seen:
                seen.add(name)
                stack.append(definitions[name])
            stack.extend(node.values())
    return False


def _meant(name: str) -> str:
    if name not in ("ctx", "context"):
        return ""
    return f"; put {name} first, as {name}: ToolContext (from worker import ToolContext)"

"""The tool decorator: from a typed function to a schema, a policy and a guard key."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypedDict, Unpack, overload

from worker.core.errors import ConfigError, TaskInvalid
from worker.model.port import OfferedTool
from worker.toolcontext import ToolContext
from worker.toolkit.check import compile_check
from worker.toolkit.definition import EFFECTS, Effect, Tool
from worker.toolkit.docstring import summary
from worker.toolkit.effect import smells_of_writing
from worker.toolkit.rules import FunctionRule
from worker.toolkit.schema import Place, innermost, shape_of, written_at

__all__ = ["Registry", "Tool", "ToolContext", "ToolOptions", "line_to_add", "tool", "wire_names"]

_ILLEGAL_ON_WIRE = re.compile(r"[^a-zA-Z0-9_-]")
_WIRE_CHARS_MAX = 64


class ToolOptions(TypedDict, total=False):
    """What the author of a tool knows about it; settings of operations win where both speak.

    `parameters` is a raw JSON schema instead of the signature. `effect`: read (may be repeated),
    idempotent (may be repeated with the same key) or write (never repeated). `verify` is called
    like the tool after an interrupted write: it returns the tool's result when the write was
    done, None when it was not. `requires_approval`: a person has to allow each call. `job`: the tool
    returns a `Job` that goes on without us; `poll` is called with its handle (after `ctx`, where
    the tool takes one) and returns the result, None or a `Job` while there is none, and raises
    ToolError when the job has failed. `alternative` is called like the tool when the tool fails; then
    comes the last good value, at most `stale_seconds` old; then `stub`. `dependency` names what
    can break (tools that share an upstream share its breaker), `fail_max` how many failures in a
    row open it. Calls of one `sequential` group run one after another; True is a group of its own.
    A `poller` (how far is a job?) may be called again and again with the same result: that is no
    loop. `pages`: it returns web pages, to be read; that of any other tool is told from data.
    """

    name: str | None
    description: str | None
    parameters: Mapping[str, Any] | None
    effect: Effect | None
    timeout_seconds: float | None
    attempts: int | None
    stub: str | None
    stale_seconds: float | None
    alternative: Callable[..., Any] | None
    dependency: str | None
    fail_max: int | None
    verify: Callable[..., Any] | None
    poll: Callable[..., Any] | None
    sequential: str | bool | None
    poller: bool
    pages: bool
    requires_approval: bool
    job: bool


# --- the decorator ------------------------------------------------------------------------------


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(timeout_seconds=5, …)` (see ToolOptions).

    The first paragraph of the docstring is the description for the model, the annotations are the
    schema, the Args section describes the parameters. Raises ConfigError naming file and line.
    """
    caller = sys._getframe(1)
    if function is not None:
        return _build(function, options, caller.f_locals)
    return lambda decorated: _build(decorated, options, caller.f_locals)


def _build(
    function: Callable[..., Any], options: Mapping[str, Any], local_names: Mapping[str, Any]
) -> Tool:
    if isinstance(function, Tool) or not callable(function):
        raise ConfigError(f"@tool needs a function, got {function!r}")
    place = _place(function, options.get("name"))
    _check_options(options, place)
    raw = options.get("parameters")
    shape = shape_of(function, place=place, raw=raw, local_names=local_names)
    description = options.get("description")
    if description is None:
        description = summary(inspect.getdoc(innermost(function)) or "")
    effect: Effect | None = options.get("effect")
    if effect is None:
        writes = options.get("job") or smells_of_writing(place.name, description)
        effect = "write" if writes else "read"
    _check_policy(options, effect, place)
    sequential = options.get("sequential")
    return Tool(
        name=place.name,
        description=description,
        parameters=shape.parameters,
        function=function,
        is_async=_is_async(function, place),
        wants_context=shape.wants_context,
        effect=effect,
        effect_declared=options.get("effect") is not None,
        dependency=options.get("dependency") or place.name,
        source_file=place.file,
        source_line=place.line,
        sequential=place.name if sequential is True else (sequential or None),
        shape=shape,
        check=compile_check(shape.parameters, where=str(place)),
        **{name: options[name] for name in _PASSED_ON if name in options},
    )


_PASSED_ON = (
    *("timeout_seconds", "attempts", "fail_max"),
    *("stub", "stale_seconds", "alternative", "verify", "poller", "pages"),
    *("requires_approval", "job", "poll"),
)


def _place(function: Callable[..., Any], name: str | None) -> Place:
    inner = innermost(function)
    if name is None:
        name = getattr(inner, "__name__", type(inner).__name__)
    place = Place(name, *written_at(function))
    if not isinstance(name, str) or not name.strip() or name == "<lambda>":
        raise ConfigError(f"{place}: a tool needs a name, tool(name=…)")
    return place


def _is_async(function: Callable[..., Any], place: Place) -> bool:
    """Know coroutine functions behind partials, decorators and callable objects as well."""
    inner = innermost(function)
    faces = (function, inner, type(function).__call__, type(inner).__call__)
    if any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in faces):
        raise ConfigError(f"{place}: it yields; a tool returns one value")
    return any(inspect.iscoroutinefunction(face) for face in faces)


def _check_options(options: Mapping[str, Any], place: Place) -> None:
    known = ToolOptions.__annotations__
    for name in options:
        if name not in known:
            raise ConfigError(f"{place}: unknown option {name!r}; known: {', '.join(known)}")
    if options.get("effect") not in (None, *EFFECTS):
        raise ConfigError(f"{place}: effect must be one of {', '.join(EFFECTS)}")
    for name in ("requires_approval", "job"):
        if not isinstance(options.get(name, False), bool):
            raise ConfigError(f"{place}: {name} must be True or False")
    for name in ("timeout_seconds", "stale_seconds", "attempts", "fail_max"):
        _check_number(options.get(name), name, place)
    for name in ("alternative", "verify", "poll"):
        if options.get(name) is not None and not callable(options[name]):
            raise ConfigError(f"{place}: {name} must be a function")
    for name in ("poller", "pages"):
        if not isinstance(options.get(name, False), bool):
            raise ConfigError(f"{place}: {name} must be True or False")
    for name in ("description", "stub", "dependency"):
        if not isinstance(options.get(name) or "", str):
            raise ConfigError(f"{place}: {name} must be a text")
    if not isinstance(options.get("sequential") or "", (str, bool)):
        raise ConfigError(f"{place}: sequential must be True or the name of a group")


def _check_number(value: Any, name: str, place: Place) -> None:
    if value is None:
        return
    whole = name in ("attempts", "fail_max")
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not fits or not 0 < value < 1e9:
        kind = "a whole number" if whole else "a number of seconds"
        raise ConfigError(f"{place}: {name} must be {kind} above 0, got {value!r}")


def _check_policy(options: Mapping[str, Any], effect: str, place: Place) -> None:
    if options.get("verify") is not None and effect != "write":
        raise ConfigError(f'{place}: verify needs effect="write"')
    for name in ("stale_seconds", "alternative"):
        if options.get(name) is not None and effect != "read":
            raise ConfigError(f'{place}: {name} needs effect="read": a write has no stand-in')
        if options.get(name) is not None and options.get("job"):
            raise ConfigError(f"{place}: {name} cannot stand in for a job")
    if options.get("poll") is not None and not options.get("job"):
        raise ConfigError(f"{place}: poll needs job=True")


# --- the registry -------------------------------------------------------------------------------


class Registry:
    """The tools of a worker, by name, and its hand-off rules.

    Iterating gives the tools in the order they were added.
    """

    def __init__(self, tools: Iterable[Tool | FunctionRule] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._rules: dict[str, FunctionRule] = {}
        self._offered: dict[str, OfferedTool] = {}
        self._expected: dict[str, Callable[[str], Tool]] = {}
        for each in tools:
            self.add(each)

    def add(self, new: Tool | FunctionRule) -> None:
        """Add a tool, or a hand-off rule. Raises ConfigError when another one has its name."""
        is_rule = isinstance(new, FunctionRule)
        place: dict[str, Any] = self._rules if is_rule else self._tools
        old = place.setdefault(new.name, new)
        if old is not new:
            raise ConfigError(
                f"two {'rules' if is_rule else 'tools'} are called {new.name!r}: "
                f"{old.source_file}:{old.source_line} and {new.source_file}:{new.source_line}"
            )
        self._offered.clear()

    def expect(self, prefix: str, stand_in: Callable[[str], Tool]) -> None:
        """Tools whose names begin with `prefix` will come; until then `stand_in` makes them.

        So a task that names a tool of a server which is away is no mistake.
        """
        self._expected[prefix] = stand_in

    def replace(self, prefix: str, tools: Iterable[Tool]) -> list[str]:
        """Put these tools in the place of all whose names begin with `prefix`.

        Returns the names that were taken; those tools are not added.
        """
        self._expected.pop(prefix, None)
        for name in [name for name in self._tools if name.startswith(prefix)]:
            del self._tools[name]
        taken = [each.name for each in tools if self._tools.setdefault(each.name, each) is not each]
        self._offered = {}
        return taken

    @property
    def rules(self) -> tuple[FunctionRule, ...]:
        """The hand-off rules of the tool files, in the order in which they were added."""
        return tuple(self._rules.values())

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or what stands in for it; None when there is none."""
        return self._tools.get(name) or self._stand_in(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order the tools were added."""
        return tuple(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools or self._prefix_of(name) is not None

    def __repr__(self) -> str:
        return f"Registry({', '.join(self._tools)})"

    def offered(self, names: Iterable[str] | None = None) -> list[OfferedTool]:
        """Return tools as a model sees them; None is all of them.

        Raises TaskInvalid, naming the known tools, for a name that is not registered.
        """
        if not self._offered:
            self._offered = self._offer(self)
        if names is None:
            return list(self._offered.values())
        wanted = list(dict.fromkeys(names))
        unknown = [name for name in wanted if name not in self]
        if unknown:
            known = ", ".join(self._tools) or "none"
            raise TaskInvalid(
                f"tools: unknown {', '.join(map(repr, unknown))}; known: {known}", field="tools"
            )
        if all(name in self._offered for name in wanted):
            return [self._offered[name] for name in wanted]
        stand_ins = [each for name in wanted if (each := self._stand_in(name)) is not None]
        offered = self._offer([*self, *stand_ins])
        return [offered[name] for name in wanted]

    def pollers(self, said: Iterable[str] = ()) -> frozenset[str]:
        """Return the tools whose repetition is no loop: declared as such, or `said` by operations.

        `-name` takes a declaration back. Raises ConfigError for a name that is no tool's.
        """
        return self._chosen(said, {tool.name for tool in self if tool.poller})

    def approvals(self, said: Iterable[str] = ()) -> frozenset[str]:
        """Return the tools whose calls a person has to allow, as `pollers` does."""
        return self._chosen(said, {tool.name for tool in self if tool.requires_approval})

    def _chosen(self, said: Iterable[str], declared: set[str]) -> frozenset[str]:
        named = {name.removeprefix("-"): not name.startswith("-") for name in said}
        for name in named:
            if name not in self:
                known = ", ".join(self._tools) or "none"
                raise ConfigError(f"there is no tool {name[:80]!r}; there are: {known}")
        kept = {name for name in declared if named.get(name, True)}
        return frozenset(kept | {name for name, is_named in named.items() if is_named})

    def undeclared(self) -> list[tuple[Tool, str]]:
        """Return the tools that run as writes without saying so, each with the line to add."""
        return [
            (each, line_to_add(each))
            for each in self
            if each.effect == "write" and not each.effect_declared
        ]

    def _prefix_of(self, name: object) -> str | None:
        if not self._expected or not isinstance(name, str):
            return None
        found = (prefix for prefix in self._expected if name.startswith(prefix) and name != prefix)
        return next(found, None)

    def _stand_in(self, name: str) -> Tool | None:
        prefix = self._prefix_of(name) if name not in self._tools else None
        return None if prefix is None else self._expected[prefix](name)

    def _offer(self, tools: Iterable[Tool]) -> dict[str, OfferedTool]:
        tools = list(tools)
        wire = wire_names(each.name for each in tools)
        return {
            each.name: OfferedTool(
                name=each.name,
                wire_name=wire[each.name],
                description=each.description,
                parameters=each.parameters,
                validate=each.validate,
            )
            for each in tools
        }


def line_to_add(undeclared: Tool) -> str:
    """Return what the author of an undeclared tool should write, and where.

    For the tool of an MCP server (it has no line) that is a setting of operations.
    """
    if undeclared.is_foreign:
        own = undeclared.name.partition(".")[2]
        return (
            f"{undeclared.source_file}__EFFECTS={own}=read if it changes nothing,"
            f" {own}=idempotent if repeating it is safe, {own}=write if neither"
        )
    return (
        f'{undeclared.source_file}:{undeclared.source_line}: @tool(effect="write") on '
        f'{undeclared.name}; effect="read" if it changes nothing, '
        f'effect="idempotent" if repeating it with ctx.idempotency_key is safe'
    )


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Map each name to one that servers accept; legal names stay as they are.

    A mapped name that is taken gets a suffix from its own hash, so that it does not depend on the
    order of registration: histories carry it across deploys.
    """
    all_names = list(names)
    mapped = {name: name for name in all_names if _is_legal_on_wire(name)}
    wanted = {name: _legalise(name) for name in all_names if name not in mapped}
    for name, wire in wanted.items():
        taken = wire in mapped or sum(other == wire for other in wanted.values()) > 1
        mapped[name] = _with_hash(wire, name) if taken else wire
    return {name: mapped[name] for name in all_names}


def _is_legal_on_wire(name: str) -> bool:
    return len(name) <= _WIRE_CHARS_MAX and _ILLEGAL_ON_WIRE.search(name) is None


def _legalise(name: str) -> str:
    wire = _ILLEGAL_ON_WIRE.sub("_", name)
    if len(wire) > _WIRE_CHARS_MAX or not wire.strip("_"):
        return _with_hash(wire.strip("_") or "tool", name)
    return wire


def _with_hash(wire: str, name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{wire[: _WIRE_CHARS_MAX - 9]}_{digest}"

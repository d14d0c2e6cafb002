"""Hand-off rules that are functions of a tool file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

from worker.core.errors import ConfigError
from worker.toolkit.docstring import summary
from worker.toolkit.schema import innermost, written_at

On = Literal["both", "answer", "results"]
RULE_NAME = re.compile(r"[\w-]{1,64}")


@dataclass(frozen=True, slots=True, eq=False)
class FunctionRule:
    """What `@handoff_rule` makes of a function; calling it calls the function as it was written.

    `tools` empty: the results of all tools.
    """

    name: str
    reason: str
    function: Callable[..., Any]
    on: On
    tools: tuple[str, ...]
    wants_source: bool
    source_file: str
    source_line: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was written."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionRule({self.name!r}, {self.on}, {self.place})"

    @property
    def place(self) -> str:
        """Where it is written."""
        return f"{self.source_file}:{self.source_line}"

    def judge(self, text: str, source: str) -> str | None:
        """Ask the function; the reason when the run is to be handed off, else None.

        Raises what it raises, and TypeError for anything but a bool, a text or None.
        """
        said = self.function(text, source) if self.wants_source else self.function(text)
        if said is None or said is False:
            return None
        if said is True:
            return self.reason
        if isinstance(said, str):
            return said.strip() or None
        if inspect.iscoroutine(said):
            said.close()
        raise TypeError(f"it returned a {type(said).__name__}; return True, a reason, or False")


@overload
def handoff_rule(function: Callable[..., Any], /) -> FunctionRule: ...
@overload
def handoff_rule(
    *, name: str | None = None, on: On = "both", tools: Collection[str] = ()
) -> Callable[[Callable[..., Any]], FunctionRule]: ...
def handoff_rule(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Hand a run over to a person when a function of a tool file says so.

    The function gets the text and, if it takes a second argument, where it stands: `answer`, or
    `tool:NAME`. It returns True or the reason, and False or None when there is nothing. `on` and
    `tools` say what it looks at: both, the answer, or results (of these tools only). It is plain,
    fast code: it runs in a thread, is not waited for beyond a second, and one that raises is
    counted and passed over. Raises ConfigError naming file and line.
    """
    if function is not None:
        return _build(function, **options)
    return lambda decorated: _build(decorated, **options)


def _build(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    on: On = "both",
    tools: Collection[str] = (),
    **unknown: Any,
) -> FunctionRule:
    if not callable(function):
        raise ConfigError(f"@handoff_rule needs a function, got {function!r}")
    inner = innermost(function)
    file, line = written_at(function)
    name = getattr(inner, "__name__", "<lambda>") if name is None else name
    where = f"{file}:{line}: hand-off rule {name!r}"
    if unknown:
        raise ConfigError(
            f"{where}: unknown option {next(iter(unknown))!r}; known: name, on, tools"
        )
    if not isinstance(name, str) or RULE_NAME.fullmatch(name) is None:
        raise ConfigError(f"{where}: name=… must be letters, digits, - and _, at most 64 of them")
    if on not in get_args(On):
        raise ConfigError(f"{where}: on must be one of {', '.join(get_args(On))}, got {on!r}")
    if isinstance(tools, str) or not all(isinstance(each, str) for each in tools):
        raise ConfigError(f"{where}: tools must be a list of names")
    return FunctionRule(
        name=name,
        reason=summary(inspect.getdoc(inner) or "") or name,
        function=function,
        on=on,
        tools=tuple(tools),
        wants_source=_wants_source(function, where),
        source_file=file,
        source_line=line,
    )


def _wants_source(function: Callable[..., Any], where: str) -> bool:
    inner = innermost(function)
    if any(
        is_kind(inner)
        for is_kind in (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
    ):
        raise ConfigError(f"{where}: must be a plain function, neither async nor yielding")
    signature = inspect.signature(function)
    for arguments in (("text", "source"), ("text",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2
    raise ConfigError(f"{where}: must take (text, source), or (text)")

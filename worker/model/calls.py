"""From the calls that a model asked for to calls that can be run, answered and echoed."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from worker.core.messages import ToolCall
from worker.model.arguments import Arguments, BadArguments, read_arguments
from worker.model.coerce import coerce
from worker.model.jsontext import encode, scrub
from worker.model.port import OfferedTool

PLACEHOLDER = "unknown_tool"  # stands where a call has no name: an empty one is refused everywhere
MAX_CALLS = 128  # of one reply; more is a runaway, and the loop's own limit is far below
_MAX_VIOLATIONS = 12
_MAX_SENTENCE = 400
_MAX_NAME = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_PREFIX = re.compile(
    r"(?:functions?|default_api|tools?|api|multi_tool_use|namespace)[.:/]", re.IGNORECASE
)
_SUFFIX = re.compile(r":\d+\Z")
_ID_ALPHABET = string.ascii_letters + string.digits
_ID_LENGTH = 9


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as it was asked for. `entry` and `function` hold the fields that go back untouched."""

    name: Any
    arguments: Any
    call_id: Any = None
    whole: bool = True
    entry: dict[str, Any] = field(default_factory=dict)
    function: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ReadCalls:
    """Calls and their echo, pair by pair. `cut` tells that one of them may not be all there."""

    calls: list[ToolCall] = field(default_factory=list)
    echo: list[dict[str, Any]] = field(default_factory=list)
    cut: bool = False


def id_source(source: random.Random | None = None) -> Callable[[], str]:
    """Make a function that makes ids: nine letters and digits, the one form that all accept."""
    pick = (source or random.Random()).choices
    return lambda: "".join(pick(_ID_ALPHABET, k=_ID_LENGTH))


class CallReader:
    """Reads the calls of one reply against the tools that were on offer, and those withheld."""

    def __init__(
        self,
        tools: Sequence[OfferedTool],
        withheld: Sequence[OfferedTool] = (),
        *,
        max_argument_bytes: int,
        new_id: Callable[[], str],
    ) -> None:
        self._tools = tools
        self._known = (*tools, *withheld) if withheld else tools
        self._max_bytes = max_argument_bytes
        self._new_id = new_id
        self._ids: set[str] = set()
        self._read = ReadCalls()

    def read(self, raw_calls: Sequence[RawCall]) -> ReadCalls:
        """Give every call its id, its tool and its arguments, or the problem for the model."""
        for raw in raw_calls[:MAX_CALLS]:
            self._add(raw)
        return self._read

    def _add(self, raw: RawCall) -> None:
        said = said_name(raw.name)
        tool = find_tool(said, self._known)
        try:
            arguments = read_arguments(raw.arguments, max_bytes=self._max_bytes)
        except BadArguments as error:
            self._read.cut = True
            known = tool is not None
            problem = _invalid(said, [str(error)]) if known else self._unknown(said)
            self._append(raw, tool, said, "{}", problem=problem)
            return
        if tool is None and said.rpartition(".")[0] == "multi_tool_use":
            inner = _tool_uses(arguments.value)
            if inner is not None:
                for use in inner[:MAX_CALLS]:
                    self._add(use)
                return
        if not (arguments.complete and raw.whole):
            self._read.cut = True
        if tool is None:
            self._append(raw, None, said, arguments.text, problem=self._unknown(said))
        elif not raw.whole:
            problem = _invalid(tool.name, ["the call was not written to its end"])
            self._append(raw, tool, said, "{}", problem=problem)
        else:
            self._add_known(raw, tool, arguments)

    def _add_known(self, raw: RawCall, tool: OfferedTool, arguments: Arguments) -> None:
        value = coerce(arguments.value, tool.parameters)
        violations = tool.validate(value)
        if violations:
            problem = _invalid(tool.name, violations)
            self._append(raw, tool, tool.name, arguments.text, problem=problem)
            return
        text = arguments.text if value is arguments.value else encode(value).decode()
        self._append(raw, tool, tool.name, text, value=value)

    def _append(
        self,
        raw: RawCall,
        tool: OfferedTool | None,
        said: str,
        text: str,
        *,
        value: dict[str, Any] | None = None,
        problem: str | None = None,
    ) -> None:
        call_id = self._id(raw.call_id)
        kind = None
        if problem is not None:
            kind = "unknown_tool" if tool is None else "invalid_arguments"
        name = tool.name if tool is not None else said or PLACEHOLDER
        wire_name = tool.wire_name if tool is not None else legal_name(said)
        self._read.calls.append(ToolCall(call_id, name, value, problem, kind))
        function = {**raw.function, "name": wire_name, "arguments": text}
        self._read.echo.append(
            {**raw.entry, "id": call_id, "type": "function", "function": function}
        )

    def _id(self, given: Any) -> str:
        call_id = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
        if not isinstance(call_id, str) or not call_id.strip() or call_id in self._ids:
            call_id = self._new_id()
            while call_id in self._ids:
                call_id = self._new_id()
        self._ids.add(call_id)
        return call_id

    def _unknown(self, said: str) -> str:
        names = [tool.wire_name for tool in self._tools]
        what = f"There is no tool named {said!r}" if said else "The call names no tool"
        allowed = ", ".join(names) if names else "none"
        return problem_text(
            "unknown_tool",
            f"{what}; nothing was run. Tools you can call: {allowed}.",
            available_tools=names,
        )


def said_name(name: Any) -> str:
    """Return the name that a model said, without what leaked in behind it."""
    text: str = scrub(name) if isinstance(name, str) else ""
    return text.partition("<|")[0].strip()[:200]


def find_tool(said: str, tools: Sequence[OfferedTool]) -> OfferedTool | None:
    """Find the tool that a name means: exactly, without a known prefix, or in another case.

    Never by likeness: delete_x and delete_y are alike.
    """
    for tool in tools:
        if said == tool.wire_name or said == tool.name:
            return tool
    if not said:
        return None
    bare = _SUFFIX.sub("", _PREFIX.sub("", said, count=1) if _PREFIX.match(said) else said)
    for tool in tools:
        if bare == tool.wire_name or bare == tool.name:
            return tool
    lowered = bare.lower()
    alike = [t for t in tools if lowered in (t.wire_name.lower(), t.name.lower())]
    return alike[0] if len(alike) == 1 else None


def legal_name(said: str) -> str:
    """Make a name that any server accepts in the history."""
    return _ILLEGAL.sub("_", said)[:_MAX_NAME] or PLACEHOLDER


def problem_text(kind: str, message: str, **details: Any) -> str:
    """Write a problem as the model gets it in place of a result: JSON that it can act on."""
    return encode({"error": {"type": kind, "message": message, **details}}).decode()


def _invalid(name: str, violations: Sequence[str]) -> str:
    shown = [text[:_MAX_SENTENCE] for text in violations[:_MAX_VIOLATIONS]]
    return problem_text(
        "invalid_arguments",
        f"The arguments for {name} are not valid; nothing was run."
        " Correct every violation and call again with one JSON object.",
        violations=shown,
    )


def _tool_uses(arguments: dict[str, Any]) -> list[RawCall] | None:
    uses = arguments.get("tool_uses")
    if not isinstance(uses, list) or not uses:
        return None
    found: list[RawCall] = []
    for use in uses:
        name = use.get("recipient_name") if isinstance(use, dict) else None
        if not isinstance(name, str) or name.startswith("multi_tool_use"):
            return None
        found.append(RawCall(name, use.get("parameters")))
    return found

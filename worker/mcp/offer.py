"""From what a server lists to tools that a worker offers, or the reason why not.

The list is a stranger's. Its schemas are judged before anything compiles them, its descriptions
are cut, and what it says about its own harmlessness is believed only where operations say so.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from worker.core.errors import ConfigError
from worker.core.texts import shortened
from worker.mcp.port import Listed
from worker.mcp.schema import Refused, checked
from worker.mcpsettings import McpServerSettings, dependency_of, setting_of
from worker.toolkit.check import Check, compile_check
from worker.toolkit.definition import Effect, Tool

DESCRIPTION_CHARS_MAX = 1024  # servers of models refuse longer ones
JUDGING_SECONDS = 5.0  # for all schemas of a server; it is done in a thread
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")

CallTool = Callable[[str, dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Offer:
    """What of a list is offered, and what is left out, each with the reason."""

    tools: tuple[Tool, ...]
    left_out: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Judge:
    """Makes tools of what one server lists. Schemas that were judged before are not judged again."""

    server: str
    settings: McpServerSettings
    call: CallTool
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, tuple[dict[str, Any], Check] | str] = field(default_factory=dict)

    def offer(self, listed: Iterable[Listed]) -> Offer:
        """Judge a list. Takes up to some seconds of CPU: call it from a thread."""
        tools: dict[str, Tool] = {}
        left_out: list[tuple[str, str]] = []
        known, self._known = self._known, {}
        ends = self.clock() + JUDGING_SECONDS
        for each in listed:
            if not self._is_wanted(each.name):
                continue
            problem = None
            if each.name in tools:
                problem = "it is listed twice"
            elif len(tools) >= self.settings.tools_max:
                problem = (
                    f"there are more than {self.settings.tools_max} ({self._setting('TOOLS_MAX')})"
                )
            if problem is None:
                judged = self._judged(each, known, is_late=self.clock() > ends)
                if isinstance(judged, str):
                    problem = judged
                else:
                    tools[each.name] = self._tool(each, *judged)
            if problem is not None:
                left_out.append((each.name, problem))
        return Offer(tuple(tools.values()), tuple(left_out))

    def stand_in(self, name: str) -> Tool:
        """A tool of which nothing is known yet but its full name: calling it tells why."""
        own = name.partition(".")[2]
        description = f"A tool of {self.server}, which cannot be reached now."
        listed = Listed(own, description, {"type": "object"})
        return self._tool(listed, {"type": "object"}, _anything)

    def _is_wanted(self, name: str) -> bool:
        allow, deny = self.settings.allow, self.settings.deny
        if any(fnmatchcase(name, pattern) for pattern in deny):
            return False
        return not allow or any(fnmatchcase(name, pattern) for pattern in allow)

    def _judged(
        self, each: Listed, known: dict[str, Any], *, is_late: bool
    ) -> tuple[dict[str, Any], Check] | str:
        try:
            digest = hashlib.sha256(json.dumps(each.schema).encode()).hexdigest()
        except (ValueError, TypeError, RecursionError):
            return "its schema is nested too deep, or no JSON"
        judged = known.get(digest) or self._known.get(digest)
        if judged is None:
            if is_late:
                return f"judging the schemas took longer than {JUDGING_SECONDS:g} s"
            judged = self._judge(each)
        self._known[digest] = judged
        return judged

    def _judge(self, each: Listed) -> tuple[dict[str, Any], Check] | str:
        try:
            schema = checked(each.schema)
            return schema, compile_check(schema, where="its schema is")
        except Refused as refused:
            return f"its schema {refused}"
        except ConfigError as error:
            return str(error)[:300]

    def _tool(self, each: Listed, schema: dict[str, Any], check: Check) -> Tool:
        settings, own = self.settings, each.name
        effect, is_declared = self._effect(each)
        call = self.call

        async def function(**arguments: Any) -> Any:
            return await call(own, arguments)

        return Tool(
            name=f"{self.server}.{own}",
            description=_clean(each.description),
            parameters=schema,
            function=function,
            is_async=True,
            wants_context=False,
            effect=effect,
            effect_declared=is_declared,
            dependency=dependency_of(self.server),
            source_file=setting_of(self.server),
            source_line=0,
            timeout_seconds=settings.timeout_seconds,
            attempts=settings.attempts,
            stub=settings.stubs.get(own, settings.stub),
            stale_seconds=settings.stale_seconds if effect == "read" else None,
            requires_approval=any(fnmatchcase(own, name) for name in settings.approval),
            sequential=dependency_of(self.server) if settings.sequential else None,
            check=check,
        )

    def _effect(self, each: Listed) -> tuple[Effect, bool]:
        """What operations say; then what the server says, if it is trusted; else it writes."""
        said = self.settings.effects
        if each.name in said:
            return said[each.name], True
        for pattern, effect in said.items():
            if fnmatchcase(each.name, pattern):
                return effect, True
        if self.settings.trust_hints:
            if each.read_only:
                return "read", True
            if each.idempotent:
                return "idempotent", True
        return "write", False

    def _setting(self, field: str) -> str:
        return f"{setting_of(self.server)}__{field}"


def _anything(arguments: Any) -> list[str]:
    return []


def _clean(text: str) -> str:
    """Cut, and without what a terminal would obey or nobody would see."""
    return shortened(_CONTROL.sub(" ", text).strip(), max_chars=DESCRIPTION_CHARS_MAX)

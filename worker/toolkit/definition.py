"""A tool: a function that a model may call, and all that is needed to call it safely."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from worker.core.errors import ToolError
from worker.toolcontext import ToolContext
from worker.toolkit.check import Check
from worker.toolkit.schema import Shape

Effect = Literal["read", "idempotent", "write"]
EFFECTS = ("read", "idempotent", "write")


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """What `@tool` makes of a function. Times are seconds; None leaves it to the settings.

    Calling the object calls the function as it was written, so that a test needs nothing else.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    function: Callable[..., Any]
    is_async: bool
    wants_context: bool
    effect: Effect
    effect_declared: bool
    dependency: str
    source_file: str
    source_line: int
    timeout_seconds: float | None = None
    attempts: int | None = None
    fail_max: int | None = None
    stub: str | None = None
    stale_seconds: float | None = None
    alternative: Callable[..., Any] | None = None
    verify: Callable[..., Any] | None = None
    poll: Callable[..., Any] | None = None
    sequential: str | None = None
    poller: bool = False
    pages: bool = False
    requires_approval: bool = False
    job: bool = False
    shape: Shape = field(default_factory=lambda: Shape({}, False), repr=False)
    check: Check = field(default=lambda _: [], repr=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was written."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, {self.effect}, {self.source_file}:{self.source_line})"

    @property
    def is_foreign(self) -> bool:
        """Whether it is a server's: it stands in no file, and operations alone say what it may."""
        return not self.source_line

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, where `inspect.signature` and friends look for it."""
        return self.function

    @property
    def __name__(self) -> str:
        """The function's own name."""
        return str(getattr(self.function, "__name__", self.name))

    def validate(self, arguments: Any) -> list[str]:
        """Return every violation as a sentence that names the field and what is allowed."""
        found = self.check(arguments)
        if not found and self.shape.problems is not None:
            return self.shape.problems(arguments)
        return found

    def call(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        """Call with validated arguments: a coroutine when `is_async`, else the value itself.

        A sync tool runs for as long as it likes; call it from a thread of the guard.
        """
        return self._apply(self.function, arguments, ctx, is_async=self.is_async)

    def call_alternative(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        """Call the alternative, which may be sync or async whatever the tool is."""
        assert self.alternative is not None, f"{self.name} has no alternative"
        return self._apply(self.alternative, arguments, ctx, is_async=True)

    def call_verify(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        """Ask whether an interrupted write was done, sync or async whatever the tool is."""
        assert self.verify is not None, f"{self.name} has no verify"
        return self._apply(self.verify, arguments, ctx, is_async=True)

    @property
    def polls_async(self) -> bool:
        """Whether `poll` is a coroutine function; any other runs in a thread of the guard."""
        return inspect.iscoroutinefunction(self.poll)

    def call_poll(self, handle: str, ctx: ToolContext) -> Any:
        """Ask for a job: None or a `Job` while it goes on, its result when it is done."""
        assert self.poll is not None, f"{self.name} has no poll"
        return self.poll(ctx, handle) if self.wants_context else self.poll(handle)

    async def invoke(self, ctx: ToolContext, arguments: dict[str, Any]) -> Any:
        """Validate and run once, without a guard: for tests and for the command line.

        Raises ToolError when the arguments do not fit. Cancelled: an async tool is cancelled too,
        a sync one runs to its end in its thread and its value is dropped.
        """
        violations = self.validate(arguments)
        if violations:
            raise ToolError("; ".join(violations))
        if self.is_async:
            return await self.call(arguments, ctx)
        return await asyncio.to_thread(self.call, arguments, ctx)

    def _apply(
        self,
        function: Callable[..., Any],
        arguments: dict[str, Any],
        ctx: ToolContext,
        *,
        is_async: bool,
    ) -> Any:
        if self.shape.convert is not None:
            values = self.shape.convert(arguments)
        else:
            values = _own(arguments)
        value = function(ctx, **values) if self.wants_context else function(**values)
        if not is_async and inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise TypeError(f"tool {self.name!r} returned a coroutine; write it as async def")
        return value


def _own(arguments: dict[str, Any]) -> dict[str, Any]:
    """Give the tool containers of its own: what it changes must not reach the next attempt."""
    for value in arguments.values():
        if isinstance(value, (dict, list)):
            return copy.deepcopy(arguments)
    return arguments

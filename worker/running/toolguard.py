"""Each tool behind the guard of its dependency: what the author declared, settings on top."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import orjson

from worker.core.events import Away
from worker.core.messages import Source
from worker.guard.guards import Guards
from worker.guard.policy import AttemptInfo, CallPolicy, Fallback, GuardPolicy, LastGood, Outcome
from worker.guardsettings import GuardOverride, GuardSettings
from worker.registry import Tool
from worker.toolcontext import ToolContext
from worker.toolkit.job import Job, NotAJob, begun
from worker.toolresult import normalise_result

# What a breaker says while no call gets through; throttling passes by itself, and soon.
_OPEN = frozenset({"breaker_open", "forced_open", "trial_in_flight"})
_GUARD_FIELDS = {each.name for each in fields(GuardPolicy)}


class ToolGuards:
    """Calls tools through guards. Policies are built once per tool."""

    def __init__(
        self,
        guards: Guards,
        settings: GuardSettings,
        overrides: Mapping[str, GuardOverride],
        last_good: LastGood | None = None,
    ) -> None:
        self._guards = guards
        self._settings = settings
        self._overrides = overrides
        self._last_good = last_good
        self._policies: dict[str, tuple[Tool, CallPolicy]] = {}
        self._live_at: dict[str, float] = {}  # when a tool with a stale rung last gave a value

    def away(self, tools: Iterable[Tool], now: float) -> list[Away]:
        """Tell which tools would be rejected by their breaker now. Takes nothing, no trial either.

        A tool stays on offer while it may give something better than its stub: from another source,
        or a value of its own that is not too old. `now` is monotonic.
        """
        found = []
        for tool in tools:
            guard = self._guards.find(tool.dependency)
            objection = guard.peek() if guard is not None else None
            if objection is None or objection.reason not in _OPEN:
                continue
            at, limit = self._live_at.get(tool.name), tool.stale_seconds
            has_old = at is not None and limit is not None and now - at <= limit
            found.append(
                Away(
                    tool.name,
                    objection.reason,
                    tool.stub,
                    objection.retry_after_seconds,
                    offered=has_old or tool.alternative is not None,
                )
            )
        return found

    def state_of(self, tool: Tool) -> str | None:
        """The state of the breaker of a tool; None before anybody called it."""
        guard = self._guards.find(tool.dependency)
        return None if guard is None else guard.state

    async def call(
        self, tool: Tool, arguments: dict[str, Any], context: ToolContext, *, max_chars: int
    ) -> Outcome[Any]:
        """Make one guarded call. A live value is `{content, result_bytes, truncated, empty}`.

        Never raises for a failed tool; cancellation passes.
        """
        attempt: Callable[[AttemptInfo], Any]
        if tool.is_async:

            async def attempt(info: AttemptInfo) -> Any:
                value = await tool.call(arguments, context)
                return _shaped_of(tool, value, max_chars, context)
        else:

            def attempt(info: AttemptInfo) -> Any:
                return _shaped_of(tool, tool.call(arguments, context), max_chars, context)

        outcome = await self._guards.get(tool.dependency).call(
            attempt,
            self._policy(tool),
            deadline=context.deadline,
            scope=context.tenant or "",
            arguments_key=_key(arguments) if tool.stale_seconds else "",
            info=AttemptInfo(
                idempotency_key=context.idempotency_key,
                arguments=_Asked(arguments, context, max_chars),
            ),
        )
        if tool.stale_seconds and outcome.source is Source.LIVE:
            self._live_at[tool.name] = context.clock()
        return outcome

    async def verify(
        self, tool: Tool, arguments: dict[str, Any], context: ToolContext, *, max_chars: int
    ) -> Outcome[Any] | None:
        """Ask the tool whether an interrupted write was done.

        An outcome with a value: it was. With value None: it was not. None: nobody knows.
        """

        async def attempt(info: AttemptInfo) -> Any:
            value = tool.call_verify(arguments, context)
            if isinstance(value, Awaitable):
                value = await value
            return None if value is None else _shaped_of(tool, value, max_chars, context)

        outcome = await self._look(tool, attempt, context)
        return outcome if outcome.error is None else None

    async def poll(
        self, tool: Tool, handle: str, context: ToolContext, *, max_chars: int
    ) -> Outcome[Any]:
        """Ask the tool for a job. The value is None, or a `Job`, while it is not done."""
        attempt: Callable[[AttemptInfo], Any]

        def poll_shaped(value: Any) -> Any:
            is_open = value is None or isinstance(value, Job)
            return value if is_open else shaped(value, tool, max_chars, context.language)

        if tool.polls_async:

            async def attempt(info: AttemptInfo) -> Any:
                return poll_shaped(await tool.call_poll(handle, context))
        else:

            def attempt(info: AttemptInfo) -> Any:
                return poll_shaped(tool.call_poll(handle, context))

        return await self._look(tool, attempt, context)

    async def _look(
        self, tool: Tool, attempt: Callable[[AttemptInfo], Any], context: ToolContext
    ) -> Outcome[Any]:
        """Ask about an effect instead of making it: whatever the tool is, this may be repeated."""
        policy = replace(self._policy(tool), fallback=None, repeatable=True)
        guard = self._guards.get(tool.dependency)
        return await guard.call(attempt, policy, deadline=context.deadline)

    def _policy(self, tool: Tool) -> CallPolicy:
        # A tool of an MCP server may be another one by now, under the same name.
        known = self._policies.get(tool.name)
        if known is None or known[0] is not tool:
            known = self._policies[tool.name] = (tool, self._build(tool))
        return known[1]

    def _build(self, tool: Tool) -> CallPolicy:
        settings = self._settings
        said = {"timeout_seconds": tool.timeout_seconds, "attempts": tool.attempts}
        for name in (tool.dependency, tool.name):
            override = self._overrides.get(name)
            if override is not None:
                said |= override.model_dump(exclude_none=True)
        timeout = said.get("timeout_seconds") or settings.timeout_seconds
        deadline = said.get("deadline_seconds") or max(settings.deadline_seconds, timeout)
        fallback = None
        if tool.stub is not None or tool.stale_seconds or tool.alternative:
            fallback = Fallback(
                last_good=self._last_good if tool.stale_seconds else None,
                stale_seconds=tool.stale_seconds,
                stub=tool.stub,
                alternative=_alternative(tool) if tool.alternative else None,
                alternative_seconds=min(timeout, 2.0),
            )
        return CallPolicy(
            kind="tool",
            target=tool.name,
            timeout_seconds=timeout,
            deadline_seconds=max(deadline, timeout),
            attempts=int(said.get("attempts") or settings.attempts),
            backoff_seconds=settings.backoff_seconds,
            backoff_seconds_max=settings.backoff_seconds_max,
            repeatable=tool.effect != "write",
            fallback=fallback,
        )


def default_policy(settings: GuardSettings) -> GuardPolicy:
    """The guard of a dependency that nobody said more about."""
    said = settings.model_dump(exclude_none=True)
    values = {name: value for name, value in said.items() if name in _GUARD_FIELDS}
    return GuardPolicy(**values)


def policies_of(
    tools: list[Tool], settings: GuardSettings, overrides: Mapping[str, GuardOverride]
) -> dict[str, GuardPolicy]:
    """The guard policy of each dependency: the authors' word, then the settings'.

    Where tools share a dependency, the smallest `fail_max` that one of them declares counts.
    """
    base = asdict(default_policy(settings))
    policies: dict[str, GuardPolicy] = {}
    for tool in tools:
        known = policies.get(tool.dependency)
        values = dict(base) if known is None else asdict(known)
        if tool.fail_max is not None:
            shared = values["fail_max"] if known is not None else tool.fail_max
            values["fail_max"] = min(tool.fail_max, shared)
        for name in (tool.dependency, tool.name):
            override = overrides.get(name)
            if override is not None:
                said = override.model_dump(exclude_none=True)
                values |= {k: v for k, v in said.items() if k in _GUARD_FIELDS}
        policies[tool.dependency] = GuardPolicy(**values)
    return policies


def shaped(value: Any, tool: Tool, max_chars: int, language: str) -> dict[str, Any]:
    """A tool's value as text for the model, with what was learned on the way; JSON throughout."""
    result = normalise_result(value, max_chars=max_chars, language=language, pages=tool.pages)
    return {
        "content": result.content,
        "result_bytes": result.result_bytes,
        "truncated": result.truncated,
        # An effect need not answer anything; nothing was looked for, so nothing was not found.
        "empty": result.empty and tool.effect == "read",
    }


def _shaped_of(tool: Tool, value: Any, max_chars: int, context: ToolContext) -> dict[str, Any]:
    if tool.job:
        return begun(value, key=context.idempotency_key)
    if isinstance(value, Job):
        raise NotAJob(f"{tool.name} returned a Job: say job=True where it is declared")
    return shaped(value, tool, max_chars, context.language)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for, so that an alternative, which is built once per tool, knows it."""

    arguments: dict[str, Any]
    context: ToolContext
    max_chars: int


def _alternative(tool: Tool) -> Callable[[AttemptInfo], Any]:
    async def alternative(info: AttemptInfo) -> Any:
        asked = info.arguments
        value = tool.call_alternative(asked.arguments, asked.context)
        if isinstance(value, Awaitable):
            value = await value
        return shaped(value, tool, asked.max_chars, asked.context.language)

    return alternative


def _key(arguments: dict[str, Any]) -> str:
    return orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()

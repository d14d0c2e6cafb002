"""Make the tool calls of one step: each watched, guarded, journaled and answered exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.core.digest import idempotency_key
from worker.core.effects import CallTools
from worker.core.errors import ToolError, WorkerError
from worker.core.events import (
    Away,
    CallHeld,
    Event,
    JobPolled,
    JobStarted,
    ToolReturned,
    ToolStarted,
)
from worker.core.messages import Observation, Source, ToolCall
from worker.core.observing import called_off, refused, unknown_outcome
from worker.core.task import Task
from worker.guard.policy import Outcome
from worker.registry import Registry, Tool
from worker.running.groups import Groups, MakeClient
from worker.running.handoffs import HandoffRules
from worker.running.interrupting import Interrupted, Interruptions
from worker.running.observe import observation_of
from worker.running.recorder import Recorder
from worker.running.toolguard import ToolGuards
from worker.running.waitingroom import WaitingRoom
from worker.telemetry.signals import ToolCalling
from worker.telemetry.tell import Telemetry
from worker.toolcontext import ToolContext
from worker.toolkit.job import Job

Made = Observation | JobStarted  # what comes of running a tool


@dataclass(frozen=True, slots=True)
class CallerOptions:
    """What every call shares. `max_result_chars` bounds what the model sees of one result."""

    max_result_chars: int = 20_000
    http: Any = None
    fetch: Callable[..., Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    redact: Callable[[str], str] = str
    cookie_client: MakeClient | None = None
    keeps_state: bool = True  # in the journal; else only in memory
    approvals: frozenset[str] | None = None  # tools that need one; None: those that say so


class ToolCaller:
    """Performs `CallTools`. Calls run side by side, those of one sequential group in call order."""

    def __init__(
        self,
        registry: Registry,
        guards: ToolGuards,
        telemetry: Telemetry,
        options: CallerOptions,
        rules: HandoffRules,
        waiting: WaitingRoom,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._guards = guards
        self._telemetry = telemetry
        self._options = options
        self._rules = rules
        self._waiting = waiting
        self._clock = clock
        self._wall = wall
        self.interruptions = Interruptions()

    def away(self, names: Iterable[str]) -> list[Away]:
        """Tell which of these tools their breakers keep away now. Takes nothing."""
        tools = (self._registry.get(name) for name in names)
        return self._guards.away([tool for tool in tools if tool is not None], self._clock())

    async def perform(self, effect: CallTools, task: Task, recorder: Recorder) -> None:
        """Answer every call of the effect; each observation is journaled as it comes.

        A failed call is an observation, never an exception; what raises is the journal.
        Cancelled: running calls are cancelled and stay unanswered (in doubt, if they had intents).
        When the *run* is cancelled, reads are interrupted, what has not begun does not begin, and
        both are answered; effects that have begun are waited for.
        """
        for call, observation in effect.answered:
            await self.answer(call, observation, effect.step, recorder)
        lanes: dict[str, list[ToolCall]] = {}
        for call in effect.calls:
            lanes.setdefault(self._lane_of(call), []).append(call)
        work = [self._lane(lane, effect, task, recorder) for lane in lanes.values()]
        work += [self._poll(*each, task, recorder) for each in effect.polls]
        if len(work) == 1:
            await work[0]
            return
        failed: ExceptionGroup[Exception] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for each in work:
                    group.create_task(each)
        except ExceptionGroup as several:
            failed = several
        if failed is not None:
            # One cause stopped them all, and what is done about it depends on its kind.
            raise _gravest(failed)

    def _lane_of(self, call: ToolCall) -> str:
        tool = self._registry.get(call.name)
        return (tool.sequential if tool else None) or f"call:{call.id}"

    async def _lane(
        self, calls: list[ToolCall], effect: CallTools, task: Task, recorder: Recorder
    ) -> None:
        for call in calls:
            if recorder.loop.handed_off is not None or recorder.run.cancel_requested:
                return  # the run is over, or a person takes over: what has not begun, need not
            ahead = self._ahead(call, recorder) if recorder.loop.waiting else None
            if call.problem is not None:
                await self.answer(call, refused(call), effect.step, recorder)
            elif ahead is not None:
                await recorder.record(CallHeld(self._wall(), call.id, ahead.id))
            else:
                await self._call(call, effect, task, recorder)

    def _ahead(self, call: ToolCall, recorder: Recorder) -> ToolCall | None:
        """The call of the same lane that comes before this one and waits."""
        for other in recorder.loop.unanswered:
            if other.id == call.id:
                break
            if self._lane_of(other) == self._lane_of(call) and recorder.loop.waiting.waits(
                other.id
            ):
                return other
        return None

    async def answer(
        self, call: ToolCall, observation: Observation, step: int, recorder: Recorder
    ) -> None:
        """Give a call an observation that needs no running of its tool."""
        # That a job began was told as a call that went well; it counts again only if it did not.
        if call.id not in recorder.loop.waiting.jobs or observation.source is not Source.LIVE:
            with self._telemetry.watch(self._operation(call, step)) as operation:
                _settle(operation, observation)
        await self._record(call, observation, recorder)

    async def _call(
        self, call: ToolCall, effect: CallTools, task: Task, recorder: Recorder
    ) -> None:
        tool = self._registry.get(call.name)
        may_run = call.id in effect.approved or call.id in effect.in_doubt
        if tool is not None and self._needs_approval(tool) and not may_run:
            return await self._waiting.ask(call, task, recorder)
        with self._telemetry.watch(self._operation(call, effect.step)) as operation:
            if tool is None:
                # The tool was there when the model asked, and left with a deploy.
                gone = unknown_outcome(language=recorder.loop.language, reason="tool_gone")
                made: Made = gone
            else:
                made = await self._run(tool, call, effect, task, recorder)
                operation.breaker_state = self._guards.state_of(tool)
            if isinstance(made, JobStarted):
                operation.source, operation.status_code = str(Source.LIVE), 202
                kept = self._taken_back(call, recorder, at=made.at)
                return await self._waiting.begin(call, made, task, recorder, also=kept)
            _settle(operation, made)
            return await self._record(call, made, recorder)

    def _needs_approval(self, tool: Tool) -> bool:
        known = self._options.approvals
        if known is None or (tool.is_foreign and tool.requires_approval):
            return tool.requires_approval
        return tool.name in known

    async def _record(self, call: ToolCall, observation: Observation, recorder: Recorder) -> None:
        """Write the one observation of a call, and with it all that came of it."""
        returned = ToolReturned(self._wall(), call.id, observation)
        facts: list[Event] = [returned]
        handed_off = await self._rules.of_result(
            call, observation, at=returned.at, broken=recorder.broken_rules
        )
        if handed_off is not None:
            facts.append(handed_off)
        is_left_behind = observation.error_type in ("timeout", "cancelled")
        facts += self._taken_back(call, recorder, at=returned.at, is_left_behind=is_left_behind)
        tool = self._registry.get(call.name)
        await recorder.record(*facts, synced=tool is None or tool.effect != "read")

    def _taken_back(
        self, call: ToolCall, recorder: Recorder, *, at: float, is_left_behind: bool = False
    ) -> list[Event]:
        """What a call leaves to the others of its group, as a fact, if it is something new."""
        if recorder.groups is None:
            return []
        kept = recorder.groups.take_back(call.id, at=at, is_left_behind=is_left_behind)
        return [kept] if kept is not None and self._options.keeps_state else []

    def _groups_of(self, recorder: Recorder) -> Groups:
        if recorder.groups is None:
            make_client = self._options.cookie_client
            recorder.groups = Groups(
                recorder.loop.kept, telemetry=self._telemetry, make_client=make_client
            )
        return recorder.groups

    async def _run(
        self, tool: Tool, call: ToolCall, effect: CallTools, task: Task, recorder: Recorder
    ) -> Made:
        loop = recorder.loop
        key = idempotency_key(task.id, effect.step, call.id)
        context = self._context(task, call, key, loop.language)
        if tool.sequential is not None:
            self._groups_of(recorder).lend(tool.sequential, context)
        if loop.deadline is not None:
            context.deadline = self._clock() + max(0.0, loop.deadline - self._wall())
        in_doubt = call.id in effect.in_doubt
        if in_doubt and tool.effect == "write":
            if tool.job and await self._waiting.has_reported(key):
                # It must have begun, or nobody could have reported it under the call's own key.
                return self._waiting.started(call, tool, {"handle": key})
            return await self._reconcile(tool, call, context)
        if tool.effect == "read":
            return await self._interruptible(tool, call, context, recorder)
        if not in_doubt:
            await recorder.record(ToolStarted(self._wall(), call.id, key))
        return await self._guarded(tool, call, context)

    async def _interruptible(
        self, tool: Tool, call: ToolCall, context: ToolContext, recorder: Recorder
    ) -> Made:
        began = self._clock()
        try:
            with self.interruptions.wait(recorder.run):
                return await self._guarded(tool, call, context)
        except Interrupted:
            seconds = self._clock() - began
            return called_off(language=context.language, duration_seconds=seconds)

    async def _guarded(self, tool: Tool, call: ToolCall, context: ToolContext) -> Made:
        limit = self._options.max_result_chars
        outcome = await self._guards.call(tool, call.arguments or {}, context, max_chars=limit)
        made = self._observe(tool, call, outcome, context)
        if isinstance(made, JobStarted):
            return made
        lost = tool.effect == "write" and made.source is Source.UNKNOWN
        if lost and tool.verify is not None:
            return await self._reconcile(tool, call, context)
        return made

    async def _reconcile(self, tool: Tool, call: ToolCall, context: ToolContext) -> Made:
        # The effect may have happened: only the tool's own verify may say that it has not.
        unknown = unknown_outcome(language=context.language, reason="interrupted")
        if tool.verify is None:
            return unknown
        limit = self._options.max_result_chars
        outcome = await self._guards.verify(tool, call.arguments or {}, context, max_chars=limit)
        if outcome is None:
            return unknown
        if outcome.value is not None:
            return self._observe(tool, call, outcome, context)
        # verify said that nothing happened, so this is the first time that the effect is made; it
        # gets no second reconciliation, whatever becomes of it.
        again = await self._guards.call(tool, call.arguments or {}, context, max_chars=limit)
        return self._observe(tool, call, again, context)

    def _observe(
        self, tool: Tool, call: ToolCall, outcome: Outcome[Any], context: ToolContext
    ) -> Made:
        if tool.job and outcome.source is Source.LIVE:
            return self._waiting.started(call, tool, outcome.value or {})
        return observation_of(tool, outcome, language=context.language, redact=self._options.redact)

    async def _poll(self, call: ToolCall, job: JobStarted, task: Task, recorder: Recorder) -> None:
        """Ask a tool for a job that it began; what cannot be asked now is asked again later."""
        loop, tool, asked = recorder.loop, self._registry.get(call.name), Job()
        if tool is not None and tool.poll is not None:
            key = idempotency_key(task.id, loop.replies, call.id)
            context = self._context(task, call, key, loop.language)
            if loop.deadline is not None:
                context.deadline = self._clock() + max(0.0, loop.deadline - self._wall())
            limit = self._options.max_result_chars
            outcome = await self._guards.poll(tool, job.handle, context, max_chars=limit)
            if isinstance(outcome.error, ToolError) or isinstance(outcome.value, dict):
                observation = observation_of(
                    tool, outcome, language=loop.language, redact=self._options.redact
                )
                return await self.answer(call, observation, loop.replies, recorder)
            asked = outcome.value or asked
        poll_at = self._waiting.next_poll(job, asked.poll_after_seconds)
        await recorder.record(JobPolled(self._wall(), call.id, poll_at))
        return None

    def _context(self, task: Task, call: ToolCall, key: str, language: str) -> ToolContext:
        context = ToolContext(
            http=self._options.http,
            idempotency_key=key,
            task_id=task.id,
            session_id=task.session_id,
            tenant=task.tenant,
            language=language,
            call_id=call.id,
            options=self._options.options,
            clock=self._clock,
        )
        if self._options.fetch is not None:
            context.fetch = self._options.fetch
        return context

    def _operation(self, call: ToolCall, step: int) -> ToolCalling:
        tool = self._registry.get(call.name)
        return ToolCalling(
            tool_name=call.name,
            arguments_hash=call.digest,
            step_count=step,
            call_id=call.id,
            dependency=tool.dependency if tool else "",
            known=tool is not None,
        )


def _gravest(failed: ExceptionGroup[Exception]) -> Exception:
    """The error that a group of calls is taken for: a bug, where one is among them."""
    first = failed.exceptions[0]
    return next((each for each in failed.exceptions if not isinstance(each, WorkerError)), first)


def _settle(operation: ToolCalling, observation: Observation) -> None:
    operation.execution_time = observation.duration_seconds
    operation.status_code = observation.status_code
    operation.result_size = observation.result_bytes
    operation.source = str(observation.source)
    operation.reason = observation.reason
    operation.attempts = observation.attempts
    operation.age_seconds = observation.age_seconds
    operation.retry_after_seconds = observation.retry_after_seconds
    operation.error_type = observation.error_type

"""Drive one run: perform the effects the loop asks for, journal the outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from worker.core.diagnosis import diagnose
from worker.core.effects import AddNote, CallModel, CallTools, ChangeSteps, CutHistory, Finish, Park
from worker.core.ending import degraded_rows, observations, result_of
from worker.core.errors import ModelError
from worker.core.events import (
    Ended,
    Event,
    HistoryCut,
    ModelFailed,
    ModelReplied,
    NoteAdded,
    Parked,
    Resumed,
    Started,
    StepsChanged,
)
from worker.core.fitting import ToolWords, words_of
from worker.core.limits import Status, final_status
from worker.core.loop import Loop
from worker.core.messages import Reply, ReplyKind
from worker.core.offering import concerning
from worker.core.opening import Opening, limits_of, open_run
from worker.core.sessionbounds import SessionOptions
from worker.core.settlement import Deliveries, Settlement, settle_ended, settle_parked
from worker.core.task import Result, Task
from worker.model.port import Model, ModelRequest, OfferedTool
from worker.registry import Registry
from worker.running.calls import ToolCaller
from worker.running.handoffs import HandoffRules, broken_rule
from worker.running.interrupting import Interrupted
from worker.running.recorder import Recorder
from worker.running.sessions import SessionKeeper
from worker.running.waitingroom import WaitingRoom
from worker.store.port import Journal, Opened
from worker.telemetry.signals import RunLoop, RunParked, RunResumed, Step, StepUpdated
from worker.telemetry.tell import Telemetry

WORDS_MAX = 256  # sets of tools whose words are kept: tasks name few different ones


@dataclass(frozen=True, slots=True)
class RunEnd:
    """What became of one execution: what to tell the queue, and the result if there is one."""

    settlement: Settlement
    result: Result | None = None


class Runner:
    """Executes runs, any number at once; it holds nothing of any of them."""

    def __init__(
        self,
        *,
        model: Model,
        registry: Registry,
        caller: ToolCaller,
        waiting: WaitingRoom,
        journal: Journal,
        telemetry: Telemetry,
        opening: Opening,
        rules: HandoffRules,
        worker: str,
        wall: Callable[[], float],
        sessions: SessionOptions | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.model = model
        self._registry = registry
        self._caller = caller
        self._waiting = waiting
        self._journal = journal
        self._sessions = SessionKeeper(journal, sessions or SessionOptions())
        self._telemetry = telemetry
        self._opening = opening
        self._rules = rules
        self._worker = worker
        self._wall = wall
        self._redact = redact
        self._words: dict[tuple[str, ...], tuple[ToolWords, ...]] = {}

    def close(self) -> None:
        """Let idle threads go."""
        self._rules.close()

    def interrupt(self, run_id: str) -> None:
        """End what a run waits for whose cancel has been noted in its `Run`: the model, and reads.

        Tools with an effect are left alone: what they have begun, they finish. May be repeated.
        """
        self._caller.interruptions.interrupt(run_id)

    async def run(
        self,
        task: Task,
        opened: Opened,
        deliveries: Deliveries,
        *,
        history: list[dict[str, Any]] | None = None,
    ) -> RunEnd:
        """Take a run from where its journal stands to an end, and write its result.

        `history` stands for the conversation of the session. The session of a run that is to be
        tried again stays its own; one that is parked lets go of it.

        Raises LeaseLost when somebody else owns the run, StoreUnavailable, and IllegalEvent for a
        journal that contradicts itself. Cancelled: what is journaled stays; the caller releases.
        """
        assert opened.run is not None
        loop = Loop.replay(limits_of(task, self._opening.limits), opened.events)
        recorder = Recorder(loop, opened.run, self._journal, self._telemetry)
        offered = self._offered(task, loop)
        if loop.started is None:
            said = list(opened.history) if history is None else history
            recorder.defer(self._begun(task, offered, said))
        elif loop.parked is not None:
            self._resume(loop.parked, recorder, deliveries)
        elif loop.failed is not None:
            recorder.defer(Resumed(self._wall(), deliveries.number))
        with self._telemetry.watch(self._operation(task, loop, opened)) as operation:
            try:
                effect = await self._drive(task, loop, recorder, offered)
                return await self._end(effect, loop, recorder, deliveries, operation)
            finally:
                _describe(operation, loop, self._wall())

    def _begun(
        self, task: Task, offered: list[OfferedTool], history: list[dict[str, Any]] | None
    ) -> Started:
        return open_run(
            task,
            self._opening,
            now=self._wall(),
            tools=tuple(tool.name for tool in offered),
            words=self._words_of(tuple(tool.name for tool in offered)),
            history=history,
        )

    def _words_of(self, names: tuple[str, ...]) -> tuple[ToolWords, ...]:
        known = self._words.get(names)
        if known is None:
            if len(self._words) >= WORDS_MAX:
                self._words.clear()
            known = self._words[names] = words_of(self._registry.offered(names))
        return known

    def _resume(self, parked: Parked, recorder: Recorder, deliveries: Deliveries) -> None:
        now = self._wall()
        recorder.defer(Resumed(now, deliveries.number, reason="woken"))
        waited = max(0.0, now - parked.at)
        self._telemetry.tell(RunResumed(recorder.run.id, parked.reason, waited))

    def _offered(self, task: Task, loop: Loop) -> list[OfferedTool]:
        # A resumed run is offered what it was offered when it began, as far as it is still there.
        if loop.started is None:
            return self._registry.offered(task.tools)
        return self._registry.offered(self._still_there(loop))

    def _still_there(self, loop: Loop) -> tuple[str, ...]:
        names = loop.started.tools if loop.started else ()
        return tuple(name for name in names if name in self._registry)

    async def _drive(
        self, task: Task, loop: Loop, recorder: Recorder, offered: list[OfferedTool]
    ) -> Finish | Park:
        while True:
            if recorder.run.cancel_requested and loop.ended is None:
                ended = Ended(self._wall(), Status.CANCELLED, "cancelled on request")
                await recorder.record(ended)
            if loop.waiting.was_used and loop.ended is None:
                await self._waiting.hear(task, recorder, self._caller.answer)
            effect = loop.next(self._wall())
            match effect:
                case CallModel() if self._tools_changed(loop, recorder):
                    continue  # the request has to be made again, with what was learned
                case CallModel():
                    await self._step(effect, task, recorder, offered)
                case CallTools():
                    with self._telemetry.watch(Step(effect.step, outcome="tool_calls")):
                        await self._caller.perform(effect, task, recorder)
                case AddNote():
                    note = NoteAdded(self._wall(), effect.kind, effect.text)
                    await recorder.record(note, synced=False)
                case CutHistory():  # written with the reply: after a crash it would come out again
                    recorder.defer(HistoryCut(self._wall(), effect.turns, effect.whole))
                case ChangeSteps():
                    changed = StepsChanged(self._wall(), effect.max_steps, effect.reason)
                    await recorder.record(changed, synced=False)
                case _:
                    return effect

    def _tools_changed(self, loop: Loop, recorder: Recorder) -> bool:
        """Note which tools their breakers keep away, if that is not as it was.

        Written with the reply: until then nobody has acted on it.
        """
        assert loop.started is not None
        names = self._still_there(loop)
        away = self._caller.away(names)
        if away:
            away = concerning(
                away,
                question=str(loop.started.task["input"]),
                history=loop.started.history,
                words=self._words_of(names),
                called=frozenset(call.name for _, call, _ in loop.observed),
            )
        change = loop.offering.change(away, self._wall())
        if change is not None:
            recorder.defer(change)
        return change is not None

    async def _step(
        self, effect: CallModel, task: Task, recorder: Recorder, offered: list[OfferedTool]
    ) -> None:
        """One model reply and the calls that it asks for, under one span."""
        loop = recorder.loop
        with self._telemetry.watch(Step(effect.step)) as step:
            await self._think(effect, task, recorder, offered)
            if loop.failed is not None or recorder.run.cancel_requested:
                step.outcome = "error"
                step.error_type = "other" if loop.failed is not None else "cancelled"
                return
            kind = loop.last.kind if loop.last else None
            step.outcome = "final_answer" if kind is ReplyKind.ANSWER else "tool_calls"
            following = loop.next(self._wall())
            if isinstance(following, CallTools):
                await self._caller.perform(following, task, recorder)

    async def _think(
        self, effect: CallModel, task: Task, recorder: Recorder, offered: list[OfferedTool]
    ) -> None:
        request = _request(effect, task, offered)
        try:
            reply = await self._reply(request, recorder)
        except Interrupted:
            return  # the loop sees that the run is cancelled
        except ModelError as error:
            failure = ModelFailed(
                at=self._wall(),
                status=error.status,
                error=self._redact(str(error)),  # a server may say anything, our own key as well
                transient=error.transient,
                text=error.text,
                retry_after_seconds=error.retry_after_seconds,
                attempted=error.attempted,
            )
            await recorder.record(failure)
        else:
            await self._replied(reply, recorder)

    async def _replied(self, reply: Reply, recorder: Recorder) -> None:
        replied = ModelReplied(self._wall(), reply)
        facts: list[Event] = [replied]
        if reply.text and reply.kind not in (ReplyKind.CALLS, ReplyKind.EMPTY):
            found = await self._rules.of_answer(
                reply.text, at=replied.at, broken=recorder.broken_rules
            )
            facts += [found] if found else []
        if reply.kind is ReplyKind.ANSWER:
            # Nothing takes an answer back, so the end of the run follows at once: one write.
            for fact in facts:
                recorder.defer(fact)
        else:
            await recorder.record(*facts, synced=False)

    async def _reply(self, request: ModelRequest, recorder: Recorder) -> Reply:
        """Ask the model; a cancel of the run ends the waiting. Raises Interrupted for that."""
        with self._caller.interruptions.wait(recorder.run):
            return await self.model.reply(request)

    async def _end(
        self,
        effect: Finish | Park,
        loop: Loop,
        recorder: Recorder,
        deliveries: Deliveries,
        operation: RunLoop,
    ) -> RunEnd:
        now = self._wall()
        if isinstance(effect, Park):
            operation.parked = effect.reason
            return await self._park(effect, loop, recorder)
        settlement = settle_ended(
            effect.status,
            effect.error,
            deliveries,
            hint_seconds=effect.retry_after_seconds,
            attempted=effect.attempted or deliveries.limit == 1,
        )
        if settlement.action == "retry":
            operation.error = effect.error
            hold = settlement.delay_seconds
            await self._journal.release(recorder.run, hold_seconds=hold)
            return RunEnd(settlement)
        if loop.waiting:
            await self._waiting.leave(recorder.run.id)
        words = self._words_of(self._still_there(loop))
        result = result_of(
            loop,
            effect,
            ended_at=now,
            worker=self._worker,
            words=words,
            trace_id=self._telemetry.trace_id(),
            redrives=recorder.run.redrives,
            diagnosis=(
                *diagnose(loop, effect, words),
                *map(broken_rule, sorted(recorder.broken_rules)),
            ),
        )
        await self._sessions.finish(recorder.run, loop, recorder.unwritten(), result)
        self._telemetry.tell(StepUpdated(result.task_id, recorder.run.next_seq, "", is_final=True))
        operation.handoff_rule = result.handoff.rule if result.handoff else None
        operation.status = str(result.status)
        operation.error = result.error
        operation.symptoms = tuple(sign.symptom for sign in result.diagnosis)
        return RunEnd(settlement, result)

    async def _park(self, effect: Park, loop: Loop, recorder: Recorder) -> RunEnd:
        now = self._wall()
        await recorder.record(Parked(now, effect.reason, effect.until, effect.call_id))
        await self._sessions.park(recorder.run, loop, effect.reason)
        tools = tuple(c.name for c in loop.unanswered if loop.waiting.undecided(c.id))
        self._telemetry.tell(RunParked(recorder.run.id, effect.reason, effect.until, tools))
        return RunEnd(settle_parked(max(0.0, (effect.until or now) - now), effect.reason))

    def _operation(self, task: Task, loop: Loop, opened: Opened) -> RunLoop:
        return RunLoop(
            task_id=task.id,
            session_id=task.session_id or task.id,
            user_input=task.input,
            start_time=self._wall(),
            model=self.model.name,
            resumed=bool(opened.events),
        )


def _request(effect: CallModel, task: Task, offered: list[OfferedTool]) -> ModelRequest:
    """The request of a step: without the tools that are withheld, but never of another form.

    A history with results and no tools at all is refused by some servers, so when nothing else is
    left, all stay in the schema and none may be called.
    """
    withheld = [tool for tool in offered if tool.name in effect.withheld]
    tools = [tool for tool in offered if tool.name not in effect.withheld] if withheld else offered
    allow_calls = effect.allow_calls
    if not tools and any(message.role == "tool" for message in effect.messages):
        tools, allow_calls = offered, False
    return ModelRequest(
        messages=effect.messages,
        tools=tools,
        allow_calls=allow_calls,
        withheld=withheld,
        seconds_left=effect.seconds_left,
        run_id=task.id,
        stay=effect.stay,
    )


def _describe(operation: RunLoop, loop: Loop, now: float) -> None:
    operation.total_steps = loop.replies
    operation.max_steps = loop.max_steps
    operation.max_steps_reason = loop.max_steps_reason
    operation.cost = loop.usage.cost
    operation.end_time = max(now, operation.start_time)
    operation.final_status = "success" if operation.parked else "error"
    if operation.status:
        operation.final_status = final_status(operation.status)
    operation.degraded = tuple(
        str(o.source)
        for _, o in degraded_rows(loop)
        if o.source not in ("live", "error") or o.dependency_failed
    )
    operation.tool_calls = len(observations(loop))
    operation.models = loop.models
    operation.model_calls = loop.usage.model_calls
    operation.prompt_tokens = loop.usage.prompt_tokens
    operation.completion_tokens = loop.usage.completion_tokens

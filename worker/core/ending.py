"""How a run ends: which limit was reached, with which answer, and the result for the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from worker.core.effects import Finish
from worker.core.errors import IllegalEvent
from worker.core.events import Ended, HandedOff, ModelFailed
from worker.core.fitting import ToolWords
from worker.core.gate import INVENTED_VALUE, Evidence, enforce, with_suspects
from worker.core.honesty import manifest, with_notes
from worker.core.limits import Status
from worker.core.messages import Observation, Reply, ReplyKind, Source, ToolCall
from worker.core.observing import unknown_outcome
from worker.core.task import CallRecord, Handoff, Result, Symptom
from worker.core.texts import HANDED_OFF, NO_INFORMATION, SKIPPED

if TYPE_CHECKING:
    from worker.core.loop import Loop

_EMPTY_RESULTS = 2  # results without information in a row
_REPLY_STATUS = {
    ReplyKind.ANSWER: Status.COMPLETED,
    ReplyKind.LENGTH: Status.INCOMPLETE_LENGTH,
    ReplyKind.CONTENT_FILTERED: Status.CONTENT_FILTERED,
    ReplyKind.REFUSED: Status.REFUSED,
}


def limit_reached(loop: Loop, now: float) -> Finish | None:
    """The ending that a limit demands now, or None while the run may go on.

    A complete answer always wins: no limit takes back what is there already.
    """
    if loop.last is not None and loop.last.kind in _REPLY_STATUS:
        return None
    limits, text = loop.limits, loop.last.text if loop.last else ""
    if loop.deadline is not None and now >= loop.deadline:
        return Finish(Status.DEADLINE, text, "the deadline of the task has passed")
    spent = _overspent(loop)
    if spent is not None:
        return Finish(Status.BUDGET, text, spent)
    if loop.empty_replies > limits.max_empty_replies:
        return Finish(Status.EMPTY_RESPONSE, "", f"{loop.empty_replies} empty replies in a row")
    if loop.invalid_turns >= limits.max_invalid_turns:
        return Finish(
            Status.TOOL_ERRORS, text, f"{loop.invalid_turns} replies in a row without a valid call"
        )
    repeats = loop.repetition.count
    if repeats >= limits.max_repeats:
        return Finish(
            Status.LOOP_DETECTED, text, f"the same call with the same result {repeats} times"
        )
    if loop.empty_results >= _EMPTY_RESULTS and not loop.unanswered:
        return Finish(Status.NO_INFORMATION, NO_INFORMATION[loop.language])
    return None


def _overspent(loop: Loop) -> str | None:
    """Which budget is used up, or cannot be kept."""
    limits, usage = loop.limits, loop.usage
    used = loop.tokens_used
    if limits.tokens is not None and used >= limits.tokens:
        guessed = " (guessed in part: the endpoint tells no usage)" if usage.guessed_tokens else ""
        return f"{used} tokens used{guessed}, the budget is {limits.tokens}"
    if limits.cost is None:
        return None
    if loop.unpriced is not None:
        return (
            f"budget.cost cannot be kept: the cost of a reply by {loop.unpriced[:80]!r} is not"
            " known (LOOPWORKER_PRICES)"
        )
    if usage.cost is not None and usage.cost >= limits.cost:
        return f"cost {usage.cost:g}, the budget is {limits.cost:g}"
    return None


def answered(loop: Loop, reply: Reply) -> Finish:
    """The ending of a reply that is an answer, cut, filtered or refused."""
    error = None if reply.kind is ReplyKind.ANSWER else f"finish_reason {reply.finish_reason}"
    return Finish(_REPLY_STATUS[reply.kind], reply.text, error)


def check_handoff(loop: Loop, event: HandedOff) -> None:
    """Refuse a hand-off by something that is not there. Raises IllegalEvent."""
    if event.source == "answer":
        if loop.last is None or loop.last.kind in (ReplyKind.CALLS, ReplyKind.EMPTY):
            raise IllegalEvent("HandedOff by an answer that is not there")
    elif event.call_id not in loop.returned and not any(
        call.id == event.call_id for _, call, _ in loop.observed
    ):
        raise IllegalEvent(f"HandedOff by call {event.call_id!r}, which has no observation")


def handed_off(loop: Loop, event: HandedOff) -> Finish:
    """A rule found that a person has to take over: the model's words stand, if it has answered."""
    is_answer = event.source == "answer" and loop.last is not None
    text = loop.last.text if is_answer and loop.last else HANDED_OFF[loop.language]
    return Finish(Status.HANDOFF, text)


def out_of_steps(loop: Loop) -> Finish:
    """The closing turn gave no answer."""
    text = loop.last.text if loop.last else ""
    return Finish(Status.MAX_STEPS, text, f"no answer within {loop.max_steps} steps")


def failed(loop: Loop, failure: ModelFailed) -> Finish:
    """The model gave no usable reply."""
    return Finish(
        failure.status,
        failure.text,
        failure.error,
        failure.transient,
        failure.retry_after_seconds,
        failure.attempted,
    )


def ended(loop: Loop, event: Ended) -> Finish:
    """Somebody outside ended the run."""
    return Finish(event.status, loop.last.text if loop.last else "", event.error or None)


def seconds_left(loop: Loop, now: float) -> float | None:
    """Time until the deadline of the run, None when it has none."""
    return None if loop.deadline is None else max(0.0, loop.deadline - now)


def observations(loop: Loop) -> list[tuple[ToolCall, Observation]]:
    """Every call of the run with its observation; calls left unanswered count as skipped.

    But not those that had begun and may have had their effect: nobody knows what became of it.
    """
    rows = [(call, observation) for _, call, observation in loop.observed]
    if not loop.pending:
        return rows
    language, returned = loop.language, loop.returned
    skipped = Observation(SKIPPED[language], Source.SKIPPED, reason="run_ended", status_code=499)
    unknown = unknown_outcome(language=language, reason="interrupted")
    for call in loop.pending.values():
        left = unknown if call.id in loop.in_doubt else skipped
        rows.append((call, returned.get(call.id, left)))
    return rows


def degraded_rows(loop: Loop) -> list[tuple[str, Observation]]:
    """Every observation of the run by the name of its tool, and a row for each tool it lacked."""
    named = [(call.name, observation) for call, observation in observations(loop)]
    return [*named, *loop.offering.skipped(loop.language)]


def result_of(
    loop: Loop,
    finish: Finish,
    *,
    ended_at: float,
    worker: str = "",
    words: Sequence[ToolWords] = (),
    trace_id: str | None = None,
    redrives: int = 0,
    diagnosis: Sequence[Symptom] = (),
) -> Result:
    """Build the result of a run, with everything in it that the caller must not miss.

    `words` say what the tools of the run are about, `diagnosis` what is known of it besides what the
    honesty gate finds.
    """
    assert loop.started is not None
    rows = observations(loop)
    named = [(call.name, observation) for call, observation in rows]
    evidence = evidence_of(loop, named)
    evidence = with_suspects(evidence, finish.answer, loop.offering.skipped(loop.language), words)
    answer, is_altered = enforce(finish.answer, evidence, action=loop.limits.honesty_gate)
    if answer or finish.status == Status.COMPLETED:
        unsaid = [*named, *loop.offering.unsaid(loop.language)]
        answer = with_notes(answer, unsaid, language=loop.language)
    return Result(
        task_id=str(loop.started.task["id"]),
        session_id=loop.started.task.get("session_id"),
        status=finish.status,
        answer=answer,
        steps=loop.replies,
        tool_calls=tuple(_record(call, observation) for call, observation in rows),
        degraded=manifest(degraded_rows(loop)),
        model_calls=loop.usage.model_calls,
        prompt_tokens=loop.usage.prompt_tokens,
        completion_tokens=loop.usage.completion_tokens,
        cost=loop.usage.cost,
        started_at=loop.started.at,
        ended_at=max(ended_at, loop.started.at),
        worker=worker,
        models=loop.models,
        diagnosis=((INVENTED_VALUE,) if is_altered else ()) + tuple(diagnosis),
        error=finish.error,
        trace_id=trace_id,
        redrives=redrives,
        handoff=_handoff(loop, rows) if finish.status == Status.HANDOFF else None,
    )


def evidence_of(loop: Loop, named: list[tuple[str, Observation]]) -> Evidence:
    """What the model of a run could know, with its observations by the names of the tools.

    A tool that the run lacked counts as long as the question is about it.
    """
    assert loop.started is not None
    history = (str(message.get("content") or "") for message in loop.started.history)
    return Evidence(
        question=str(loop.started.task["input"]),
        observed=[*named, *loop.offering.concerned(loop.language)],
        told=(*history, loop.started.system_prompt),
        language=loop.language,
        at=loop.started.at,
    )


def _handoff(loop: Loop, rows: list[tuple[ToolCall, Observation]]) -> Handoff | None:
    event = loop.handed_off
    if event is None:
        return None
    tool = None
    if event.source == "result":
        # An id may come again in a later reply; the last one is meant.
        tool = next((call.name for call, _ in reversed(rows) if call.id == event.call_id), None)
    return Handoff(event.rule, event.reason, event.source, tool, event.call_id)


def _record(call: ToolCall, observation: Observation) -> CallRecord:
    return CallRecord(
        id=call.id,
        name=call.name,
        arguments_hash=call.digest,
        source=str(observation.source),
        duration_s=observation.duration_seconds,
        attempts=observation.attempts,
    )

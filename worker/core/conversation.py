"""What a run leaves in the conversation of its session: one turn, trimmed and paired.

A turn is the question, the rounds of calls with their results, and the answer as its reader got it:
with the notes on what was missing, and without figures that the gate took out. So a later run takes
neither a stub nor an invention for a fact.
"""

from __future__ import annotations

from typing import Any

from worker.core.ending import evidence_of, observations
from worker.core.history import RawMessage, tokens_of, tokens_of_text
from worker.core.limits import Status
from worker.core.loop import Loop
from worker.core.messages import Observation, Source
from worker.core.sessionbounds import TurnBounds
from worker.core.task import Result
from worker.core.texts import (
    LEFT_OPEN,
    NO_ANSWER,
    STUB_THEN,
    UNFINISHED_ANSWER,
    shortened,
)

# The server refused the request, perhaps for what was asked: said again, it would refuse every
# later turn as well.
_REFUSED_BY_SERVER = frozenset(
    {
        Status.BAD_REQUEST,
        Status.CONTENT_FILTERED,
        Status.CONTEXT_OVERFLOW,
        Status.PROTOCOL_ERROR,
        Status.REJECTED,
    }
)
_ANSWERED = frozenset({Status.COMPLETED, Status.HANDOFF, Status.NO_INFORMATION, Status.REFUSED})

Round = tuple[RawMessage, list[RawMessage]]


def turn_of(loop: Loop, result: Result, bounds: TurnBounds) -> tuple[RawMessage, ...]:
    """The turn of a run that has ended; empty when it should leave none."""
    rounds = _rounds(loop, bounds)
    if result.status in _REFUSED_BY_SERVER and not rounds:
        return ()
    return _fitted(_question(loop), rounds, _answer(result, loop.language), bounds, loop.language)


def open_turn(loop: Loop, reason: str, bounds: TurnBounds) -> tuple[RawMessage, ...]:
    """The turn of a run that waits for a time, a job or a person; its end replaces it."""
    note = LEFT_OPEN[loop.language].format(reason=reason)
    return _fitted(_question(loop), [], note, bounds, loop.language)


def _question(loop: Loop) -> str:
    assert loop.started is not None
    return str(loop.started.task["input"])


def _answer(result: Result, language: str) -> str:
    if not result.answer:
        return NO_ANSWER[language].format(status=result.status)
    if result.status in _ANSWERED:
        return result.answer
    return f"{result.answer}\n{UNFINISHED_ANSWER[language].format(status=result.status)}"


def _rounds(loop: Loop, bounds: TurnBounds) -> list[Round]:
    """The model's messages with calls, each with its results, in the form in which they are kept."""
    observed = [(call.name, observation) for call, observation in observations(loop)]
    is_degraded = evidence_of(loop, observed).is_degraded
    rows = iter(observed)
    rounds: list[Round] = []
    for message in loop.calling:
        # What a model says while it lacks something may be invented, and no gate has read it.
        kept = {**message, "content": None} if is_degraded else message
        results = []
        for call in message["tool_calls"]:
            tool, observation = next(rows)
            content = _told(tool, observation, bounds.result_chars, loop.language)
            results.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        rounds.append((kept, results))
    return rounds


def _told(tool: str, observation: Observation, chars_max: int, language: str) -> str:
    if observation.source is Source.STUB:
        return STUB_THEN[language].format(stub=observation.stub, tool=tool)
    return shortened(observation.content, max_chars=chars_max, language=language)


def _fitted(
    question: str, rounds: list[Round], answer: str, bounds: TurnBounds, language: str
) -> tuple[RawMessage, ...]:
    """Build the turn within its bound: the oldest rounds leave first, then the texts are cut."""
    half = bounds.turn_tokens // 2
    asked: RawMessage = {"role": "user", "content": _cut(question, half, language)}
    told: RawMessage = {"role": "assistant", "content": _cut(answer, half, language)}
    left = bounds.turn_tokens - tokens_of(asked) - tokens_of(told)
    kept: list[Round] = []
    for message, results in reversed(rounds):
        left -= tokens_of(message) + sum(map(tokens_of, results))
        if left < 0:
            break
        kept.append((message, results))
    middle: list[Any] = [m for message, results in reversed(kept) for m in (message, *results)]
    return (asked, *middle, told)


def _cut(text: str, tokens_max: int, language: str) -> str:
    kept, chars = text, len(text)
    while (tokens := tokens_of_text(kept)) > tokens_max and chars > 1:
        # Letters of one text cost about the same, so what fits follows nearly from the whole; the
        # ends that stay may be of dearer letters, and the note between them costs something too.
        chars = min(chars - 1, max(1, chars * tokens_max // tokens))
        kept = shortened(text, max_chars=chars, language=language)
    return kept

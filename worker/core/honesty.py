"""Say out loud what stood in for what: the degradation manifest, and the notes in the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from worker.core.messages import Observation, Source
from worker.core.task import Degradation
from worker.core.texts import (
    NOTE_ALTERNATIVE,
    NOTE_ERROR,
    NOTE_SKIPPED,
    NOTE_STALE,
    NOTE_STUB,
    NOTE_UNKNOWN,
)

_DEGRADED = {Source.ALTERNATIVE, Source.STALE, Source.STUB, Source.SKIPPED, Source.UNKNOWN}
# The dependency was not there. What a tool raised in its own words reached the model as an error.
_ABSENT = frozenset(
    {"timeout", "connection", "circuit_open", "bulkhead_full", "rate_limited", "http_5xx"}
    | {"not_configured"}
)
# Words by which an answer that already tells the truth is recognised; else a note is added. Whole
# words: "sold" and "gold" tell nothing of an old value.
_SAID = {
    Source.STALE: re.compile(
        r"旧值|旧数据|缓存|秒前|分钟前|\b(?:stale|cached|outdated|(?:seconds?|minutes?|s|min) (?:ago|old))\b"
    ),
    Source.ALTERNATIVE: re.compile(r"备用|\balternative\b"),
    Source.SKIPPED: re.compile(r"未执行|不完整|\b(?:was not run|incomplete)\b"),
    Source.ERROR: re.compile(
        r"失败|不可用|无法|未能|错误|超时|抱歉"
        r"|\b(?:fail(?:ed|s|ure)?|unavailable|unable|could not|couldn't|cannot|can't|timed out"
        r"|error|sorry)\b"
    ),
}


def degradation(tool: str, observation: Observation) -> Degradation | None:
    """What this observation degrades, or None for a full one.

    A mistake of the model is no degradation; a dependency's error is (decisions.md 2).
    """
    if observation.reason == "too_many_calls":
        return None
    if observation.source not in _DEGRADED and not observation.dependency_failed:
        return None
    return Degradation(
        tool=tool,
        source=str(observation.source),
        reason=observation.reason or observation.error_type,
        age_s=_rounded(observation.age_seconds),
        retry_after_s=_rounded(observation.retry_after_seconds),
    )


def manifest(observed: Iterable[tuple[str, Observation]]) -> tuple[Degradation, ...]:
    """One entry for each tool and source, the newest of each, in the order they first came up."""
    parts: dict[tuple[str, str], Degradation] = {}
    for tool, observation in observed:
        part = degradation(tool, observation)
        if part is not None:
            parts[part.tool, part.source] = part
    return tuple(parts.values())


def with_notes(answer: str, observed: Iterable[tuple[str, Observation]], *, language: str) -> str:
    """Add to the answer what it leaves unsaid, in the language of the question (invariant 7)."""
    rows = list(observed)
    tools = {source: {tool for tool, o in rows if o.source is source} for source in Source}
    notes: list[str] = []
    for tool, observation in rows:
        note = _note(tool, observation, language)
        alone = len(tools[observation.source]) == 1
        if note and note not in notes and not _is_said(answer, tool, observation, alone=alone):
            notes.append(note)
    return "\n".join([answer, *notes] if answer else notes)


def _note(tool: str, observation: Observation, language: str) -> str | None:
    match observation.source:
        case Source.STUB | Source.SKIPPED if observation.stub:
            return NOTE_STUB[language].format(stub=observation.stub, tool=tool)
        case Source.STALE:
            age = round(observation.age_seconds or 0)
            return NOTE_STALE[language].format(tool=tool, age=age)
        case Source.ALTERNATIVE:
            return NOTE_ALTERNATIVE[language].format(tool=tool)
        case Source.UNKNOWN:
            return NOTE_UNKNOWN[language].format(tool=tool)
        case Source.SKIPPED:
            return NOTE_SKIPPED[language].format(tool=tool)
        case Source.ERROR if {observation.error_type, observation.reason} & _ABSENT:
            return NOTE_ERROR[language].format(tool=tool)
        case _:
            return None


def _is_said(answer: str, tool: str, observation: Observation, *, alone: bool) -> bool:
    if observation.source is Source.STUB or observation.stub:
        return bool(observation.stub) and str(observation.stub) in answer
    words = _SAID.get(observation.source)
    if words is None or words.search(answer.lower()) is None:
        return False  # an unknown effect is told by us, whatever the model says of it
    # One mention speaks for one tool; with several it has to name this one, or its age.
    return alone or tool in answer or str(round(observation.age_seconds or -1)) in answer


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

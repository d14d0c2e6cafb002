"""Say out loud what stood in for what: the degradation manifest, and the notes in the answer."""

from __future__ import annotations

from collections.abc import Iterable

from worker.core.messages import Observation, Source
from worker.core.task import Degradation
from worker.core.texts import NOTE_ALTERNATIVE, NOTE_SKIPPED, NOTE_STALE, NOTE_STUB, NOTE_UNKNOWN

_DEGRADED = {Source.ALTERNATIVE, Source.STALE, Source.STUB, Source.SKIPPED, Source.UNKNOWN}
# Words by which an answer that already tells the truth is recognised; else a note is added.
_SAID = {
    Source.STALE: ("旧值", "旧数据", "缓存", "秒前", "分钟前", "stale", "cached", "old", " ago"),
    Source.ALTERNATIVE: ("备用", "alternative"),
    Source.UNKNOWN: ("未知", "核实", "unknown", "has to check"),
    Source.SKIPPED: ("未执行", "not run", "不完整", "incomplete"),
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
    notes: list[str] = []
    for tool, observation in observed:
        note = _note(tool, observation, language)
        if note and note not in notes and not _is_said(answer, observation):
            notes.append(note)
    return "\n".join([answer, *notes] if answer else notes)


def _note(tool: str, observation: Observation, language: str) -> str | None:
    match observation.source:
        case Source.STUB:
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
        case _:
            return None


def _is_said(answer: str, observation: Observation) -> bool:
    if observation.source is Source.STUB:
        return bool(observation.stub) and str(observation.stub) in answer
    lowered = answer.lower()
    return any(word in lowered for word in _SAID.get(observation.source, ()))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

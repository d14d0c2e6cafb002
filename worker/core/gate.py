"""The honesty gate: a degraded answer holds no figure that nobody told the model (decisions.md 15).

Admissible is what stands in the question, the conversation and the observations, in whatever form
it is written; what an honest answer reckons from it (`reckoning.py`); and what the notes themselves
say (seconds until a retry, the age of a value). Everything else was invented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from worker.core.dating import Calendar
from worker.core.figure import Figure
from worker.core.figures import figures
from worker.core.fitting import ToolWords, is_about, may_need_a_tool
from worker.core.honesty import with_notes
from worker.core.judging import Judge
from worker.core.known import Known
from worker.core.messages import Observation, Source
from worker.core.task import Symptom
from worker.core.texts import FIGURES_REMOVED, NOTE_ERROR, WITHDRAWN

INVENTED_VALUE = Symptom(
    "invented_value",
    "the model told figures that no tool gave while a tool was unavailable; they were taken out",
)
_GATED = {Source.STUB, Source.SKIPPED, Source.STALE, Source.UNKNOWN}
_TELLING = {Source.LIVE, Source.ALTERNATIVE, Source.STALE, Source.ERROR}
_CHARACTERS_MAX = 200_000
_FIGURES_MAX = 1000  # of an answer
_SENTENCE = re.compile(
    r"[^。!?;\uff01\uff1f\uff1b\n]*?(?:[。!?;\uff01\uff1f\uff1b\n]+|[.](?=\s|$)\s*|$)"
)
_LISTED = re.compile(r"[、,;\uff0c\uff1b和与及跟]|\b(?:and|or)\b")
_OF_MONEY = frozenset({"quote", "price", "rate", "balance", "invoice"})


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What the gate found: the figures of the answer that nobody told, as they are written."""

    invented: tuple[str, ...] = ()
    found: tuple[Figure, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the model could know: the question, the texts told before it, and every observation."""

    question: str
    observed: Sequence[tuple[str, Observation]]
    told: Sequence[str] = ()  # the system prompt and the messages of the session
    language: str = "en"
    at: float | None = None  # when the run began, wall clock: what 明天 means

    @property
    def is_degraded(self) -> bool:
        """Whether something is missing, so that a model may be tempted to invent it."""
        return any(
            (o.source in _GATED and o.reason != "too_many_calls")
            or (o.source is Source.ERROR and o.dependency_failed)
            for _, o in self.observed
        )


def check(
    answer: str,
    *,
    admissible: Iterable[str],
    said: Iterable[str] = (),
    counts: Iterable[int] = (),
    question: str = "",
    now: datetime | None = None,
) -> GateVerdict:
    """Find the figures of `answer` that follow from nothing.

    `admissible` are the texts with values; `said` are notes on what is missing, whose figures may
    be quoted but are no amount, no percentage and nothing to reckon with; `counts` are admissible
    where the answer counts something with them.
    `question` tells which relative days (明天) were asked for, `now` what they are.
    Beyond a thousand figures none is judged, and each counts as invented: judging them would keep
    the event loop from everybody else.
    """
    asked = figures(answer)
    if not asked:
        return GateVerdict()
    asked, beyond = asked[:_FIGURES_MAX], asked[_FIGURES_MAX:]
    calendar = Calendar(question)
    if now is not None:
        calendar.today = now.date()
        calendar.now = 3600.0 * now.hour + 60.0 * now.minute + now.second
    known = Known(calendar)
    texts, notes = list(admissible), list(said)
    for text in texts:
        known.take(text, is_question=text == question)
    for text in notes:
        known.take(text, is_note=True)
    known.settle([*texts, *notes], answer, asked)
    found = [*Judge(answer, asked, known, set(counts)).invented(), *beyond]
    return GateVerdict(tuple(figure.text for figure in found), tuple(found))


def enforce(answer: str, evidence: Evidence, *, action: str = "replace") -> tuple[str, bool]:
    """Return the answer as it may go out, and whether it had to be altered.

    `replace` gives the notes of what is missing instead; `remove` takes out the sentences that hold
    an invented figure. An answer of a run that lacks nothing is left alone, and so is any with
    `off`.
    """
    if action == "off" or not evidence.is_degraded:
        return answer, False
    found = _verdict(answer, evidence).found
    if not found:
        return answer, False
    if action == "remove":
        text = "".join(_parted(answer, found)[0]).strip()
        if text:
            return f"{text}\n{FIGURES_REMOVED[evidence.language]}", True
    return _replacement(evidence), True


def _parted(answer: str, found: Sequence[Figure]) -> tuple[list[str], list[str]]:
    """The sentences of an answer that hold none of these figures, and those that hold one."""
    parted: tuple[list[str], list[str]] = [], []
    for sentence in _SENTENCE.finditer(answer):
        holds = any(sentence.start() <= figure.start < sentence.end() for figure in found)
        parted[holds].append(sentence[0])
    return parted


def with_suspects(
    evidence: Evidence,
    answer: str,
    lacked: Iterable[tuple[str, Observation]],
    words: Iterable[ToolWords],
) -> Evidence:
    """Add to the evidence the tools that the run lacked and the answer has figures of.

    The question did not sound as if it were about them, and a sentence of the answer is, with a
    figure that nobody told: asked "and ACME?", a model may well give a price.
    """
    by_name = {each.name: each for each in words}
    known = {name for name, _ in evidence.observed}
    found = [(name, row) for name, row in lacked if name not in known and name in by_name]
    if not found or not may_need_a_tool(evidence.question):
        return evidence
    _, invented = _parted(answer, _verdict(answer, evidence).found)
    suspects = [
        (name, row) for name, row in found if any(_tells(s, by_name[name]) for s in invented)
    ]
    return replace(evidence, observed=[*evidence.observed, *suspects])


def _tells(sentence: str, tool: ToolWords) -> bool:
    if is_about(sentence, tool):
        return True
    return bool(tool.subjects & _OF_MONEY) and any(f.money for f in figures(sentence))


def _verdict(answer: str, evidence: Evidence) -> GateVerdict:
    rows = evidence.observed
    values = [o.content for _, o in rows if o.source in _TELLING]
    values += [o.stub for _, o in rows if o.stub]
    said = [o.content for _, o in rows if o.source not in _TELLING]
    said += [name for name, _ in rows]
    for _, o in rows:
        seconds = (o.retry_after_seconds, o.age_seconds)
        said += [f"{round(s)} s" for s in seconds if s is not None]
        if o.status_code != 200:
            said.append(f"HTTP {o.status_code}")
    listed = len(_LISTED.findall(evidence.question)) + 1
    counts = {*range(max(listed, len(rows)) + 1), *(o.attempts for _, o in rows)}
    counts.add(sum(o.attempts for _, o in rows))
    return check(
        answer,
        admissible=_bounded([evidence.question, *reversed(values), *reversed(evidence.told)]),
        said=said,
        counts=counts,
        question=evidence.question,
        now=None if evidence.at is None else datetime.fromtimestamp(evidence.at, UTC),
    )


def _bounded(texts: list[str]) -> list[str]:
    """The first texts, newest first, up to a bound: reading them costs time on the event loop."""
    left, kept = _CHARACTERS_MAX, []
    for text in texts:
        kept.append(text[:left])
        left -= len(kept[-1])
    return kept


def _replacement(evidence: Evidence) -> str:
    language = evidence.language
    errors = [
        NOTE_ERROR[language].format(tool=name)
        for name, o in evidence.observed
        if o.source is Source.ERROR and o.dependency_failed
    ]
    notes = with_notes("", evidence.observed, language=language)
    return "\n".join([*filter(None, [notes]), *dict.fromkeys(errors), WITHDRAWN[language]])

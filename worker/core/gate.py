"""The honesty gate: a degraded answer holds no figure that nobody told the model (decisions.md 15).

Admissible is what stands in the question, the conversation and the observations, in whatever form
it is written; sums, differences and products of two such numbers; and what the notes themselves say
(seconds until a retry, the age of a value). Everything else was invented.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import islice

from worker.core.figures import Figure, Kind, figures
from worker.core.fitting import ToolWords, is_about, may_need_a_tool
from worker.core.honesty import with_notes
from worker.core.messages import Observation, Source
from worker.core.task import Symptom
from worker.core.texts import FIGURES_REMOVED, NOTE_ERROR, WITHDRAWN

INVENTED_VALUE = Symptom(
    "invented_value",
    "the model told figures that no tool gave while a tool was unavailable; they were taken out",
)
_GATED = {Source.STUB, Source.SKIPPED, Source.STALE, Source.UNKNOWN}
_TELLING = {Source.LIVE, Source.ALTERNATIVE, Source.STALE, Source.ERROR}
_OPERANDS_MAX = 300  # among more numbers almost everything is the sum of two
_CHARACTERS_MAX = 200_000
_LATER_AT_MOST = 1.25  # told 27 s, "30 seconds" is honest
_CENTS = re.compile(r"(?:cents?|分|fen)[\"']?\s*[:=]\s*([0-9]{1,15})\b", re.IGNORECASE)
_SENTENCE = re.compile(
    r"[^。!?;\uff01\uff1f\uff1b\n]*?(?:[。!?;\uff01\uff1f\uff1b\n]+|[.](?=\s|$)\s*|$)"
)
_LISTED = re.compile(r"[、,;\uff0c\uff1b和与及跟]|\b(?:and|or)\b")
_CODE = re.compile(r"[0-9]{4,}")
_OF_MONEY = frozenset({"quote", "price", "rate", "balance", "invoice"})
_DAYS = {"昨": -1, "yesterday": -1, "明": 1, "tomorrow": 1, "后天": 2}


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What the gate found: the figures of the answer that nobody told, as they are written."""

    invented: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the model could know: the question, the texts told before it, and every observation."""

    question: str
    observed: Sequence[tuple[str, Observation]]
    told: Sequence[str] = ()  # the system prompt and the messages of the session
    language: str = "en"

    @property
    def is_degraded(self) -> bool:
        """Whether something is missing, so that a model may be tempted to invent it."""
        return any(
            (o.source in _GATED and o.reason != "too_many_calls")
            or (o.source is Source.ERROR and o.dependency_failed)
            for _, o in self.observed
        )


@dataclass(slots=True)
class _Known:
    """The admissible figures, in a form that is quick to ask."""

    corpus: str = ""
    numbers: list[float] = field(default_factory=list)
    quoted: list[float] = field(default_factory=list)  # of notes: never a price, never reckoned
    operands: Counter[float] = field(default_factory=Counter)
    sorted_operands: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    dates: set[tuple[int | None, ...]] = field(default_factory=set)
    times: set[tuple[int | None, ...]] = field(default_factory=set)

    def years(self) -> set[int | None]:
        """The years of the dates that were told."""
        return {told[0] for told in self.dates if told[0]}

    def take(self, text: str, *, is_note: bool) -> None:
        """Add the figures of a text: one with values, or one that only tells what is missing."""
        numbers = self.quoted if is_note else self.numbers
        reckoned: list[float] = []
        numbers += [int(cents) / 100 for cents in _CENTS.findall(text)]
        for figure in figures(text):
            if figure.kind is Kind.DATE:
                self.dates.add(figure.parts)
                continue
            if figure.kind is Kind.TIME:
                self.times.add(figure.parts)
                continue
            if figure.kind is Kind.IDENTIFIER:
                numbers += [float(run) for run in _CODE.findall(figure.text)]
                continue
            values = list(figure.values)
            if figure.kind is Kind.PERCENT:
                values += [value / 100 for value in values]
            if figure.kind is Kind.DURATION:
                self.seconds += [value * figure.unit for value in figure.values]
            numbers += values
            if not is_note:
                reckoned += values
        # A value told twice, in the question and by a tool, is one: it is not added to itself.
        self.operands |= Counter(reckoned)


def check(
    answer: str,
    *,
    admissible: Iterable[str],
    said: Iterable[str] = (),
    counts: Iterable[int] = (),
    question: str = "",
) -> GateVerdict:
    """Find the figures of `answer` that follow from nothing.

    `admissible` are the texts with values; `said` are notes on what is missing, whose figures may
    be quoted but are no amount, no percentage and nothing to reckon with; `counts` are admissible
    as plain integers.
    `question` tells which relative days (明天) were asked for.
    """
    asked = figures(answer)
    if not asked:
        return GateVerdict()
    known = _known(list(admissible), list(said), question)
    few = set(counts)
    return GateVerdict(tuple(f.text for f in asked if not _is_known(f, known, few)))


def enforce(answer: str, evidence: Evidence, *, action: str = "replace") -> tuple[str, bool]:
    """Return the answer as it may go out, and whether it had to be altered.

    `replace` gives the notes of what is missing instead; `remove` takes out the sentences that hold
    an invented figure. An answer of a run that lacks nothing is left alone, and so is any with
    `off`.
    """
    if action == "off" or not evidence.is_degraded:
        return answer, False
    invented = _verdict(answer, evidence).invented
    if not invented:
        return answer, False
    if action == "remove":
        kept = [s for s in _SENTENCE.findall(answer) if not _verdict(s, evidence).invented]
        text = "".join(kept).strip()
        if text:
            return f"{text}\n{FIGURES_REMOVED[evidence.language]}", True
    return _replacement(evidence), True


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
    invented = [s for s in _SENTENCE.findall(answer) if _verdict(s, evidence).invented]
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


def _known(admissible: list[str], said: list[str], question: str) -> _Known:
    known = _Known(corpus=_tight("\n".join([*admissible, *said])))
    for text in admissible:
        known.take(text, is_note=False)
    for text in said:
        known.take(text, is_note=True)
    known.numbers.sort()
    known.quoted.sort()
    known.sorted_operands = sorted(islice(known.operands.elements(), _OPERANDS_MAX))
    _add_relative_days(known, question.lower())
    return known


def _tight(text: str) -> str:
    return "".join(text.split()).casefold()  # iPhone15 is iPhone 15


def _add_relative_days(known: _Known, question: str) -> None:
    # Asked about 明天, an honest answer names the day after the one that a tool told.
    days = {offset for word, offset in _DAYS.items() if word in question}
    for year, month, day in [d for d in known.dates if None not in d]:
        try:
            told = date(year or 1, month or 1, day or 1)
        except ValueError:
            continue
        for offset in days:
            other = told + timedelta(days=offset)
            known.dates.add((other.year, other.month, other.day))


def _is_known(figure: Figure, known: _Known, counts: set[int]) -> bool:
    match figure.kind:
        case Kind.IDENTIFIER:
            is_short = sum(c.isdigit() for c in figure.text) < 2  # H5, GPT-4: a name
            return is_short or _tight(figure.text).rstrip(".") in known.corpus
        case Kind.DATE:
            return any(_same_date(figure.parts, told) for told in known.dates) or (
                figure.parts[1:] == (None, None)
                and _has(known.numbers, float(figure.parts[0] or 0), 0)
            )
        case Kind.TIME:
            return any(_same_time(figure.parts, told) for told in known.times)
        case Kind.DURATION:
            return _is_known_duration(figure, known)
        case _:
            is_count = figure.kind is Kind.NUMBER and figure.quantum == 1 and not figure.money
            if is_count and figure.values[0] in counts:
                return True
            return any(_is_known_number(figure, value, known) for value in figure.values)


def _is_known_number(figure: Figure, value: float, known: _Known) -> bool:
    half = figure.quantum / 2
    if figure.kind is Kind.NUMBER and not figure.money and value in known.years():
        return True
    if _has(known.numbers, value, half):
        return True
    if not figure.money and figure.kind is not Kind.PERCENT and _has(known.quoted, value, 0):
        return True
    if figure.kind is Kind.PERCENT and _has(known.numbers, value / 100, half / 100):
        return True
    return _is_reckoned(value, half, known.sorted_operands)


def _is_reckoned(value: float, half: float, operands: list[float]) -> bool:
    """Whether the value is a sum, difference or product of two of the (sorted) operands."""
    return any(
        _has(operands, value - a, half, other_than=at)
        or _has(operands, value + a, half, other_than=at)
        or (a != 0 and _has(operands, value / a, half / a, other_than=at))
        for at, a in enumerate(operands)
    )


def _is_known_duration(figure: Figure, known: _Known) -> bool:
    # Two minutes or three stand for 150 seconds: up to one unit of what is shown.
    within = figure.unit * figure.quantum
    return any(
        any(
            abs(told - value * figure.unit) < within
            or told <= value * figure.unit <= told * _LATER_AT_MOST
            for told in known.seconds
        )
        or _is_known_number(figure, value, known)
        for value in figure.values
    )


def _same_date(said: tuple[int | None, ...], told: tuple[int | None, ...]) -> bool:
    """Nothing said that was not told, the year apart: it may be added to 12月2日."""
    if told[0] is not None and said[0] is not None and said[0] != told[0]:
        return False
    day_first = (said[0], said[2], said[1])
    return any(
        all(mine is None or mine == theirs for mine, theirs in zip(way[1:], told[1:], strict=True))
        and (way[1:] != (None, None) or way[0] == told[0])
        for way in (said, day_first)
    )


def _same_time(said: tuple[int | None, ...], told: tuple[int | None, ...]) -> bool:
    return said[:2] == told[:2] and (said[2] is None or said[2] == told[2])


def _has(
    numbers: list[float], value: float, tolerance: float, *, other_than: int | None = None
) -> bool:
    slack = abs(tolerance) + 1e-9 * max(1.0, abs(value))
    at = bisect_left(numbers, value - slack)
    if at == other_than:
        at += 1
    return at < len(numbers) and numbers[at] <= value + slack

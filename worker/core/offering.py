"""Which tools a run is not offered, what its model is told of them, and what its answer must say.

A tool whose breaker is open is withdrawn: the schema of the next request lacks it, and the model
reads its stub text once. It comes back when a call would be let through again, for a trial too. A
tool that might still give an old value, or has another source, stays. One that has given two stubs
is not offered again in this run, whatever becomes of its breaker.

The state of the breakers comes in from outside, as facts (`ToolsChanged`), and only when it has
changed: a request that begins like the one before is cheaper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from worker.core.events import Away, ToolsChanged
from worker.core.fitting import ToolWords, fitting
from worker.core.history import RawMessage
from worker.core.messages import Observation, Source, ToolCall
from worker.core.observing import STATUS_CODES, told_stub
from worker.core.texts import DEFAULT_STUB, TOOL_BACK

STUBS_MAX = 2  # answers of one tool that were its stub; asking once more would be hammering
_FOLLOW_UP_CHARS_MAX = 24  # "and Microsoft?" is about what the turn before was about


class Offering:
    """The tools that one run lacks, by their names; facts come in by `apply` and `observe`."""

    def __init__(self) -> None:
        self.away: dict[str, Away] = {}  # as of the last request
        self.missed: dict[str, Away] = {}  # away at some time, and not answered live since
        self._stubs: Counter[str] = Counter()
        self._last_stub: dict[str, Observation] = {}
        self._live: set[str] = set()

    def __repr__(self) -> str:
        return f"Offering(without {', '.join(sorted(self.withheld)) or 'none'})"

    # --- facts -----------------------------------------------------------------------------------

    def apply(self, event: ToolsChanged, language: str) -> list[str]:
        """Take in which tools are away; return what the model is told of the change."""
        before, self.away = self.away, {each.tool: each for each in event.away}
        self.missed |= self.away
        told = [
            text_of(each, language)
            for each in event.away
            if not each.offered and _is_offered(before.get(each.tool))
        ]
        for name, each in before.items():
            is_back = not each.offered and _is_offered(self.away.get(name))
            if is_back and self._stubs[name] < STUBS_MAX:
                told.append(TOOL_BACK[language].format(tool=name))
        return told

    def observe(self, call: ToolCall, observation: Observation) -> None:
        """Take in the result of a call."""
        name = call.name
        if observation.source is Source.STUB:
            self._stubs[name] += 1
            self._last_stub[name] = observation
        elif observation.source in (Source.LIVE, Source.ALTERNATIVE, Source.STALE):
            self._live.add(name)
            if name not in self.away:
                self.missed.pop(name, None)

    # --- policy ----------------------------------------------------------------------------------

    @property
    def withheld(self) -> frozenset[str]:
        """The tools that the next request does not offer."""
        withdrawn = {name for name, each in self.away.items() if not each.offered}
        return frozenset(withdrawn | {n for n, count in self._stubs.items() if count >= STUBS_MAX})

    def change(self, away: Sequence[Away], at: float) -> ToolsChanged | None:
        """The fact to write when other tools are away than before; the time left alone is none."""
        now = {each.tool: each.offered for each in away}
        before = {name: each.offered for name, each in self.away.items()}
        return None if now == before else ToolsChanged(at, tuple(away))

    def answer(self, call: ToolCall, language: str) -> Observation | None:
        """What a call gets whose tool was not on offer; None when it was.

        The model made it up, or remembers the tool: it reads the stub again, and nothing runs.
        """
        if call.name not in self.withheld:
            return None
        each = self.away.get(call.name)
        if each is None:
            last = self._last_stub[call.name]
            return replace(last, attempts=0, duration_seconds=0.0)
        return _observation(each, language, Source.STUB)

    # --- what the answer must not hide -----------------------------------------------------------

    def skipped(self, language: str) -> list[tuple[str, Observation]]:
        """A row for each tool that was missed: withdrawn, or open and not called though it fits."""
        return [
            (name, _observation(each, language, Source.SKIPPED))
            for name, each in self.missed.items()
            if not self._stubs[name]
            and (not each.offered or (each.concerns and name not in self._live))
        ]

    def concerned(self, language: str) -> list[tuple[str, Observation]]:
        """The rows of those tools that the question is about."""
        return [(n, row) for n, row in self.skipped(language) if self.missed[n].concerns]

    def unsaid(self, language: str) -> list[tuple[str, Observation]]:
        """The rows of which the answer has to speak: the question is about them, and nothing came.

        Nothing of the tool itself, nor of another one that is about the same.
        """
        rows = self.concerned(language)
        return [(n, row) for n, row in rows if not self._live & {n, *self.missed[n].instead}]


def concerning(
    away: Sequence[Away],
    *,
    question: str,
    history: Sequence[RawMessage],
    words: Sequence[ToolWords],
    called: frozenset[str],
) -> list[Away]:
    """Say of each tool whether the question is about it: by its words, or by the calls made so far.

    `words` are those of all tools of the run, `called` the tools that it has called.
    """
    fits = {fit.tool.name: fit for fit in fitting(question, words)}
    if not fits and len(question.strip()) <= _FOLLOW_UP_CHARS_MAX:
        called |= _called_last(history)
    names = {each.tool for each in away}
    made = []
    for each in away:
        fit = fits.get(each.tool)
        alike = (
            ()
            if fit is None
            else tuple(
                name
                for name, other in fits.items()
                if name not in names and other.subjects & fit.subjects
            )
        )
        made.append(replace(each, concerns=fit is not None or each.tool in called, instead=alike))
    return made


def _called_last(history: Sequence[RawMessage]) -> frozenset[str]:
    """The tools that were called in the last turn of the conversation."""
    names: set[str] = set()
    for message in reversed(history):
        if message.get("role") == "user":
            break
        for call in message.get("tool_calls") or ():
            names.add(str((call.get("function") or {}).get("name")))
    return frozenset(names)


def text_of(each: Away, language: str) -> str:
    """What the model reads of a tool that was withdrawn."""
    return told_stub(
        _stub_of(each, language), each.tool, each.retry_after_seconds, language=language
    )


def _stub_of(each: Away, language: str) -> str:
    return each.stub or DEFAULT_STUB[language].format(tool=each.tool)


def _observation(each: Away, language: str, source: Source) -> Observation:
    return Observation(
        text_of(each, language),
        source,
        error_type="circuit_open",
        reason=each.reason,
        status_code=STATUS_CODES["circuit_open"],
        retry_after_seconds=each.retry_after_seconds,
        stub=_stub_of(each, language),
        dependency_failed=True,
    )


def _is_offered(each: Away | None) -> bool:
    return each is None or each.offered

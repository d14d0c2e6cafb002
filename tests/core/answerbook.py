"""Books of answers to degraded runs: honest ones, and ones that invent a value.

    ? the question
    = tool ok|stale|alternative|stub [age=seconds] [retry=seconds] what it told
    + an honest answer
    - an answer with an «invented» value

Lines without a mark belong to the answer above. The marks « and » are not part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from worker.core.gate import Evidence, enforce
from worker.core.messages import Observation, Source
from worker.core.observing import told_alternative, told_stale, told_stub
from worker.core.texts import language_of

BOOKS = Path(__file__).parent / "answers"
AT = 1_796_199_900.0  # 2 December 2026, the day on which the books were written
_TOLD = re.compile(r"= (\S+) (\S+) (?:age=(\d+) )?(?:retry=(\d+) )?(.*)")


@dataclass
class Scene:
    """A question, what the tools said, and answers of both sorts."""

    question: str
    told: list[tuple[str, Observation]] = field(default_factory=list)
    honest: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)

    @property
    def evidence(self) -> Evidence:
        """What the model could know."""
        language = language_of(self.question)
        return Evidence(self.question, self.told, language=language, at=AT)

    def tell(self, tool, source, text, *, age=None, retry=None):
        """Add what a tool said, as a model reads it."""
        self.told.append((tool, _observation(tool, source, text, age, retry, self.question)))


def _observation(tool, source, text, age, retry, question):
    language = language_of(question)
    if source == "ok":
        return Observation(text)
    if source == "alternative":
        return Observation(told_alternative(text, language=language), Source.ALTERNATIVE)
    if source == "stale":
        content = told_stale(text, tool, age, language=language)
        return Observation(content, Source.STALE, age_seconds=age)
    content = told_stub(text, tool, retry, language=language)
    return Observation(content, Source.STUB, stub=text, retry_after_seconds=retry)


def read(name: str) -> list[Scene]:
    """Read a book."""
    scenes: list[Scene] = []
    rows: list[str] = []
    for line in (BOOKS / f"{name}.txt").read_text("utf-8").splitlines():
        mark, text = line[:2], line[2:]
        if mark == "? ":
            scenes.append(Scene(text))
        elif mark == "= ":
            tool, source, age, retry, told = _TOLD.fullmatch(line).groups()
            seconds = {"age": age and float(age), "retry": retry and float(retry)}
            scenes[-1].tell(tool, source, told, **seconds)
        elif mark in ("+ ", "- "):
            rows = scenes[-1].honest if mark == "+ " else scenes[-1].invented
            rows.append(text)
        elif line:
            rows[-1] += f"\n{line}"
    return scenes


def plain(answer: str) -> str:
    """An answer without the marks of what is invented in it."""
    return answer.replace("«", "").replace("»", "")


Answer = tuple[Scene, str]


def answers_of(scenes: list[Scene]) -> tuple[list[Answer], list[Answer]]:
    """The honest answers of some scenes and their inventions, each with its scene."""
    honest = [(scene, text) for scene in scenes for text in scene.honest]
    invented = [(scene, text) for scene in scenes for text in scene.invented]
    return honest, invented


def misjudged(honest: list[Answer], invented: list[Answer]) -> tuple[list[str], list[str]]:
    """The honest answers that the gate alters, and the inventions that pass it."""
    altered = [text for scene, text in honest if enforce(text, scene.evidence)[1]]
    passed = [text for scene, text in invented if not enforce(plain(text), scene.evidence)[1]]
    return altered, passed

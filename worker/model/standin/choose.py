"""Which of the offered tools a question is about."""

from __future__ import annotations

import re
from typing import Any

from worker.model.standin.lexicon import CONCEPTS, STOP_WORDS, Concept

NAMED, DESCRIBED = 3.0, 1.0  # what it counts to be named, or only described, as being for something
SAME_WORD = 2.0
ENOUGH = 2.0
_WORD = re.compile(r"[a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
ORDER_NUMBER = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d)[A-Za-z0-9]{12,20}(?![A-Za-z0-9])")


def choose(question: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the functions that fit the question, in the order in which they are offered.

    For each concept that the question touches, the tool that is most plainly for it; without a
    concept, the tool whose own words occur in the question.
    """
    functions = [tool["function"] for tool in tools]
    chosen: set[int] = set()
    for concept in CONCEPTS:
        if _is_asked(concept, question):
            chosen |= _best([_fits(concept, function) for function in functions], DESCRIBED)
    if not chosen:
        words = set(_words(question)) - STOP_WORDS
        chosen = _best([_shared(words, function) for function in functions], ENOUGH)
    return [function for number, function in enumerate(functions) if number in chosen]


def _is_asked(concept: Concept, question: str) -> bool:
    if concept.name == "order" and ORDER_NUMBER.search(question):
        return True
    return concept.asked.search(question) is not None


def _best(scores: list[float], least: float) -> set[int]:
    """Return the first of the highest, if that is high enough."""
    top = max(scores, default=0.0)
    return {scores.index(top)} if top >= least else set()


def _fits(concept: Concept, function: dict[str, Any]) -> float:
    score = NAMED if concept.names & set(_words(function["name"])) else 0.0
    if concept.described.search(function.get("description") or ""):
        score += DESCRIBED
    return score


def _shared(words: set[str], function: dict[str, Any]) -> float:
    score = SAME_WORD * len(words & (set(_words(function["name"])) - STOP_WORDS))
    described = set(_words(function.get("description") or "")) - STOP_WORDS
    return score + 0.5 * len(words & described)


def _words(text: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub(" ", text).lower())

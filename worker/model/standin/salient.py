"""What a question says beside its tool: by a parameter's own name, in quotes, or as what is left."""

from __future__ import annotations

import re
from typing import Any

from worker.model.standin.lexicon import CONCEPTS, STOP_WORDS

QUOTED = re.compile(r"[\"“「『]([^\"”」』]+)[\"”」』]|(?<!\w)'([^']+)'(?!\w)")
_GIVEN = (
    r"(?<!\w){name}\s*(?:[=:：]\s*(?:\"([^\"]+)\"|'([^']+)')"
    r"|=\s*([^\s,;，；。)）]+)|[:：]\s*([^,;\n，；。)）?？!！]+))"
)
_PLACED = re.compile(r"\b(?:in|at|for|of)\s+((?:[A-Za-z][\w'-]*)(?:\s+[A-Z][\w'-]*)*)")
_WORD = re.compile(r"[A-Za-z][\w-]*")
_TIMES = frozenset(
    [
        "today",
        "tonight",
        "tomorrow",
        "yesterday",
        "week",
        "weekend",
        "morning",
        "evening",
        "afternoon",
        "moment",
        "like",
        "s",
    ]
)
_NO_SUBJECT = re.compile(
    r"今天|明天|昨天|现在|目前|请问|请|查询|查一下|帮我|告诉我|怎么样|如何|什么|多少|几度|是|的|吗|呢|在|工具|用"
)
_CJK_WORD = re.compile(r"[\u3400-\u9fff]{2,}")


def find_given(name: str, text: str) -> str | None:
    """Return what the text gives by name: `city=Oslo`, `city: San Jose`, `city='Oslo'`."""
    found = re.search(_GIVEN.format(name=re.escape(name)), text, re.IGNORECASE)
    if found is None:
        return None
    return next(part for part in found.groups() if part is not None).strip(" .") or None


def find_quoted(text: str) -> list[str]:
    """Return what stands in quotes."""
    return [first or second for first, second in QUOTED.findall(text)]


def find_salient(text: str, function: dict[str, Any]) -> str | None:
    """Return the words that are left when the tool and the small words are taken out.

    What follows `in`, `at` or `for` comes first, then a name in capitals, then a single word.
    """
    about = f"{function.get('name') or ''} {function.get('description') or ''}".lower()
    passed = set(re.findall(r"[a-z]+", about)) | STOP_WORDS | _TIMES
    for placed in _PLACED.findall(text):
        if placed.split()[0].lower() not in passed:
            return str(placed)
    left = [word for word in _WORD.findall(text) if word.lower() not in passed]
    names = [word for word in left if word[0].isupper()]
    if names or len(left) == 1:
        return str((names or left)[0])
    for concept in CONCEPTS:
        text = concept.asked.sub(" ", text)
    chinese = _CJK_WORD.findall(_NO_SUBJECT.sub(" ", text))
    return str(chinese[0]) if chinese else None

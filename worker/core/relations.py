"""How two fields of a result relate: a whole and its part, or so much for each.

`{"beds": 28, "occupied": 25, "minutes_each": 12}` says more than three numbers: of a whole it can be
told what is left and what share something is of it, and what is so much for each is multiplied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

WHOLE, EACH, SUM = "Σ", "/", "+"
_WHOLE_WORDS = (
    "total sum capacity ordered sent invited enrolled expected target goal budget limit "
    "registered participants patients attendees seats planned quota issued members"
)
WHOLES = frozenset(_WHOLE_WORDS.split())
_CHINESE_WHOLE = re.compile(
    r"^总|总[数量额计]|合计|共计|容量|目标|计划|预算|额度|上限|满分|名额|[票人单]数$|应[到收付]|发放|报名|全[部程年]"
)
_PART = re.compile(r"difference|change|rate$|left|free|used|remaining|done|reached")
_EACH = re.compile(r"每|日[耗均]|单价|人均|时速|一[个次份]")
_PERIODS = {"min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0, "day": 86_400.0}
_PERIODS |= {"week": 604_800.0, "month": 2_629_800.0, "year": 31_557_600.0}
_CHINESE_PERIODS = (
    (re.compile(r"每分钟"), 60.0),
    (re.compile(r"每小时|时速"), 3600.0),
    (re.compile(r"每[天日]|日[耗均]"), 86_400.0),
    (re.compile(r"每周"), 604_800.0),
    (re.compile(r"每月|月[耗均]"), 2_629_800.0),
    (re.compile(r"每年|年[耗均]"), 31_557_600.0),
)
_PARTS_MAX = 12
_APART = 1e-6


def roles_of(words: Sequence[str]) -> Iterator[str]:
    """What a field is to others, by the words of its name."""
    name = "".join(words)
    if "per" in words[1:] or "each" in words or "unit" in words or _EACH.search(name):
        yield EACH
    elif _CHINESE_WHOLE.search(name) or (
        not WHOLES.isdisjoint((words[0], *words[-2:])) and not _PART.search(name)
    ):
        yield WHOLE


def period_of(words: Sequence[str]) -> float | None:
    """The seconds for which a field tells so much: use_l_per_hour, 日耗."""
    if "per" in words[1:]:
        after = words[words.index("per") + 1 :]
        return next((_PERIODS[word] for word in after if word in _PERIODS), None)
    name = "".join(words)
    return next((seconds for form, seconds in _CHINESE_PERIODS if form.search(name)), None)


def wholes(record: Sequence[float]) -> Iterator[tuple[Sequence[float], float]]:
    """Numbers of a record that stand together and add up to another of it, with that one."""
    few = record[:_PARTS_MAX]
    for at, whole in enumerate(few):
        for run in (few[:at], few[at + 1 :]):
            for start in range(len(run)):
                total = run[start]
                for end in range(start + 1, len(run)):
                    total += run[end]
                    if whole and abs(total - whole) <= _APART * abs(whole):
                        yield run[start : end + 1], whole


def stretches(parts: Sequence[float]) -> Iterator[float]:
    """Each part, and the sums of those that stand together, but for the sum of all."""
    few = parts[:_PARTS_MAX]
    for start in range(len(few)):
        total = 0.0
        for end in range(start, len(few)):
            total += few[end]
            if end - start + 1 < len(few):
                yield total

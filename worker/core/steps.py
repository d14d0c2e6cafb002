"""How many steps a run gets, and why: a number, or a policy; and what failures add to it.

    8                   eight, whatever is asked
    by_task             a lookup few, several things more, an exploration by the question's length
    by_length           by the question's length alone
    adaptive            eight, and one more for each step that a failing tool or call has cost
    by_task+adaptive    any of the first three may be adaptive

A step is one model reply; the last one is the closing turn, in which no tool may be called. So a
question that needs a tool needs two steps at least. Failures add steps and nothing takes any away:
the closing turn would come before the answer, and useless steps have endings of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.core.fitting import Fit, ToolWords, fitting, things
from worker.core.messages import Observation, Source
from worker.core.task import Task

FIXED, BY_TASK, BY_LENGTH, ADAPTIVE = "fixed", "by_task", "by_length", "adaptive"
LOOKUP, SEVERAL, EXPLORATION = "lookup", "several", "exploration"
TASK_TYPES = (LOOKUP, SEVERAL, EXPLORATION)
DEFAULT_STEPS = 8
STEPS_MAX = 1000
NOTATION = "a number, by_task or by_length, each also with +adaptive; or adaptive"

_READ_CHARS_MAX = 4_000
_EXPLORES = re.compile(
    r"调研|研究一?下|深入|探索|梳理|盘点|综述|分析|报告|方案|排查|找出.{0,12}原因|尽可能(?:多|全)|全面"
    r"|\b(?:research|investigate|explore|analy[sz]e|analysis|survey|root cause|deep dive|in depth"
    r"|thorough(?:ly)?|comprehensive|report on|find out why|as many as)\b",
    re.IGNORECASE,
)
_JOINS = re.compile(
    r"分别|各自|各是|然后|接着|再(?:查|看|算|把|用|告诉)|之后|并且|并(?:把|将|告诉|计算|发)|同时|以及|对比|比较"
    r"|如果|每[个只条]|逐[个一]|哪个更|谁更"
    r"|\b(?:then|after that|afterwards|both|each|respectively|compare[ds]?|versus|vs|as well as"
    r"|if|whichever|also)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z_-]*\d{3})[A-Za-z0-9][A-Za-z0-9_.-]{5,}|https?://\S+"
)


@dataclass(frozen=True, slots=True)
class StepTable:
    """The numbers behind the policies: steps, and tokens of the question that earn one more."""

    adaptive_extra: int = 4
    exploration_max: int = 20
    exploration_min: int = 8
    exploration_tokens: int = 50
    length_max: int = 12
    length_min: int = 3
    length_tokens: int = 60
    lookup_max: int = 3
    lookup_min: int = 2
    several_max: int = 7
    several_min: int = 5


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """What MAX_STEPS says. `ceiling` is how far a task, or a failure, may raise anything."""

    base: str = FIXED  # fixed | by_task | by_length
    steps: int = DEFAULT_STEPS  # of fixed
    is_adaptive: bool = False
    ceiling: int = 50
    table: StepTable = field(default_factory=StepTable)


@dataclass(frozen=True, slots=True)
class StepDecision:
    """What was decided at the beginning of a run. `bound`: how far failures may raise it later."""

    max_steps: int
    reason: str
    bound: int


@dataclass(frozen=True, slots=True)
class Nature:
    """What kind of task it is, how many things it asks for, how that is known, what tools fit."""

    kind: str
    asked: int
    why: str
    fits: tuple[Fit, ...] = ()


def read_policy(value: object) -> tuple[str, int, bool]:
    """Read what MAX_STEPS may hold: base, steps of a fixed one, adaptive. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return FIXED, _number(value), False
    if not isinstance(value, str):
        raise ValueError(f"must be {NOTATION}")
    words = [word.strip().lower() for word in value.split("+")]
    is_adaptive = words[-1] == ADAPTIVE
    bases = words[:-1] if is_adaptive else words
    if is_adaptive and not bases:
        return FIXED, DEFAULT_STEPS, True
    if len(bases) != 1:
        raise ValueError(f"must be {NOTATION}")
    if bases[0] in (BY_TASK, BY_LENGTH):
        return bases[0], DEFAULT_STEPS, is_adaptive
    if not (bases[0].isascii() and bases[0].isdigit() and len(bases[0]) < 10):
        raise ValueError(f"must be {NOTATION}")
    return FIXED, _number(int(bases[0])), is_adaptive


def decide(task: Task, policy: StepPolicy, tools: Sequence[ToolWords]) -> StepDecision:
    """Decide the steps of a run that begins. The reason holds no word of the question.

    A task's own number stands as it is, up to the ceiling: whoever gives one means it.
    """
    if task.max_steps is not None:
        steps, reason = task.max_steps, "task"
        if steps > policy.ceiling:
            steps, reason = (
                policy.ceiling,
                f"task asked for {steps}, the ceiling is {policy.ceiling}",
            )
        return StepDecision(steps, reason, steps)
    match policy.base:
        case "by_task":
            steps, reason = _by_task(task, policy.table, tools)
        case "by_length":
            steps, reason = _by_length(task.input, policy.table)
        case _:
            steps, reason = policy.steps, "settings"
    steps = min(steps, policy.ceiling)
    extra = policy.table.adaptive_extra if policy.is_adaptive else 0
    return StepDecision(steps, reason, max(steps, min(steps + extra, policy.ceiling)))


def is_failed(observation: Observation) -> bool:
    """Whether a step has to be made up for: the tool failed, or the call could not be run."""
    return observation.source is Source.ERROR or observation.dependency_failed


def after_failures(decided: int, *, bound: int, failed_steps: int) -> int:
    """The steps of a run in which so many were lost to failing tools and invalid calls."""
    return max(decided, min(bound, decided + failed_steps))


def tokens_in(text: str) -> int:
    """Guess the tokens of a text: one for a Chinese character, one for four others."""
    wide = (len(text.encode("utf-8", "surrogatepass")) - len(text)) // 2
    return min(wide, len(text)) + -(-max(0, len(text) - wide) // 4)


def nature_of(task: Task, tools: Sequence[ToolWords]) -> Nature:
    """Tell what kind of task it is: as the task says, or by its words and the tools offered."""
    fits = fitting(task.input, tools)
    asked = _things_asked(task.input[:_READ_CHARS_MAX], fits)
    told = task.metadata.get("task_type")
    if told in TASK_TYPES:
        return Nature(str(told), asked, "metadata.task_type", fits)
    aside = "" if told is None else "; metadata.task_type is none of " + ", ".join(TASK_TYPES)
    kind, why = _kind(task, tools, fits, asked)
    return Nature(kind, asked, why + aside, fits)


def _kind(
    task: Task, tools: Sequence[ToolWords], fits: Sequence[Fit], asked: int
) -> tuple[str, str]:
    if not tools:
        return LOOKUP, "no tools are offered"
    if _EXPLORES.search(task.input[:_READ_CHARS_MAX]):
        return EXPLORATION, "its words"
    if asked > 1:
        return SEVERAL, f"{asked} things asked"
    if not fits:
        return SEVERAL, "no tool plainly fits"  # so nothing says that one call is enough
    return LOOKUP, f"one thing asked, {fits[0].tool.name} fits"


def _by_task(task: Task, table: StepTable, tools: Sequence[ToolWords]) -> tuple[int, str]:
    nature = nature_of(task, tools)
    reason = f"by_task: {nature.kind} ({nature.why})"
    if nature.kind == EXPLORATION:
        size = tokens_in(task.input)
        steps = table.exploration_min + size // table.exploration_tokens
        return min(steps, table.exploration_max), f"{reason[:-1]}; about {size} tokens)"
    if nature.kind == SEVERAL:
        return min(table.several_min + max(0, nature.asked - 2), table.several_max), reason
    # Without arguments there is nothing to get wrong: no spare step for a correction.
    is_plain = not tools or (bool(nature.fits) and not nature.fits[0].tool.required)
    return (table.lookup_min if is_plain else table.lookup_max), reason


def _by_length(text: str, table: StepTable) -> tuple[int, str]:
    size = tokens_in(text)
    steps = min(table.length_min + size // table.length_tokens, table.length_max)
    return steps, f"by_length: about {size} tokens"


def _things_asked(text: str, fits: Sequence[Fit]) -> int:
    marks = text.count("?") + text.count("\uff1f")
    named = len(set(_NAMED.findall(text)))
    joined = len(_JOINS.findall(text))
    return max(things(fits), marks, named, 1) + joined


def _number(steps: int) -> int:
    if not 1 <= steps <= STEPS_MAX:
        raise ValueError(f"must be from 1 to {STEPS_MAX}, or a policy: {NOTATION}")
    return steps

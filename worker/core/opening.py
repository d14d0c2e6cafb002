"""What is decided once when a run begins, and must not change under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from worker.core.events import Started
from worker.core.fitting import ToolWords
from worker.core.history import cut, repaired, without_calls
from worker.core.limits import Limits
from worker.core.steps import StepPolicy, decide
from worker.core.task import Task
from worker.core.texts import SYSTEM_PROMPT, SYSTEM_PROMPT_WITHOUT_TOOLS, language_of
from worker.core.wireformat import task_to_wire


@dataclass(frozen=True, slots=True)
class Opening:
    """What the settings say about the beginning of a run. Deadline in seconds from the start."""

    limits: Limits
    deadline_seconds: float
    history_messages_max: int
    history_tokens_max: int | None = None
    steps: StepPolicy = field(default_factory=StepPolicy)
    system_prompt: str | None = None
    pollers: frozenset[str] = frozenset()  # tools that may return the same again and again


def open_run(
    task: Task,
    opening: Opening,
    *,
    now: float,
    tools: tuple[str, ...],
    words: Sequence[ToolWords] = (),
    history: list[dict[str, Any]] | None = None,
) -> Started:
    """Decide the bounds, the prompt and the history of a new run.

    `tools` are the names of what is offered, `words` what they are about: policies look at those.
    """
    language = language_of(task.input)
    decided = decide(task, opening.steps, words)
    prompts = SYSTEM_PROMPT if tools else SYSTEM_PROMPT_WITHOUT_TOOLS
    messages = repaired(history or (), language=language)
    messages = cut(
        messages if tools else without_calls(messages),
        at_most=opening.history_messages_max,
        tokens_max=opening.history_tokens_max,
    )
    return Started(
        at=now,
        task=task_to_wire(task),
        max_steps=decided.max_steps,
        max_steps_reason=decided.reason,
        steps_bound=decided.bound,
        system_prompt=opening.system_prompt or prompts[language],
        tools=tools,
        language=language,
        history=tuple(messages),
        deadline=task.deadline or now + opening.deadline_seconds,
        pollers=tuple(name for name in tools if name in opening.pollers),
    )


def limits_of(task: Task, limits: Limits) -> Limits:
    """The caps of this run: the settings, narrowed by the task's own budget."""
    tokens = [each for each in (limits.tokens, task.budget.tokens) if each is not None]
    cost = [each for each in (limits.cost, task.budget.cost) if each is not None]
    return replace(limits, tokens=min(tokens, default=None), cost=min(cost, default=None))

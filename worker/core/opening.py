"""What is decided once when a run begins, and must not change under it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from worker.core.events import Started
from worker.core.history import cut, repaired
from worker.core.limits import Limits
from worker.core.task import Task
from worker.core.texts import SYSTEM_PROMPT, language_of
from worker.core.wireformat import task_to_wire


@dataclass(frozen=True, slots=True)
class Opening:
    """What the settings say about the beginning of a run. Deadline in seconds from the start."""

    limits: Limits
    deadline_seconds: float
    steps_ceiling: int
    history_messages_max: int
    system_prompt: str | None = None


def open_run(
    task: Task,
    opening: Opening,
    *,
    now: float,
    tools: tuple[str, ...],
    history: list[dict[str, Any]] | None = None,
) -> Started:
    """Decide the bounds, the prompt and the history of a new run."""
    language = language_of(task.input)
    steps, reason = _steps(task, opening)
    messages = repaired(history or [], language=language)
    return Started(
        at=now,
        task=task_to_wire(task),
        max_steps=steps,
        max_steps_reason=reason,
        system_prompt=opening.system_prompt or SYSTEM_PROMPT[language],
        tools=tools,
        language=language,
        history=tuple(cut(messages, at_most=opening.history_messages_max)),
        deadline=task.deadline or now + opening.deadline_seconds,
    )


def limits_of(task: Task, limits: Limits) -> Limits:
    """The caps of this run: the settings, narrowed by the task's own budget."""
    return replace(limits, tokens=task.budget.tokens, cost=task.budget.cost)


def _steps(task: Task, opening: Opening) -> tuple[int, str]:
    if task.max_steps is None:
        return opening.limits.max_steps, "settings"
    if task.max_steps > opening.steps_ceiling:
        return opening.steps_ceiling, f"task asked for {task.max_steps}, ceiling"
    return task.max_steps, "task"

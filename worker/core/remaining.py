"""What is left of a run's steps, time and budget, as the model is told with the next request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.core.texts import BUDGET_LEFT, LAST_STEP, STEPS_LEFT, TIME_LEFT

if TYPE_CHECKING:
    from worker.core.loop import Loop

_TELL_STEPS_LEFT = 2  # from here on the model is told how many steps are left
_TELL_SHARE_LEFT = 0.25  # of time or budget; before that there is nothing to hurry for


def note_of(loop: Loop, now: float) -> str | None:
    """The note for the next request, in the language of the question; None while all is plenty."""
    parts = [part for part in (_steps(loop), _budget(loop), _time(loop, now)) if part]
    return "\n".join(parts) or None


def _steps(loop: Loop) -> str | None:
    left = loop.max_steps - loop.replies
    if left == 1 and (loop.replies or loop.max_steps > 1):
        return LAST_STEP[loop.language]
    if left <= _TELL_STEPS_LEFT and loop.replies:
        return STEPS_LEFT[loop.language].format(left=left)
    return None


def _budget(loop: Loop) -> str | None:
    shares = []
    if loop.limits.tokens:
        shares.append(1 - loop.tokens_used / loop.limits.tokens)
    if loop.limits.cost and loop.usage.cost is not None:
        shares.append(1 - loop.usage.cost / loop.limits.cost)
    left = min(shares, default=1.0)
    if left > _TELL_SHARE_LEFT:
        return None
    return BUDGET_LEFT[loop.language].format(percent=max(1, round(100 * left)))


def _time(loop: Loop, now: float) -> str | None:
    started = loop.started
    if loop.deadline is None or started is None or not (started.deadline and loop.replies):
        return None
    left = loop.deadline - now
    if left > _TELL_SHARE_LEFT * (started.deadline - started.at):
        return None
    return TIME_LEFT[loop.language].format(seconds=max(1, round(left)))

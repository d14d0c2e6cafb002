"""The knobs of when and how a run stops."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from worker.core.prices import PriceList
from worker.core.steps import ADAPTIVE, BY_TASK, FIXED, StepTable, read_policy
from worker.section import Names, Section, listed


def _policy(value: Any) -> Any:
    """Read MAX_STEPS, and write it in one way: 8, by_task, 8+adaptive."""
    base, steps, is_adaptive = read_policy(value)
    if base == FIXED and not is_adaptive:
        return steps
    return (str(steps) if base == FIXED else base) + (f"+{ADAPTIVE}" if is_adaptive else "")


def _prices(value: Any) -> Any:
    """Accept a list of entries, or one text with commas between them."""
    entries = listed(value)
    if not isinstance(entries, list | tuple) or not all(isinstance(e, str) for e in entries):
        raise ValueError("must be a list of prices")
    kept = tuple(entry.strip() for entry in entries if entry.strip())
    PriceList(kept)
    return kept


Prices = Annotated[tuple[str, ...], BeforeValidator(_prices)]
StepsPolicy = Annotated[int | str, BeforeValidator(_policy)]


class LoopSettings(Section):
    """When a run stops, beyond MAX_STEPS and DEADLINE."""

    cost_max: float | None = Field(
        None, gt=0, lt=1e18, description="Money of one run at most, in the currency of PRICES."
    )
    group_state: Literal["journal", "memory"] = Field(
        "journal",
        description="Where state and cookies of sequential groups are kept; memory: lost when parked.",
    )
    honesty_gate: Literal["replace", "remove", "off"] = Field(
        "replace", description="What befalls a degraded answer with figures that nobody told."
    )
    max_calls_per_step: int = Field(32, ge=1, le=1000, description="Tool calls in one reply.")
    max_empty_replies: int = Field(
        2, ge=0, le=10, description="Empty replies asked again before the run ends."
    )
    max_invalid_turns: int = Field(
        3, ge=1, le=100, description="Replies in a row without a runnable call that end the run."
    )
    max_repeats: int = Field(
        4, ge=2, le=100, description="Rounds of the same call with the same result that end it."
    )
    pollers: Names = Field(
        (),
        description="Tools whose repetition is no loop, beside those that say so; -name takes back.",
    )
    steps_ceiling: int = Field(
        50, ge=1, le=1000, description="How far a task may raise its own max_steps."
    )
    tokens_max: int | None = Field(
        None, ge=1, lt=10**18, description="Tokens of one run at most, prompts and replies."
    )


class StepSettings(Section):
    """The numbers behind the policies of MAX_STEPS; see worker/core/steps.py."""

    adaptive_extra: int = Field(
        4, ge=0, le=100, description="adaptive: steps that failures may add to a run."
    )
    exploration_max: int = Field(20, ge=2, le=1000, description="by_task: most of an exploration.")
    exploration_min: int = Field(8, ge=2, le=1000, description="by_task: least of an exploration.")
    exploration_tokens: int = Field(
        50, ge=1, le=100_000, description="by_task: tokens of its question that earn a step more."
    )
    length_max: int = Field(12, ge=2, le=1000, description="by_length: most steps.")
    length_min: int = Field(3, ge=2, le=1000, description="by_length: least steps.")
    length_tokens: int = Field(
        60, ge=1, le=100_000, description="by_length: tokens of the question that earn a step more."
    )
    lookup_max: int = Field(
        3, ge=2, le=1000, description="by_task: a single lookup that takes arguments."
    )
    lookup_min: int = Field(
        2, ge=2, le=1000, description="by_task: a single lookup that takes none."
    )
    several_max: int = Field(7, ge=2, le=1000, description="by_task: several things, most.")
    several_min: int = Field(5, ge=2, le=1000, description="by_task: several things, least.")

    def table(self) -> StepTable:
        """The same numbers for the core."""
        return StepTable(**self.model_dump())


def steps_most(policy: int | str, steps: StepSettings) -> int:
    """The most steps that a policy gives before anything fails."""
    base, fixed, _ = read_policy(policy)
    if base == FIXED:
        return fixed
    if base == BY_TASK:
        return max(steps.lookup_max, steps.several_max, steps.exploration_max)
    return steps.length_max

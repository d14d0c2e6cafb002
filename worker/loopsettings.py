"""The knobs of when and how a run stops."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from worker.section import Section


class LoopSettings(Section):
    """When a run stops, beyond MAX_STEPS and DEADLINE."""

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
    steps_ceiling: int = Field(
        50, ge=1, le=1000, description="How far a task may raise its own max_steps."
    )

"""The knobs of conversations."""

from __future__ import annotations

from pydantic import Field

from worker.section import Seconds, Section


class SessionSettings(Section):
    """What is kept of a conversation, and for how long."""

    result_chars: int = Field(
        2_000, ge=100, le=1_000_000, description="Longest tool result kept of an earlier turn."
    )
    ttl_seconds: Seconds = Field(
        3600.0,
        ge=1,
        le=31_536_000,
        description="A session is forgotten so long after its last turn.",
    )

"""With which model a run goes on after it was moved to a fallback.

A conversation that was too long for one model is too long for it ever after, so the run stays where
it fits. After an outage or throttling it stays for a while: going back with each step would pay for
the same failed attempts each time, and lose prompt caches and signed thoughts twice. Then the
first model is asked again; while its breaker is open, that costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from worker.core.causes import CONTEXT_OVERFLOW
from worker.core.messages import Reply

STAY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Stay:
    """The run was moved: to whom, why, and when (wall clock seconds)."""

    endpoint: str
    cause: str
    at: float

    @property
    def is_for_good(self) -> bool:
        """Whether nothing but a larger context window can carry the run."""
        return self.cause == CONTEXT_OVERFLOW


def after_reply(stay: Stay | None, reply: Reply, at: float) -> Stay | None:
    """What holds after a reply: a new move, the old one, or none since the first model is back."""
    if reply.switched is not None:
        return Stay(reply.endpoint, reply.switched, at)
    if stay is not None and (stay.is_for_good or reply.endpoint == stay.endpoint):
        return stay
    return None


def still(stay: Stay | None, now: float) -> Stay | None:
    """The move as long as it holds."""
    if stay is None or stay.is_for_good or now - stay.at < STAY_SECONDS:
        return stay
    return None

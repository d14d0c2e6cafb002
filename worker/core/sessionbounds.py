"""How much of a conversation is kept, and for how long: the values alone, for settings and desks.

Apart from `conversation.py`, which needs all that judges answers: a command that looks at a queue
shall not load that to read its settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TurnBounds:
    """What is kept of a run: characters of one tool result, estimated tokens of the turn."""

    result_chars: int = 2_000
    turn_tokens: int = 8_000


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How long a conversation is kept after its last turn, and how much of it."""

    bounds: TurnBounds = field(default_factory=TurnBounds)
    ttl_seconds: float = 3600.0
    bytes_max: int = 100_000

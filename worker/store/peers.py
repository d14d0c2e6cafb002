"""What the workers on one store tell each other: a few words each, forgotten soon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

WORDS_MAX = 8_000  # characters that one worker may say
WORKERS_MAX = 2_000  # whose words are listened to at once


@dataclass(frozen=True, slots=True)
class Heard:
    """How many workers are there, and what those say that say something; one's own included."""

    workers: int
    words: tuple[str, ...] = ()


class Peers(Protocol):
    """Gossip among workers. It may be lost at any time: it is advice, and no fact.

    G1 what a worker says stands until it says something else or `ttl_seconds` are over. G2 who says
    nothing, "", is there all the same. G3 words None say nothing new and only listen. G4 an outage
    raises `StoreUnavailable`. G5 more than `WORDS_MAX` characters are a ValueError.
    """

    async def gossip(self, owner: str, words: str | None, *, ttl_seconds: float) -> Heard:
        """Say something, and hear what everybody says. Time is the store's own."""
        ...


def checked(words: str | None) -> str | None:
    """The words, if they are not too many. Raises ValueError."""
    if words is not None and len(words) > WORDS_MAX:
        raise ValueError(f"a worker may say {WORDS_MAX} characters, not {len(words)}")
    return words

"""Gossip among workers in one process."""

from __future__ import annotations

from collections.abc import Callable

from worker.store.peers import Heard, checked
from worker.store.rows import readable


class MemoryPeers:
    """See the port. `told` is shared by all stores on one base: owner to words and their end."""

    def __init__(self, told: dict[str, tuple[str, float]], *, now: Callable[[], float]) -> None:
        self._told = told
        self._now = now

    async def gossip(self, owner: str, words: str | None, *, ttl_seconds: float) -> Heard:
        """See the port."""
        now = self._now()
        if checked(words) is not None:
            self._told[owner] = (readable(words or ""), now + ttl_seconds)
        for each in [each for each, (_, until) in self._told.items() if until <= now]:
            del self._told[each]
        return Heard(len(self._told), tuple(words for words, _ in self._told.values() if words))

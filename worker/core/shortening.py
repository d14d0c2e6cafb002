"""A conversation that is too long for the model: how much less of it the model is sent.

No setting has to know the context window. The server that refuses a request for its length says
so, and what was said before this run is what can be spared: a refusal leaves about a third of it,
the third refusal nothing. What the run itself has asked and found stays whole.
"""

from __future__ import annotations

from worker.core.effects import CutHistory
from worker.core.events import HistoryCut, ModelFailed, Started
from worker.core.history import RawMessage, fitting, shaped, tokens_of
from worker.core.limits import Status

_SHARE = 3
_CUTS_MAX = 3


class Shortening:
    """What a run still sends of the conversation before it."""

    def __init__(self) -> None:
        self.history: list[RawMessage] = []
        self.cuts = 0

    def __repr__(self) -> str:
        return f"Shortening({len(self.history)} messages, {self.cuts} cuts)"

    @property
    def tokens(self) -> int:
        """The estimated tokens of what is sent."""
        return sum(map(tokens_of, self.history))

    def begin(self, event: Started) -> None:
        """Take in with which conversation a run begins."""
        self.history = list(event.history)

    def after(self, failure: ModelFailed) -> CutHistory | None:
        """What to leave out after a failure; None when that is not what failed, or nothing is left."""
        if failure.status != Status.CONTEXT_OVERFLOW or not self.history:
            return None
        if self.cuts + 1 >= _CUTS_MAX:
            return CutHistory(0, 0)
        budget = self.tokens // _SHARE
        return CutHistory(*fitting(self.history, at_most=len(self.history), tokens_max=budget))

    def apply(self, event: HistoryCut) -> list[RawMessage]:
        """Leave out what an event says; returns what stays."""
        self.history = shaped(self.history, event.turns, event.whole)
        self.cuts += 1
        return self.history

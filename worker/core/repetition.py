"""The same calls with the same results, round after round: how often, and who may."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from worker.core.messages import Observation, ToolCall


class Repetition:
    """Counts rounds that equal the one before. `is_warned`: the model has been told of this row.

    Pollers are looked past: asking how far a job is, again and again, is what they are for. A round
    of nothing but pollers neither counts nor begins anew, so that it hides no loop of others.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_warned = False
        self._round: tuple[object, ...] | None = None

    def close(
        self, rows: Iterable[tuple[ToolCall, Observation]], *, pollers: Collection[str]
    ) -> None:
        """Take in a round. A poller's call that could not be run is a mistake like any other."""
        signature = tuple(
            (call.name, call.digest, observation.content)
            for call, observation in rows
            if call.name not in pollers or call.problem is not None
        )
        if not signature:
            return
        self.count = self.count + 1 if signature == self._round else 1
        self._round = signature
        self.is_warned = self.is_warned and self.count > 1

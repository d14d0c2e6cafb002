"""The same calls with the same results, round after round: how often, and who may."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from worker.core.messages import Observation, ToolCall


class Repetition:
    """Counts the rounds that brought nothing new, by their calls. `is_warned`: the model was told.

    A call is known when it was made before with the same result. A round of nothing but known
    calls counts as often as the rarest of them has come since something new came: so calls that
    take turns (A, B, A, B) are a loop like one that follows itself, and a call that is made again
    between others that find something new is none.

    Pollers are looked past: asking how far a job is, again and again, is what they are for. A round
    of nothing but pollers neither counts nor begins anew, so that it hides no loop of others.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_warned = False
        self._known: set[tuple[str, str, str]] = set()
        self._times: dict[tuple[str, str, str], int] = {}  # since something new came

    def close(
        self, rows: Iterable[tuple[ToolCall, Observation]], *, pollers: Collection[str]
    ) -> None:
        """Take in a round. A poller's call that could not be run is a mistake like any other."""
        made = {
            (call.name, call.digest, observation.content)
            for call, observation in rows
            if call.name not in pollers or call.problem is not None
        }
        if not made:
            return
        if made <= self._known:
            for each in made:
                self._times[each] = self._times.get(each, 1) + 1
            self.count = min(self._times[each] for each in made)
        else:
            self._known |= made
            self._times = dict.fromkeys(made, 1)
            self.count = 1
        self.is_warned = self.is_warned and self.count > 1

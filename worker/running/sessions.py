"""Save what a run leaves in its session, with its end or while it waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.core.conversation import TurnBounds, open_turn, turn_of
from worker.core.errors import SessionConflict
from worker.core.events import Event
from worker.core.history import RawMessage
from worker.core.loop import Loop
from worker.core.task import Result
from worker.store.port import Journal, Run, Turn

_CONFLICTS_MAX = 8  # each means that somebody else has saved within a millisecond


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How long a conversation is kept after its last turn, and how much of it."""

    bounds: TurnBounds = field(default_factory=TurnBounds)
    ttl_seconds: float = 3600.0
    bytes_max: int = 100_000


class SessionKeeper:
    """Ends and parks runs, with their turn if they have a session.

    A conflict cannot come from another run, for it would have fenced this one. Whatever it came
    from, nothing is lost by it: the turn goes behind what is there by now.
    """

    def __init__(self, journal: Journal, options: SessionOptions) -> None:
        self._journal = journal
        self._options = options

    async def finish(self, run: Run, loop: Loop, events: Sequence[Event], result: Result) -> None:
        """Write the end of a run and its turn, in one transaction.

        Raises LeaseLost, StoreUnavailable. Cancelled: both are written or neither.
        """
        turn = None if run.session is None else self._turn(turn_of(loop, result, self._bounds))
        for _ in range(_CONFLICTS_MAX):
            try:
                return await self._journal.finish(run, events, result, turn=turn)
            except SessionConflict as conflict:
                _rebase(run, conflict)
        return await self._journal.finish(run, events, result)

    async def park(self, run: Run, loop: Loop, reason: str) -> None:
        """Let go of a run that waits for long, and of its session: others may speak meanwhile.

        They find word of it in the conversation. Raises LeaseLost, StoreUnavailable.
        """
        turn = None if run.session is None else self._turn(open_turn(loop, reason, self._bounds))
        for _ in range(_CONFLICTS_MAX):
            try:
                return await self._journal.release(run, turn=turn)
            except SessionConflict as conflict:
                _rebase(run, conflict)
        return await self._journal.release(run)

    @property
    def _bounds(self) -> TurnBounds:
        return self._options.bounds

    def _turn(self, messages: tuple[RawMessage, ...]) -> Turn | None:
        if not messages:
            return None
        return Turn(messages, self._options.ttl_seconds, self._options.bytes_max)


def _rebase(run: Run, conflict: SessionConflict) -> None:
    assert run.session is not None
    run.session.version = conflict.version

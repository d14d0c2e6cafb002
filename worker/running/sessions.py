"""Save what a run leaves in its session, with its end or while it waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from worker.core.conversation import open_turn, turn_of
from worker.core.errors import SessionConflict
from worker.core.events import Event
from worker.core.history import BYTES_OF_TOKEN, RawMessage
from worker.core.loop import Loop
from worker.core.sessionbounds import SessionOptions, TurnBounds
from worker.core.task import Result
from worker.store.port import Journal, Run, Turn

_TOKENS_MIN = 200  # of a conversation that was cut
_CONFLICTS_MAX = 8  # each means that somebody else has saved within a millisecond


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
        turn = None
        if run.session is not None:
            turn = self._turn(loop, turn_of(loop, result, self._bounds(loop)))
        await _insist(run, turn, lambda turn: self._journal.finish(run, events, result, turn=turn))

    async def park(self, run: Run, loop: Loop, reason: str) -> None:
        """Let go of a run that waits for long, and of its session: others may speak meanwhile.

        They find word of it in the conversation. Raises LeaseLost, StoreUnavailable.
        """
        turn = None
        if run.session is not None:
            turn = self._turn(loop, open_turn(loop, reason, self._bounds(loop)))
        await _insist(run, turn, lambda turn: self._journal.release(run, turn=turn))

    def _bounds(self, loop: Loop) -> TurnBounds:
        bounds = self._options.bounds
        if not loop.shortening.cuts:
            return bounds
        return replace(bounds, turn_tokens=min(bounds.turn_tokens, _room(loop)))

    def _turn(self, loop: Loop, messages: tuple[RawMessage, ...]) -> Turn | None:
        if not messages:
            return None
        size = self._options.bytes_max
        if loop.shortening.cuts:  # or every later turn would be refused as often
            size = min(size, BYTES_OF_TOKEN * _room(loop))
        return Turn(messages, self._options.ttl_seconds, size)


def _room(loop: Loop) -> int:
    """The tokens that a later turn may find, after a server refused the conversation for its length."""
    return max(_TOKENS_MIN, loop.shortening.tokens)


async def _insist(
    run: Run, turn: Turn | None, write: Callable[[Turn | None], Awaitable[None]]
) -> None:
    """Let go of a run with its turn; where that is in conflict for ever, without."""
    for _ in range(_CONFLICTS_MAX):
        try:
            return await write(turn)
        except SessionConflict as conflict:
            assert run.session is not None
            run.session.version = conflict.version
    return await write(None)

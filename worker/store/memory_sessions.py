"""The sessions of the memory store: who has one, who waits for it, and what was said in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from worker.core.errors import SessionBusy, SessionConflict
from worker.core.history import RawMessage
from worker.store import codec
from worker.store.port import (
    LINE_KEPT_SECONDS,
    LINE_PATIENCE_SECONDS,
    SessionClaim,
    SessionHold,
    SessionWait,
    Turn,
)

Key = tuple[str, str]


@dataclass(slots=True)
class _Waiter:
    run: str
    place: float
    arrived: int
    until: float


@dataclass(slots=True)
class _Session:
    id: str
    version: int = 0
    holder: str | None = None
    hold_until: float = 0.0
    expires_at: float = 0.0
    held_up_by: str | None = None
    held_up_since: float = 0.0
    turns: dict[str, bytes] = field(default_factory=dict)  # by run, in the order of the saves
    line: dict[str, _Waiter] = field(default_factory=dict)

    def first(self, now: float) -> _Waiter | None:
        """Who waits in front."""
        waiting = [waiter for waiter in self.line.values() if waiter.until > now]
        return min(waiting, key=lambda waiter: (waiter.place, waiter.arrived), default=None)

    def before(self, mine: _Waiter, now: float) -> int:
        """How many wait in front of one."""
        return sum(
            other.until > now and (other.place, other.arrived) < (mine.place, mine.arrived)
            for other in self.line.values()
        )

    def must_wait(self, claim: SessionClaim, run_id: str, now: float) -> bool:
        """Whether somebody in front may still come; who does not in time loses its place."""
        late = self.held_up_by
        if late is not None and now - self.held_up_since > LINE_PATIENCE_SECONDS:
            self.line.pop(late, None)
        first = self.first(now)
        if first is None or first.run == run_id or first.place > claim.place:
            return False
        if first.run != late:
            self.held_up_by, self.held_up_since = first.run, now
        return True


class SessionShelf:
    """All sessions. Every method is synchronous: state changes between two awaits.

    `has(run, hold_until, now)` tells whether a run may still have a session that it took, `fence`
    keeps a run from writing.
    """

    def __init__(
        self, has: Callable[[str, float, float], bool], fence: Callable[[str], None]
    ) -> None:
        self._has = has
        self._fence = fence
        self._sessions: dict[Key, _Session] = {}
        self._of: dict[str, _Session] = {}  # what a run has, or waits for
        self._numbers = itertools.count()

    def __repr__(self) -> str:
        return f"SessionShelf({len(self._sessions)} sessions)"

    def take(self, claim: SessionClaim, run_id: str, now: float) -> SessionHold | None:
        """Give the session to a run; None when it does without.

        Raises SessionBusy, with a place in the line.
        """
        session = self._sessions.setdefault((claim.tenant, claim.id), _Session(claim.id))
        self._of[run_id] = session
        holder = session.holder
        is_held = holder is not None and self._has(holder, session.hold_until, now)
        if holder != run_id:
            if is_held:
                self._refuse(session, claim, run_id, now)
                return None
            if holder is not None:
                self._fence(holder)
            if session.must_wait(claim, run_id, now):
                self._refuse(session, claim, run_id, now)
                return None
        if session.expires_at <= now and not is_held:
            session.turns.clear()
        session.holder, session.hold_until, session.held_up_by = run_id, 0.0, None
        session.line.pop(run_id, None)
        return SessionHold(claim.id, claim.tenant, session.version)

    def _refuse(self, session: _Session, claim: SessionClaim, run_id: str, now: float) -> None:
        if claim.or_without:
            session.line.pop(run_id, None)
            self._of.pop(run_id, None)
            return
        mine = self._stand(session, claim, run_id, now)
        raise SessionBusy(f"session {claim.id!r} is busy", ahead=session.before(mine, now))

    def waits(self, run_id: str, now: float) -> SessionWait | None:
        """The session that a run stands in line for."""
        session = self._of.get(run_id)
        mine = session.line.get(run_id) if session is not None else None
        if session is None or mine is None or mine.until <= now:
            return None
        holder = session.holder
        is_held = holder is not None and self._has(holder, session.hold_until, now)
        return SessionWait(session.id, holder if is_held else None, session.before(mine, now))

    def enlist(self, claim: SessionClaim, run_id: str, now: float) -> None:
        """Put a run that has not been opened into the line, unless it is there."""
        session = self._sessions.setdefault((claim.tenant, claim.id), _Session(claim.id))
        if run_id not in session.line:
            self._of[run_id] = session
            self._stand(session, claim, run_id, now)

    def _stand(self, session: _Session, claim: SessionClaim, run_id: str, now: float) -> _Waiter:
        known = session.line.get(run_id)
        arrived = known.arrived if known is not None else next(self._numbers)
        mine = _Waiter(run_id, claim.place, arrived, now + LINE_KEPT_SECONDS)
        session.line[run_id] = mine
        return mine

    def read(self, claim: SessionClaim, *, now: float | None = None) -> tuple[RawMessage, ...]:
        """The messages of a session; with `now`, none of one that is too old."""
        session = self._sessions.get((claim.tenant, claim.id))
        if session is None or (now is not None and session.expires_at <= now):
            return ()
        return codec.load_turns(session.turns.values())[0]

    def keep(self, run_id: str, until: float) -> None:
        """Keep the session for a run that is to be taken up again."""
        session = self._of.get(run_id)
        if session is not None and session.holder == run_id:
            session.hold_until = until

    def free(self, hold: SessionHold, run_id: str, turn: Turn | None, now: float) -> None:
        """Let go of a session, after saving the turn if there is one. Raises SessionConflict."""
        session = self._sessions.setdefault((hold.tenant, hold.id), _Session(hold.id))
        if turn is not None:
            if session.version != hold.version:
                text = f"session {hold.id!r} has been saved"
                raise SessionConflict(text, version=session.version)
            hold.size_bytes = self._save(session, run_id, turn, now)
        self.let_go(run_id)
        first = session.first(now)
        hold.next_run = None if first is None else first.run

    def _save(self, session: _Session, run_id: str, turn: Turn, now: float) -> int:
        body = codec.dump(turn.messages)
        session.turns.pop(run_id, None)
        session.turns[run_id] = body
        session.version += 1
        session.expires_at = now + turn.ttl_seconds
        while len(session.turns) > 1 and _size(session) > turn.bytes_max:
            del session.turns[next(iter(session.turns))]
        return _size(session)

    def let_go(self, run_id: str) -> None:
        """Free what a run has, and take it out of the line."""
        session = self._of.pop(run_id, None)
        if session is None:
            return
        session.line.pop(run_id, None)
        if session.holder == run_id:
            session.holder = None

    def forget_old(self, now: float) -> None:
        """Forget the sessions whose time is over, unless somebody has one or waits for it."""
        for key, session in list(self._sessions.items()):
            holder = session.holder
            is_held = holder is not None and self._has(holder, session.hold_until, now)
            if session.expires_at <= now and not is_held and session.first(now) is None:
                if holder is not None:
                    self._fence(holder)  # nobody will know of it any more
                del self._sessions[key]


def _size(session: _Session) -> int:
    return sum(map(len, session.turns.values()))

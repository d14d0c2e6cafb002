"""Open breakers of other workers, taken as advice.

What a worker has measured itself is the truth for it; what others say can only make it more
careful, and only when enough of them say the same: one sick worker, whose network is broken, moves
nobody. An open that was taken over on advice is not passed on, or the fleet would keep itself open.
Nobody closes on advice: the window gets shorter, and the worker's own trial decides.

Calls never wait for any of it: a task asks the store now and then and tells the breakers.
"""

from __future__ import annotations

import asyncio
import json
import math
import random as random_module
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.core.errors import StoreUnavailable
from worker.guard.admission import Admission

QUORUM_MIN = 2
QUORUM_SHARE = 0.3  # of the workers that are there
SAY_EVERY_SECONDS = 5.0  # also when there is nothing new
TTL_SECONDS = 15.0  # after it a worker that says nothing is not there
RECOVERED_SECONDS = 10.0  # so long a worker says that a breaker of its own has closed
SOONER_SECONDS = 1.0  # at most, until the trial of who hears that others have closed
TIMEOUT_SECONDS = 2.0
NAMES_MAX = 100  # breakers that one worker tells of, of those that find room
WORDS_MAX = 8_000  # characters; a store takes no more


class Heard(Protocol):
    """What the store's peers return (`store/peers.py`)."""

    @property
    def workers(self) -> int:
        """How many are there."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """What those say that say something."""
        ...


class Peers(Protocol):
    """The part of a store that this needs."""

    async def gossip(self, owner: str, words: str | None, *, ttl_seconds: float) -> Heard:
        """Say something, and hear what all say. Raises StoreUnavailable."""
        ...


class Guarded(Protocol):
    """A guard, by its name and its admission."""

    name: str
    admission: Admission


@dataclass(slots=True)
class Opinion:
    """What the others say of one breaker."""

    opened: list[float] = field(default_factory=list)  # the seconds that each has left
    closed: int = 0


def opinions(words: Iterable[str]) -> dict[str, Opinion]:
    """Read what workers say; what cannot be read is of another version, and nobody's advice."""
    found: dict[str, Opinion] = {}
    for text in words:
        if len(text) > WORDS_MAX:
            continue
        try:
            said = json.loads(text)
            opened = {str(name): float(left) for name, left in said.get("open", {}).items()}
            closed = [str(name) for name in said.get("closed", ())]
        except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
            continue
        for name, left in opened.items():
            if math.isfinite(left) and left > 0:
                found.setdefault(name, Opinion()).opened.append(left)
        for name in closed:
            found.setdefault(name, Opinion()).closed += 1
    return found


def words_of(opened: Mapping[str, float], closed: Sequence[str]) -> str:
    """What a worker says: the seconds that each of its open breakers has left, and what has closed."""
    most = NAMES_MAX
    while True:
        said = {"open": dict([*opened.items()][:most]), "closed": closed[:most]}
        if len(text := json.dumps(said)) <= WORDS_MAX:
            return text
        most //= 2


def quorum(workers: int) -> int:
    """How many have to say that a breaker is open (guard.md 5.6)."""
    return max(QUORUM_MIN, math.ceil(QUORUM_SHARE * workers))


class Fleet:
    """One worker's share in it. `guards` lists the guards of this process.

    `clock` is monotonic seconds. `errors` counts the rounds in which the store could not be asked.
    """

    def __init__(
        self,
        peers: Peers,
        guards: Callable[[], Iterable[Guarded]],
        *,
        owner: str,
        every_seconds: float,
        clock: Callable[[], float],
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self.errors = 0
        self._peers = peers
        self._guards = guards
        self._owner = owner
        self._every = every_seconds
        self._clock = clock
        self._random = random
        self._said: dict[str, Any] | None = None
        self._said_at = -math.inf
        self._followed: dict[str, int] = {}  # breaker: the era of an open on advice
        self._own: set[str] = set()  # breakers that this worker has found open itself
        self._recovered: dict[str, float] = {}  # breaker: until when its close is told

    def __repr__(self) -> str:
        return f"Fleet({self._owner}, says {self._said}, {self.errors} errors)"

    async def run(self) -> None:
        """Gossip for ever. Never raises but for cancellation."""
        while True:
            await asyncio.sleep(self._every * (0.75 + 0.5 * self._random()))
            await self.round()

    async def round(self) -> None:
        """Say what is new, hear, follow. A store that cannot be asked changes nothing."""
        words = self._words()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                heard = await self._peers.gossip(self._owner, words, ttl_seconds=TTL_SECONDS)
        except (StoreUnavailable, TimeoutError):
            self.errors += 1
            self._said = None  # it may not have arrived
            return
        self._follow(heard.workers, opinions(heard.words))

    def _words(self) -> str | None:
        """What to say now; None when all has been said, and not long ago."""
        now, opened = self._clock(), dict[str, float]()
        for guard in self._guards():
            # One that an operator has forced open is his word about this worker, and nobody else's.
            is_open = guard.admission.state == "open"
            left = guard.admission.breaker.open_seconds_left if is_open else None
            if left and self._followed.get(guard.name) != guard.admission.breaker.era:
                opened[guard.name] = left
        for name in self._own - set(opened):
            if self._is_closed(name):
                self._recovered[name] = now + RECOVERED_SECONDS
                self._own.discard(name)
        self._own |= set(opened)
        self._recovered = {
            name: until
            for name, until in self._recovered.items()
            if until > now and name not in opened
        }
        said = {"open": sorted(opened), "closed": sorted(self._recovered)}
        if said == self._said and now - self._said_at < SAY_EVERY_SECONDS:
            return None
        self._said, self._said_at = said, now
        if not opened and not self._recovered:
            return ""
        return words_of(opened, said["closed"])

    def _is_closed(self, name: str) -> bool:
        return any(g.name == name and g.admission.breaker.state == "closed" for g in self._guards())

    def _follow(self, workers: int, said: dict[str, Opinion]) -> None:
        """Open what a quorum has open; let the trial come sooner where others have closed."""
        needed = quorum(workers)
        for guard in self._guards():
            opinion = said.get(guard.name)
            if opinion is None:
                continue
            if len(opinion.opened) >= needed:
                if guard.admission.advise_open(max(opinion.opened)):
                    self._followed[guard.name] = guard.admission.breaker.era
            elif opinion.closed and not opinion.opened:
                guard.admission.advise_trial(SOONER_SECONDS * self._random())

"""The network between a process and its broker or store, with everything that happens to calls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from tests.simulation.facts import Mishap
from tests.simulation.machine import Process
from tests.simulation.plan import Chance, Faults
from worker.core.errors import WorkerError

Operation = Callable[[], Awaitable[Any]]

_LATE_SECONDS = 30.0  # longer than most leases: what was sent may come when nobody waits for it
_NEVER_LATE = frozenset({"claim"})  # a lost reply is the same


class Link:
    """What every call of one process to one engine goes through.

    A process that is dead reaches nobody: its calls end as if they were cancelled.
    """

    def __init__(
        self,
        process: Process,
        engine: str,
        *,
        failure: type[WorkerError],
        faults: Callable[[], Faults],
        chance: Chance,
        note: Callable[[Mishap], None],
        later: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._process = process
        self._engine = engine
        self._failure = failure
        self._faults = faults
        self._chance = chance
        self._note = note
        self._later = later

    def __repr__(self) -> str:
        return f"Link({self._process.name} to the {self._engine})"

    async def call(self, name: str, operation: Operation) -> Any:
        """Make one call. Raises the engine's failure where it is lost."""
        self._alive()
        if name == "close":  # never fails, by the ports: what it cannot hand back runs out
            return await operation()
        luck, faults = self._chance.random(), self._faults()
        for fate, probability in (
            (self._slow, faults.slow_call),
            (self._lose_request, faults.lost_request),
            (self._lose_reply, faults.lost_reply),
            (self._deliver_late, 0.0 if name in _NEVER_LATE else faults.late_request),
            (self._crash, faults.crash_at_call if self._process.is_mortal else 0.0),
        ):
            if luck < probability:
                return await fate(name, operation)
            luck -= probability
        value = await operation()
        self._alive()
        return value

    async def _slow(self, name: str, operation: Operation) -> Any:
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        self._alive()
        value = await operation()
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        self._alive()
        return value

    async def _lose_request(self, name: str, operation: Operation) -> Any:
        await self._wait_in_vain("lost request", name)

    async def _lose_reply(self, name: str, operation: Operation) -> Any:
        await operation()
        await self._wait_in_vain("lost reply", name)

    async def _deliver_late(self, name: str, operation: Operation) -> Any:
        self._later(_after(self._chance.uniform(0.0, _LATE_SECONDS), operation))
        await self._wait_in_vain("late request", name)

    async def _crash(self, name: str, operation: Operation) -> Any:
        is_done = self._chance.happens(0.5)
        if is_done:
            await operation()
        self._tell("crash after" if is_done else "crash before", name)
        self._process.kill()
        self._alive()

    async def _wait_in_vain(self, kind: str, name: str) -> None:
        self._tell(kind, name)
        await asyncio.sleep(self._chance.uniform(0.0, 3.0))
        self._alive()
        raise self._failure(f"{kind}: {self._engine} {name}")

    def _tell(self, kind: str, name: str) -> None:
        self._note(Mishap(kind, f"{self._engine}.{name}"))

    def _alive(self) -> None:
        if self._process.is_dead:
            raise asyncio.CancelledError


class Across:
    """An engine at the other end of a link: each of its coroutine methods is a call."""

    def __init__(self, engine: Any, link: Link) -> None:
        self._engine = engine
        self._link = link
        if hasattr(engine, "mail"):
            self.mail = Across(engine.mail, link)

    def __repr__(self) -> str:
        return f"Across({self._link!r})"

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._engine, name)
        if not inspect.iscoroutinefunction(value):
            return value
        link = self._link

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await link.call(name, partial(value, *args, **kwargs))

        setattr(self, name, call)  # looked up once
        return call

    def sibling(self, name: str) -> Across:
        """The queue of another name, over the same link."""
        return Across(self._engine.sibling(name), self._link)


class Repeating(Across):
    """A queue that delivers some leases twice, in the same words."""

    def __init__(self, engine: Any, link: Link, *, repeats: Callable[[], bool]) -> None:
        super().__init__(engine, link)
        self._repeats = repeats
        self._again: list[Any] = []

    async def claim(self, *, limit: int = 1, **wish: Any) -> list[Any]:
        """Deliver what comes again, or what is new."""
        again, self._again = self._again[:limit], self._again[limit:]
        if again:
            return again
        call = partial(self._engine.claim, limit=limit, **wish)
        leases: list[Any] = await self._link.call("claim", call)
        self._again += [lease for lease in leases if self._repeats()]
        return leases


async def _after(seconds: float, operation: Operation) -> None:
    await asyncio.sleep(seconds)
    try:
        await operation()
    except WorkerError:
        return  # nobody is there to hear it

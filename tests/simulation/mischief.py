"""What goes wrong in a world, and when: each kind by its own luck, until the time for it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.simulation.facts import Mishap
from tests.simulation.plan import Chance

if TYPE_CHECKING:
    from tests.simulation.world import World

Deed = Callable[[Chance], Awaitable[None]]


class Mischief:
    """Does it all. Every deed mends itself, or is mended when the time is over."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def go_on(self) -> None:
        """Do one kind of thing after another, for ever."""
        faults = self._world.plan.faults
        deeds: list[tuple[str, float, Deed]] = [
            ("crash", faults.crash, self._crash),
            ("pause", faults.pause, self._pause),
            ("block", faults.block, self._block),
            ("queue outage", faults.queue_outage, self._queue_outage),
            ("store outage", faults.store_outage, self._store_outage),
            ("eviction", faults.eviction, self._evict),
            ("clock jump", faults.clock_jump, self._move_clock),
            ("drain", faults.drain, self._drain),
            ("abort", faults.abort, self._abort),
            ("cancel", faults.cancel, self._cancel),
            ("redrive", faults.redrive, self._redrive),
        ]
        async with asyncio.TaskGroup() as group:
            for kind, mean, deed in deeds:
                if mean:
                    group.create_task(self._repeat(kind, mean, deed))

    async def _repeat(self, kind: str, mean: float, deed: Deed) -> None:
        chance = Chance(self._world.plan.seed, kind)
        while True:
            await asyncio.sleep(chance.around(mean))
            await deed(chance)

    async def _crash(self, chance: Chance) -> None:
        if (staff := self._world.one(chance)) is not None:
            self._note("crash", staff.process.name)
            staff.process.kill()

    async def _pause(self, chance: Chance) -> None:
        await self._stop(chance, heartbeat=True)

    async def _block(self, chance: Chance) -> None:
        await self._stop(chance, heartbeat=False)

    async def _stop(self, chance: Chance, *, heartbeat: bool) -> None:
        staff = self._world.one(chance)
        if staff is None or staff.process.work.is_stopped:
            return
        seconds = chance.uniform(0.1, 3.0) * self._world.plan.lease_seconds
        self._note("pause" if heartbeat else "block", f"{staff.process.name} {seconds:.1f} s")
        staff.process.stop(heartbeat=heartbeat)
        try:
            await asyncio.sleep(seconds)
        finally:
            staff.process.go_on()

    async def _queue_outage(self, chance: Chance) -> None:
        await self._outage(self._world.broker, chance)

    async def _store_outage(self, chance: Chance) -> None:
        await self._outage(self._world.base, chance)

    async def _outage(self, engine: object, chance: Chance) -> None:
        self._note("outage", type(engine).__name__)
        engine.outage = True  # type: ignore[attr-defined]
        try:
            await asyncio.sleep(chance.expovariate(1.0 / self._world.plan.lease_seconds))
        finally:
            engine.outage = False  # type: ignore[attr-defined]

    async def _evict(self, chance: Chance) -> None:
        rows = [
            row for shelf in self._world.broker.shelves.values() for row in shelf.leased.values()
        ]
        if rows:
            row = chance.choice(rows)
            self._note("eviction", row.id)
            row.lease_until = self._world.broker.clock()
            self._world.broker.clock_moved()

    async def _move_clock(self, chance: Chance) -> None:
        name = chance.choice(["broker", "store", *self._world.clocks.workers])
        seconds = chance.choice((-300.0, -20.0, 20.0, 300.0))
        self._note("clock jump", f"{name} {seconds:+.0f} s")
        self._world.clocks.move(name, seconds)
        self._world.broker.clock_moved()

    async def _drain(self, chance: Chance) -> None:
        if (staff := self._world.one(chance)) is not None:
            self._note("drain", staff.process.name)
            staff.drain()

    async def _abort(self, chance: Chance) -> None:
        if (staff := self._world.one(chance)) is not None:
            self._note("abort", staff.process.name)
            staff.process.cancel()

    async def _cancel(self, chance: Chance) -> None:
        self._note("cancel")
        await self._asked(self._world.people.call_off_one())

    async def _redrive(self, chance: Chance) -> None:
        dead = [row.id for row in self._world.rows() if row.state == "dead"]
        if dead:
            self._note("redrive")
            await self._asked(self._world.people.redrive_one(dead))

    async def _asked(self, asking: Coroutine[Any, Any, None]) -> None:
        # Whoever has begun to ask goes on until he is heard, also when the time for this is over.
        await asyncio.shield(self._world.group.create_task(asking))

    def _note(self, kind: str, detail: str = "") -> None:
        self._world.note(Mishap(kind, detail))

"""One world: a broker, a store, some workers, their callers, and what goes wrong; from one seed."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tests.simulation.engines import NotedQueue, NotedStore
from tests.simulation.facts import Fact, Facts, Mishap, Told
from tests.simulation.links import Across, Link, Repeating
from tests.simulation.machine import STRAND, MachineLoop, Process
from tests.simulation.mischief import Mischief
from tests.simulation.outside import Site
from tests.simulation.people import People
from tests.simulation.plan import Chance, Faults, Plan
from tests.simulation.staff import Staff, Surroundings
from worker.core.errors import QueueUnavailable, StoreUnavailable
from worker.queues.memory import MemoryBroker
from worker.queues.memory_shelf import Row
from worker.store.memory import MemoryBase

TROUBLE_SECONDS = 120.0  # of mischief, from the beginning
LIMIT_SECONDS = 3600.0  # then everything must have ended
_LOOK_SECONDS = 5.0
_RESTART_SECONDS = (0.5, 15.0)
_QUIET = Faults(model_fails=0.0, tool_fails=0.0, tool_hangs=0.0)


class Clocks:
    """The time of day of everybody: the same at first, and nobody may trust it."""

    def __init__(self, loop: MachineLoop) -> None:
        self._loop = loop
        self._ahead: dict[str, float] = {}
        self.workers: list[str] = []

    def of(self, name: str) -> Callable[[], float]:
        """The clock of one of them."""
        self._ahead.setdefault(name, 0.0)
        return lambda: self._loop.wall() + self._ahead[name]

    def move(self, name: str, seconds: float) -> None:
        """Set somebody's clock."""
        self._ahead[name] += seconds


@dataclass(slots=True)
class Outcome:
    """What a world has come to, for the checkers."""

    plan: Plan
    facts: Facts
    rows: dict[str, Row]
    replies: dict[str, Row]
    wanted: set[str]  # tasks whose results are to be published
    base: MemoryBase
    is_over: bool  # everything has ended within the time for it
    seconds: float  # simulated


class World:
    """Builds everything on the running loop, and lets it happen."""

    def __init__(self, plan: Plan, loop: MachineLoop, facts: Facts) -> None:
        self.plan = plan
        self.faults = plan.faults
        self.facts = facts
        self.loop = loop
        self.clocks = Clocks(loop)
        self.broker = MemoryBroker(clock=self.clocks.of("broker"))
        self.base = MemoryBase(clock=self.clocks.of("store"))
        self.staff: dict[int, Staff] = {}
        self.people = self._people()
        self._done: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._lives = itertools.count(1)
        self._late: set[asyncio.Task[None]] = set()
        self._closing = False
        self.group = asyncio.TaskGroup()

    def __repr__(self) -> str:
        return f"World({self.plan.seed}: {self.plan.world}, {self.facts!r})"

    async def happen(self) -> Outcome:
        """Let it go its way, then mend everything, then wait for the end."""
        async with self.group as group:
            lives = [group.create_task(self._live(slot)) for slot in range(self.plan.workers)]
            handing_in = group.create_task(self.people.hand_in())
            mischief = group.create_task(Mischief(self).go_on())
            await asyncio.sleep(TROUBLE_SECONDS)
            mischief.cancel()
            await asyncio.wait([mischief])
            self.faults = _QUIET
            await handing_in
            is_over = await self._end()
            self._closing = True
            for staff in self.staff.values():
                staff.drain()
            await asyncio.wait(lives, timeout=LIMIT_SECONDS)
            for life in lives:
                life.cancel()
        for task in self._late:
            task.cancel()
        rows = {row.id: row for row in self.rows()}
        shelf = self.broker.shelves.get("replies")
        replies = dict(shelf.rows) if shelf else {}
        return Outcome(
            self.plan,
            self.facts,
            rows,
            replies,
            self.people.wanting,
            self.base,
            is_over,
            self.loop.time(),
        )

    def one(self, chance: Chance) -> Staff | None:
        """Any worker that lives."""
        living = [self.staff[slot] for slot in sorted(self.staff)]
        return chance.choice(living) if living else None

    def rows(self) -> list[Row]:
        """What the broker has of the tasks."""
        return list(self.broker.shelves["tasks"].rows.values())

    def note(self, fact: Fact) -> None:
        """Write down what happened, when, and who did it."""
        strand = STRAND.get()
        fact.at, fact.by = self.loop.time(), strand.name if strand else "world"
        self.facts.all.append(fact)

    # --- the lives of workers --------------------------------------------------------------------

    async def _live(self, slot: int) -> None:
        """Have a worker in this place, and another one whenever it ends."""
        chance = Chance(self.plan.seed, f"place {slot}")
        while not self._closing:
            staff = self._hire(slot)
            life = staff.process.start(staff.work())
            try:
                await asyncio.wait([life])
            finally:
                life.cancel()
            self.staff.pop(slot, None)
            if not staff.process.is_dead:
                self._look_for_leaks(staff)
            staff.process.is_dead = True
            if not life.cancelled() and (error := life.exception()) is not None:
                self.note(Mishap("bug", "".join(traceback.format_exception(error))))
            if not self._closing:
                await asyncio.sleep(chance.uniform(*_RESTART_SECONDS))

    def _look_for_leaks(self, staff: Staff) -> None:
        """Note what the guards of a worker that has ended still hold for calls of before."""
        for guard in staff.guards.all():
            objection = guard.peek()
            if guard.bulkhead.in_use:
                self.note(Mishap("leak", f"{staff.process.name}: a slot of {guard.name}"))
            if objection is not None and objection.reason == "trial_in_flight":
                self.note(Mishap("leak", f"{staff.process.name}: the trial of {guard.name}"))

    def _hire(self, slot: int) -> Staff:
        name = f"w{slot}.{next(self._lives)}"
        process, chance = Process(name, self.loop), Chance(self.plan.seed, name)
        place = f"w{slot}"
        if place not in self.clocks.workers:
            self.clocks.workers.append(place)
        queue, store = self._engines(process, chance, lambda: slot)
        staff = self.staff[slot] = Staff(
            self.plan,
            Surroundings(
                process,
                queue,
                store,
                Site(
                    chance,
                    lambda: self.faults,
                    self._note_of(process),
                    lambda: next(self._numbers),
                    self._done,
                    lambda: process.is_dead,
                ),
                wall=self.clocks.of(place),
                clock=self.loop.time,
                told=lambda signal: self._note_of(process)(Told(signal)),
            ),
        )
        return staff

    def _note_of(self, process: Process) -> Callable[[Fact], None]:
        def note(fact: Fact) -> None:
            if not process.is_dead:
                self.note(fact)

        return note

    def _engines(
        self, process: Process, chance: Chance, slot: Callable[[], int]
    ) -> tuple[Across, Across]:
        def draining() -> bool:
            staff = self.staff.get(slot())
            return staff is not None and staff.is_drained

        queue = NotedQueue(
            self.broker, self.note, draining, max_deliveries=self.plan.max_deliveries
        )
        links = [
            Link(
                process,
                engine,
                failure=failure,
                faults=lambda: self.faults,
                chance=chance,
                note=self.note,
                later=self._later,
            )
            for engine, failure in (("queue", QueueUnavailable), ("store", StoreUnavailable))
        ]
        repeats = Chance(self.plan.seed, f"{process.name} repeats")
        return (
            Repeating(queue, links[0], repeats=lambda: repeats.happens(self.faults.duplicate)),
            Across(NotedStore(self.base, self.note), links[1]),
        )

    def _later(self, coroutine: Coroutine[Any, Any, None]) -> None:
        # What is on its way belongs to no process: it arrives even if its sender is dead.
        task = self.loop.create_task(coroutine, context=self._outside)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    def _people(self) -> People:
        self._outside = contextvars.copy_context()
        process = Process("people", self.loop, is_mortal=False)
        chance = Chance(self.plan.seed, "people's links")
        queue, store = self._engines(process, chance, lambda: -1)
        return People(self.plan, queue, store, note=self.note, wall=self.clocks.of("people"))

    # --- the end -----------------------------------------------------------------------------------

    async def _end(self) -> bool:
        ends = self.loop.time() + LIMIT_SECONDS
        while self.loop.time() < ends:
            if self._is_quiet():
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    def _is_quiet(self) -> bool:
        rows = self.rows()
        if (
            self._late
            or self.people.asking
            or any(row.state not in ("done", "dead") for row in rows)
        ):
            return False
        records = self.base.records
        return all(
            (record := records.get(row.id)) is not None and record.result is not None
            for row in rows
        )


def run_world(plan: Plan, facts: Facts | None = None) -> Outcome:
    """Let a world happen on a loop of its own; what happens is written into `facts`.

    Raises SimStuck when it does not end.
    """
    noted = Facts() if facts is None else facts
    with asyncio.Runner(debug=False, loop_factory=MachineLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, MachineLoop)
        loop.ends_at = TROUBLE_SECONDS + 3 * LIMIT_SECONDS
        return runner.run(_happen(plan, loop, noted))


async def _happen(plan: Plan, loop: MachineLoop, facts: Facts) -> Outcome:
    world = World(plan, loop, facts)
    loop.set_exception_handler(lambda _, what: world.note(Mishap("bug", _told(what))))
    return await world.happen()


def _told(what: dict[str, Any]) -> str:
    return f"{what['message']}: {what.get('exception')!r}"

"""Runs of one session in any interleaving, crashes included: whole turns, in the order of their ends."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from worker.core.errors import LeaseLost, RunBusy, SessionBusy
from worker.core.history import is_paired
from worker.core.task import Result
from worker.sqlitefile import SqliteFile
from worker.sqliteopen import FileSettings
from worker.store.memory import MemoryBase, MemoryStore
from worker.store.port import HOLD_PATIENCE_SECONDS, SessionClaim, Turn
from worker.store.sqlite import SqliteStore
from worker.store.sqlite_tables import STORE
from worker.testing.harness import FakeClock
from worker.testing.session_case import turn_of
from worker.testing.store_case import note

pytestmark = pytest.mark.slow

TASKS = 4
LEASE = 30.0
TTL = 400.0

# What has gone wrong before, or is too rare to be found by chance.
LATE_WRITE = [("open", 1, "x"), ("pass", 95, None), ("open", 0, "x"), ("step", 1, False)]
LATE_WRITE_AFTER_PRUNE = [*LATE_WRITE[:2], ("prune", 0, None), *LATE_WRITE[2:]]
TOO_OLD = [
    *[("open", 1, "x"), ("finish", 1, False), ("pass", 250, None), ("pass", 250, None)],
    ("open", 0, "x"),
]

PRUNED_UNDER_A_LAPSED_RUN = [
    *[("open", 0, "x"), ("park", 0, False), ("open", 0, "x")],
    *[("pass", 250, None), ("pass", 250, None), ("prune", 0, None)],
]

tasks = st.integers(0, TASKS - 1)
acts = st.one_of(
    st.tuples(st.just("open"), tasks, st.sampled_from("xy")),
    st.tuples(st.sampled_from(["step", "finish", "retry", "park", "renew"]), tasks, st.booleans()),
    st.tuples(st.sampled_from(["outside", "redrive", "enlist"]), tasks, st.none()),
    st.tuples(st.just("pass"), st.sampled_from([1, 31, 95, 250]), st.none()),
    st.tuples(st.just("prune"), st.just(0), st.none()),
)


class World:
    """A store, the handles that anybody ever had, and what the conversation has to be."""

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock
        self.handles = [[] for _ in range(TASKS)]  # the last one is of the present owner
        self.has = None  # the task that took the session last, until it lets go
        self.until = 0.0  # when it will have lapsed
        self.turns = {}  # by task, in the order of the saves
        self.saved_at = clock.now
        self.taken = 0
        self.saves = 0

    async def act(self, act):
        """Do one thing, whatever the state, and check that it was allowed."""
        name, number, more = act
        if name == "pass":
            self.clock.now += number
        elif name == "prune":
            await self.store.prune(older_than_seconds=1e9)
        elif name == "open":
            await self.open(number, more)
        elif name == "enlist":
            await self.store.enlist(f"t{number}", SessionClaim("s", "", number))
        elif name == "redrive":
            await self.store.reopen(f"t{number}")
        elif name == "outside":
            if await self.store.put_result(Result(task_id=f"t{number}", status="cancelled")):
                self.let_go(number)
        elif self.handles[number]:
            await self.write(name, number, self.handles[number][0 if more else -1])

    async def open(self, number, owner):
        claim = SessionClaim("s", "", number)
        try:
            opened = await self.store.open(
                f"t{number}", owner=owner, lease_seconds=LEASE, session=claim
            )
        except (RunBusy, SessionBusy):
            return
        if opened.run is None:
            return
        has_it = self.has == number and self.until > self.clock.now
        if not has_it and self.clock.now >= self.saved_at + TTL:
            self.turns = {}
        self.has = number
        self.hold(LEASE)
        self.taken += 1
        self.handles[number].append(opened.run)
        if not opened.events:
            assert list(opened.history) == self.expected()

    async def write(self, name, number, run):
        """Write with a handle, perhaps one that is stale; only who has the session may succeed."""
        task = f"t{number}"
        try:
            if name == "step":
                await self.store.append(run, [note(0)])
            elif name == "renew":
                await self.store.renew(run, lease_seconds=LEASE)
                self.hold(LEASE)
            elif name == "retry":
                await self.store.release(run, hold_seconds=5.0)
                self.hold(5.0)
            elif name == "park":
                await self.store.release(run, turn=self.turn(f"{task} waits"))
            else:
                result = Result(task_id=task, status="completed")
                was_over = await self.store.result(task) is not None
                await self.store.finish(run, [note(1)], result, turn=self.turn(f"{task} ends"))
                if was_over:
                    return  # said once more by its owner: nothing was added
        except LeaseLost:
            return
        assert self.has == number, f"{task} wrote while t{self.has} had the session"
        if name in ("park", "finish"):
            self.turns.pop(number, None)
            self.turns[number] = f"{task} {'waits' if name == 'park' else 'ends'}"
            self.saved_at = self.clock.now
            self.saves += 1
            self.let_go(number)

    def hold(self, seconds):
        self.until = self.clock.now + seconds + HOLD_PATIENCE_SECONDS

    def turn(self, name):
        return Turn(turn_of(name).messages, TTL, 1_000_000)

    def let_go(self, number):
        if self.has == number:
            self.has = None

    def expected(self):
        return [m for name in self.turns.values() for m in turn_of(name).messages]

    async def check(self):
        """The conversation is the concatenation of whole turns, in the order of the saves."""
        kept = list(await self.store.conversation("s"))
        fresh = self.clock.now < self.saved_at + TTL

        assert kept == (self.expected() if fresh else [])
        assert is_paired(kept)


async def live(store, clock, script):
    """Act out a script, then let every task come to its end: nobody waits for ever."""
    world = World(store, clock)
    for act in script:
        await world.act(act)
        await world.check()
    for _ in range(3 * TASKS):
        clock.now += 100
        for number in range(TASKS):
            await world.act(("redrive", number, None))
            await world.act(("open", number, "z"))
            if world.handles[number]:
                await world.act(("finish", number, False))
            await world.check()
    assert sorted(world.turns) == list(range(TASKS))
    return world


@settings(max_examples=300, deadline=None)
@given(st.lists(acts, max_size=40))
@example(LATE_WRITE)
@example(LATE_WRITE_AFTER_PRUNE)
@example(TOO_OLD)
@example(PRUNED_UNDER_A_LAPSED_RUN)
def test_any_interleaving_in_memory(script):
    """One run at a time, its turns whole and in order; and in the end everybody has had its own."""
    clock = FakeClock()
    asyncio.run(live(MemoryStore(MemoryBase(clock=clock)), clock, script))


async def in_a_file(script):
    """The same on a file that two stores have open, as two processes would."""
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder:
        where = FileSettings(str(Path(folder) / "s.db"), synchronous="off")
        stores = [SqliteStore(InOneThread(where, parts=[STORE]), clock=clock) for _ in range(2)]
        try:
            return await live(Turning(stores), clock, script)
        finally:
            for store in stores:
                await store.close()


class InOneThread(SqliteFile):
    """A file whose every call is done where it is made.

    The calls of a script come one after another, and to hand each to a thread and back costs
    several times as much as what its statements do.
    """

    def write(self, work, argument, *, synced=True, at_once=False):
        """Write at once, as callers do with what is small."""
        return super().write(work, argument, synced=synced, at_once=True)

    def read(self, work):
        """Read with the reader's connection, which its thread does not use meanwhile."""
        done = asyncio.get_running_loop().create_future()
        done.set_result(work(self._reader_connection))
        return done


class Turning:
    """Every call goes to the next of several stores."""

    def __init__(self, stores):
        self.stores = stores

    def __getattr__(self, name):
        self.stores = [*self.stores[1:], self.stores[0]]
        return getattr(self.stores[0], name)


@settings(max_examples=60, deadline=None)
@given(st.lists(acts, max_size=40))
@example(LATE_WRITE)
@example(LATE_WRITE_AFTER_PRUNE)
@example(TOO_OLD)
@example(PRUNED_UNDER_A_LAPSED_RUN)
def test_any_interleaving_in_a_file(script):
    """The engine that users have does the same as the one in memory."""
    asyncio.run(in_a_file(script))


@pytest.mark.parametrize("run", ["memory", "file"])
def test_the_scripts_reach_what_they_are_for(run):
    """A script of every kind of act takes the session several times and saves in between."""
    script = [
        *[("open", 0, "x"), ("step", 0, False), ("open", 1, "x"), ("park", 0, False)],
        *[("open", 1, "x"), ("retry", 1, False), ("open", 2, "y"), ("pass", 95, None)],
        *[("open", 2, "y"), ("step", 1, True), ("finish", 2, False), ("open", 0, "y")],
        *[("step", 0, True), ("finish", 0, False), ("pass", 250, None), ("prune", 0, None)],
    ]
    clock = FakeClock()
    if run == "memory":
        world = asyncio.run(live(MemoryStore(MemoryBase(clock=clock)), clock, script))
    else:
        world = asyncio.run(in_a_file(script))

    assert world.taken >= 4 + TASKS
    assert world.saves >= 3 + TASKS

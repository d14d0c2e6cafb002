"""What workers do with the open breakers of others: a quorum moves them, one alone does not."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.guard.stage import Stage, Tool
from worker.guard import fleet as gossip
from worker.guard.fleet import Fleet, opinions, quorum, words_of
from worker.store import peers
from worker.store.memory import MemoryBase, MemoryStore
from worker.testing.simclock import simulated


class Workers:
    """Some workers on one store, each with a guard of the same dependency."""

    def __init__(self, count: int) -> None:
        self.stages = [Stage(fail_max=2, open_seconds=30) for _ in range(count)]
        loop = self.stages[0].loop
        self.base = MemoryBase(clock=loop.wall)
        self.fleets = [
            Fleet(
                MemoryStore(self.base).peers,
                lambda stage=stage: [stage.guard],
                owner=f"w{number}",
                every_seconds=0.2,
                clock=loop.time,
                random=lambda: 0.5,
            )
            for number, stage in enumerate(self.stages)
        ]

    async def rounds(self, times: int = 1) -> None:
        """Let all of them gossip."""
        for _ in range(times):
            for fleet in self.fleets:
                await fleet.round()

    async def said(self) -> list[str]:
        """What all of them say now."""
        heard = await MemoryStore(self.base).peers.gossip("x", None, ttl_seconds=1)
        return list(heard.words)

    @property
    def states(self) -> list[str]:
        """The states of the breakers."""
        return [stage.guard.state for stage in self.stages]


@simulated
async def test_one_sick_worker_moves_nobody() -> None:
    """One of six opens: the others go on, however often they hear it."""
    workers = Workers(6)
    await workers.rounds()
    await workers.stages[0].open()
    await workers.rounds(5)

    assert workers.states == ["open"] + ["closed"] * 5


@simulated
async def test_a_quorum_moves_all_within_half_a_second() -> None:
    """Two of six open: the other four open too, on advice, soon."""
    workers = Workers(6)
    running = [asyncio.create_task(fleet.run()) for fleet in workers.fleets]
    await asyncio.sleep(1)
    await workers.stages[0].open()
    await workers.stages[1].open()
    await asyncio.sleep(0.5)
    for task in running:
        task.cancel()

    assert workers.states == ["open"] * 6
    assert workers.stages[2].heard.moves() == [("closed", "open", "fleet")]


@simulated
async def test_what_was_followed_is_not_passed_on() -> None:
    """When those who found it open are gone, nobody keeps it open by hearsay."""
    workers = Workers(4)
    await workers.rounds()
    await workers.stages[0].open()
    await workers.stages[1].open()
    await workers.rounds(2)
    followers = workers.fleets[2:]
    await asyncio.sleep(20)  # the two have said nothing for longer than their words stand
    for fleet in followers:
        await fleet.round()

    assert workers.states == ["open"] * 4
    assert await workers.said() == []


@simulated
async def test_who_hears_of_a_recovery_tries_sooner_and_by_itself() -> None:
    """The others do not close: their next call is the trial, long before the window is over."""
    workers = Workers(3)
    await workers.rounds()
    for stage in workers.stages[:2]:
        await stage.open()
    await workers.rounds(2)
    assert workers.states == ["open"] * 3
    for stage in workers.stages[:2]:
        stage.guard.admission.breaker.close(cause="trial")
    await workers.rounds(2)
    await asyncio.sleep(1)
    late = workers.stages[2]
    assert late.guard.state == "open"
    outcome = await late.call(Tool("back"))

    assert (outcome.value, late.guard.state) == ("back", "closed")


@simulated
async def test_it_stays_open_for_as_long_as_any_of_those_who_found_it_so() -> None:
    """The one that has opened last has the longest to go."""
    workers = Workers(3)
    await workers.rounds()
    await workers.stages[0].open()
    await asyncio.sleep(14)
    await workers.stages[1].open()
    await workers.rounds(2)

    assert workers.stages[2].guard.open_seconds_left == pytest.approx(30, abs=1)


@simulated
async def test_where_some_still_find_it_open_nobody_tries_sooner() -> None:
    """One of two has closed: the third waits out its time."""
    workers = Workers(3)
    await workers.rounds()
    for stage in workers.stages[:2]:
        await stage.open()
    await workers.rounds(2)
    workers.stages[0].guard.admission.breaker.close(cause="trial")
    await workers.rounds(2)

    assert workers.stages[2].guard.open_seconds_left == pytest.approx(30, abs=1)


@simulated
async def test_only_what_has_closed_is_told_as_recovered() -> None:
    """A window that is over is no recovery, and one that opened again is none any more."""
    workers = Workers(1)
    [stage], [fleet] = workers.stages, workers.fleets
    await stage.open()
    await fleet.round()
    await asyncio.sleep(stage.guard.open_seconds_left)
    await fleet.round()
    due = await workers.said()
    await stage.call(Tool("back"))
    await fleet.round()
    closed = await workers.said()
    await stage.open()
    await fleet.round()
    [again] = await workers.said()

    assert (due, closed) == ([], ['{"open": {}, "closed": ["quotes"]}'])
    assert json.loads(again) == {"open": {"quotes": 30.0}, "closed": []}


@pytest.mark.parametrize("length", [1, 50, 500, 20_000])
def test_what_is_said_has_a_bound(length: int) -> None:
    """However many breakers have opened, and whatever they are called, a store takes the words."""
    names = [str(number).rjust(length, "n") for number in range(1000)]
    text = words_of(dict.fromkeys(names, 29.123456789), names)
    said = json.loads(text)

    assert len(text) <= gossip.WORDS_MAX <= peers.WORDS_MAX
    assert len(said["open"]) == len(said["closed"]) <= gossip.NAMES_MAX
    assert (said["open"] == {}) is (length > gossip.WORDS_MAX)


@simulated
async def test_an_operators_word_stays_with_his_worker() -> None:
    """Forced open by hand is no measurement: others do not follow."""
    workers = Workers(3)
    for stage in workers.stages[:2]:
        stage.guard.force_open(who="ops", why="drill")
    await workers.rounds(3)

    assert workers.states == ["forced_open", "forced_open", "closed"]


@simulated
async def test_a_store_that_is_away_changes_nothing() -> None:
    """Breakers go on by what they measure, and what could not be said is said afterwards."""
    workers = Workers(3)
    await workers.rounds()
    workers.base.outage = True
    for stage in workers.stages[:2]:
        await stage.open()
    await workers.rounds(2)
    assert workers.states == ["open", "open", "closed"]
    assert [fleet.errors for fleet in workers.fleets] == [2, 2, 2]
    workers.base.outage = False
    await workers.rounds(2)

    assert workers.states == ["open"] * 3


@simulated
async def test_nothing_new_is_said_only_now_and_then() -> None:
    """A quiet fleet listens; it writes once in five seconds for each worker."""
    said: list[str | None] = []

    class Counting:
        async def gossip(self, owner: str, words: str | None, *, ttl_seconds: float):
            said.append(words)
            return await real.gossip(owner, words, ttl_seconds=ttl_seconds)

    stage = Stage()
    real = MemoryStore(MemoryBase(clock=stage.loop.wall)).peers
    fleet = Fleet(
        Counting(), lambda: [stage.guard], owner="w", every_seconds=0.5, clock=stage.loop.time
    )
    for _ in range(20):
        await fleet.round()
        await asyncio.sleep(0.5)

    assert [words for words in said if words is not None] == ["", ""]


@pytest.mark.parametrize(("workers", "needed"), [(1, 2), (2, 2), (6, 2), (7, 3), (20, 6)])
def test_the_quorum(workers: int, needed: int) -> None:
    """Two at least, else thirty in a hundred of those that are there."""
    assert quorum(workers) == needed


def test_what_cannot_be_read_is_nobodys_advice() -> None:
    """Words of another version, or of a stranger in the store, are left alone."""
    good = json.dumps({"open": {"quotes": 5, "odd": -1, "more": float("inf")}})
    words = ["", "[]", "{", '{"open": 3}', '{"open": {"quotes": "soon"}}', '"x"', good]
    words += ["[" * 5_000, '{"open": {"quotes": 1' + "0" * 400 + "}}"]  # too deep, too large
    words += [json.dumps({"open": {"quotes": 5}, "closed": ["x" * 9_000]})]  # more than one may say

    found = opinions(words)

    assert {name: said.opened for name, said in found.items()} == {"quotes": [5.0]}


@simulated
async def test_cancelled_it_ends() -> None:
    """A worker that stops does not wait for the store."""

    class Deaf:
        async def gossip(self, owner: str, words: str | None, *, ttl_seconds: float):
            await asyncio.sleep(3600)

    stage = Stage()
    fleet = Fleet(
        Deaf(), lambda: [stage.guard], owner="w", every_seconds=0.1, clock=stage.loop.time
    )
    await fleet.round()
    assert fleet.errors == 1
    running = asyncio.create_task(fleet.run())
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

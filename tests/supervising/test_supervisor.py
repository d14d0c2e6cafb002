"""The supervisor over small real processes: restarted with a delay, ended together, told of."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from worker.core.errors import ConfigError
from worker.supervising import child as one
from worker.supervising import supervisor as several
from worker.supervising.child import Child, Inherited
from worker.supervising.lines import LinePump
from worker.supervising.supervisor import Supervisor, addresses
from worker.telemetry.signals import ProcessChanged
from worker.telemetry.tell import Telemetry


class Heard:
    """A listener that keeps what becomes of processes."""

    def __init__(self) -> None:
        self.changes: list[ProcessChanged] = []
        self.news = asyncio.Event()

    def told(self, signal):
        if isinstance(signal, ProcessChanged):
            self.changes.append(signal)
            self.news.set()

    async def until(self, change: str, times: int = 1) -> None:
        """Wait for a change to have been told so often."""
        async with asyncio.timeout(10):
            while sum(each.change == change for each in self.changes) < times:
                self.news.clear()
                await self.news.wait()


class World:
    """A supervisor over commands, with everything it needs."""

    def __init__(self, *commands: list[str], admin: tuple[str, int] | None = None) -> None:
        self.leash, self.held = os.pipe()
        self.heard = Heard()
        self.supervisor = Supervisor(
            [Child(n, command, admin) for n, command in enumerate(commands, start=1)],
            inherited=Inherited(self.leash),
            pump=LinePump(sys.stdout.fileno()),
            telemetry=Telemetry([self.heard]),
            clock=time.monotonic,
            drain_seconds=1.0,
        )
        self.running = asyncio.create_task(self.supervisor.run())

    async def end(self) -> int:
        """Stop it and return its exit code."""
        self.supervisor.stop()
        async with asyncio.timeout(10):
            return await self.running

    async def ready(self) -> None:
        """Wait until it is ready."""
        await self.until(lambda: self.supervisor.ready().is_ready)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that only the supervisor knows."""
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110  (it has nothing to wait for)
                await asyncio.sleep(0.01)


@pytest.fixture
async def world(monkeypatch):
    """Make worlds; what is left of them is ended with the test."""
    monkeypatch.setattr(several, "PROBE_EVERY_SECONDS", 0.01)
    made: list[World] = []

    def make(*commands, admin=None) -> World:
        made.append(World(*commands, admin=admin))
        return made[-1]

    yield make
    for each in made:
        each.running.cancel()
        await asyncio.gather(each.running, return_exceptions=True)
        os.close(each.leash)
        os.close(each.held)


async def test_all_are_started_and_ended_together(world):
    """Ready when every process is; one signal ends all of them, and that is well."""
    running = world(["sleep", "60"], ["sleep", "60"])
    await running.ready()
    pids = {each.pid for each in running.heard.changes}

    assert await running.end() == 0
    assert len(pids) == 2
    assert [each.change for each in running.heard.changes].count("ended") == 2
    assert not any(child.is_alive for child in running.supervisor.children)


async def test_what_ends_is_started_again_after_a_growing_delay(world, monkeypatch):
    """A process that ends by itself comes back, later each time, and the other lives on."""
    monkeypatch.setattr(several, "RESTART_SECONDS", 0.01)
    running = world(["false"], ["sleep", "60"])
    await running.heard.until("restarting", times=3)

    assert await running.end() == 0
    again = [each for each in running.heard.changes if each.change == "restarting"][:3]
    assert [(each.number, each.exit_code) for each in again] == [(1, 1)] * 3
    assert [each.delay_seconds for each in again] == [0.01, 0.02, 0.04]


@pytest.mark.parametrize(
    ("longest", "sound", "delays"), [(0.02, 60.0, [0.01, 0.02, 0.02]), (1.0, 0.0, [0.01] * 3)]
)
async def test_the_delay_has_an_end(world, monkeypatch, longest, sound, delays):
    """It grows up to a bound, and a process that was sound for a while begins with the first one."""
    monkeypatch.setattr(several, "RESTART_SECONDS", 0.01)
    monkeypatch.setattr(several, "RESTART_SECONDS_MAX", longest)
    monkeypatch.setattr(several, "SOUND_SECONDS", sound)
    running = world(["false"])
    await running.heard.until("restarting", times=3)
    again = [each for each in running.heard.changes if each.change == "restarting"][:3]

    assert [each.delay_seconds for each in again] == delays


async def test_who_is_just_being_started_ends_with_the_others(world, monkeypatch):
    """The word to stop comes while a process is being made: it hears of it all the same."""
    start = Child.start

    async def told_meanwhile(child, *arguments, **options):
        running.supervisor.stop()
        await start(child, *arguments, **options)

    monkeypatch.setattr(Child, "start", told_meanwhile)
    running = world(["sleep", "60"])
    async with asyncio.timeout(10):
        assert await running.running == 0


async def test_what_cannot_be_set_up_ends_all(world):
    """A process that refuses its settings at the start is not tried again for ever."""
    running = world(["sh", "-c", "exit 2"], ["sleep", "60"])
    async with asyncio.timeout(10):
        assert await running.running == 2


async def test_a_late_refusal_does_not_end_the_others(world, monkeypatch):
    """Once all have been ready, one that cannot come back is tried again, beside the others."""
    monkeypatch.setattr(several, "RESTART_SECONDS", 0.01)
    running = world(["sh", "-c", "sleep 0.2; exit 2"], ["sleep", "60"])
    await running.ready()
    await running.heard.until("restarting", times=1)

    assert await running.end() == 0


async def test_what_does_not_end_is_killed(world, monkeypatch):
    """A process deaf to the signal holds the others up only for the drain time and the grace."""
    monkeypatch.setattr(several, "GRACE_SECONDS", -0.9)
    running = world(["sh", "-c", "trap '' TERM; exec sleep 60"])
    await running.ready()
    await asyncio.sleep(0.1)

    assert await running.end() == 1
    assert "killed" in [each.change for each in running.heard.changes]


async def test_what_is_stuck_is_killed_and_started_again(world, monkeypatch):
    """Five failed health checks in a row, after one that was well, end a process."""
    monkeypatch.setattr(several, "RESTART_SECONDS", 0.01)
    asked: list[str] = []

    def status_of(address, page):
        asked.append(page)
        return 200 if asked.count("/healthz") <= 2 else 503

    monkeypatch.setattr(one, "status_of", status_of)
    running = world(["sleep", "60"], admin=("127.0.0.1", 1))
    await running.heard.until("started", times=2)

    changes = [(each.change, each.exit_code) for each in running.heard.changes[:3]]
    assert changes == [("started", None), ("killed", None), ("restarting", -9)]
    assert asked.count("/healthz") >= 2 + several.UNWELL_PROBES


async def test_who_takes_time_to_end_is_not_taken_for_stuck(world, monkeypatch):
    """A process that drains has let go of its health listener; it is given the time to end."""
    monkeypatch.setattr(one, "status_of", lambda address, page: 200)
    told_to_end = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1)"
    )
    running = world([sys.executable, "-c", told_to_end], admin=("127.0.0.1", 1))
    await running.ready()
    monkeypatch.setattr(one, "status_of", lambda address, page: 0)

    assert await running.end() == 0
    assert "killed" not in [each.change for each in running.heard.changes]


async def test_who_is_not_ready_is_named(world, monkeypatch):
    """Until every process is ready the whole is not, and says whom it waits for."""
    monkeypatch.setattr(one, "status_of", lambda address, page: 200 if page == "/healthz" else 503)
    running = world(["sleep", "60"], admin=("127.0.0.1", 1))
    await running.heard.until("started")
    await running.until(lambda: running.supervisor.ready().reason == "process 1: not ready")

    assert not running.supervisor.ready().is_ready
    assert running.supervisor.health().is_healthy


async def test_only_who_was_ready_can_be_unwell(monkeypatch):
    """One that still starts is let alone; a single probe that is well makes up for all before."""
    child = Child(1, [], ("127.0.0.1", 1), process=SimpleNamespace(returncode=None))
    found = []
    for status in (0, 503, 200, 0, 0, 200, 503):
        monkeypatch.setattr(one, "status_of", lambda address, page, said=status: said)
        await child.probe()
        found.append(child.unwell)

    assert found == [0, 0, 0, 1, 2, 0, 1]


async def test_a_probe_is_about_the_process_that_was_asked(monkeypatch):
    """What the one before has said makes the one that came in its place neither ready nor unwell."""
    child = Child(1, [], ("127.0.0.1", 1), process=SimpleNamespace(returncode=None))

    def status_of(address, page):
        child.process = SimpleNamespace(returncode=None)
        return 200

    monkeypatch.setattr(one, "status_of", status_of)
    await child.probe()

    assert not child.is_ready


@pytest.mark.parametrize(("port", "count"), [(0, 2), (65_535, 1), (65_530, 6)])
def test_ports_that_are_not_there_are_refused(port, count):
    """There is a port for each process, or a clear word."""
    with pytest.raises(ConfigError, match="LOOPWORKER_ADMIN"):
        addresses(("127.0.0.1", port), count)


def test_each_process_has_the_next_port():
    """Port + i, from 1; nothing where the admin listener is off."""
    assert addresses(("::1", 9464), 2) == [("::1", 9465), ("::1", 9466)]
    assert addresses(None, 2) == [None, None]

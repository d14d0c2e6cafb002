"""Faults of the servers: killed at each moment, half open, slow, away one by one, full."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path

from tests.matrix.world import HELD, SLACK_SECONDS, Outcome, World, proxied, quietly
from tests.servers.server import Server
from tests.system.processes import until
from worker.core.errors import QueueUnavailable, StoreUnavailable

PAUSING = (sys.executable, str(Path(__file__).parent / "pausing_worker.py"))
SLOW_SECONDS = 0.2
AWAY_SECONDS = 2.0
LONG_LEASE = 15.0  # outlives the outage: else a booking could be cut off from its intent


async def killed_while(world: World, moment: str) -> Outcome:
    """kill -9 of the broker and its return: idle, in receive, in a task, in ack, in submit."""
    if moment in ("receive", "ack"):
        return await _killed_at_a_point(world, "claim" if moment == "receive" else moment)
    await world.worker(QUEUE__LEASE_SECONDS=str(LONG_LEASE))
    if moment == "task":
        await world.hand_in("t", plan=HELD)
        await world.site.effect("hold go")
    world.broker.kill()
    if moment == "submit":
        return await _submitted_meanwhile(world)
    await asyncio.sleep(AWAY_SECONDS)
    world.broker.start()
    cured_at = time.monotonic()
    world.site.ask_for("go")
    await _hand_in_again(world, "u")
    return await world.outcome(cured_at)


async def _killed_at_a_point(world: World, point: str) -> Outcome:
    if point == "ack":
        await world.hand_in("t")
    world.begin((*PAUSING, point), QUEUE__LEASE_SECONDS=str(LONG_LEASE))
    paused = world.site.folder / "paused"
    await until(paused.exists, within=30, what="the pause")
    world.broker.kill()
    world.site.ask_for("resume")
    await asyncio.sleep(AWAY_SECONDS)
    world.broker.start()
    cured_at = time.monotonic()
    await _hand_in_again(world, "u")
    return await world.outcome(cured_at)


async def _submitted_meanwhile(world: World) -> Outcome:
    """A client tries until its task is taken; every error tells it that it may not be."""
    submitting = asyncio.create_task(_hand_in_again(world, "t"))
    await asyncio.sleep(AWAY_SECONDS)
    world.broker.start()
    cured_at = time.monotonic()
    await submitting
    return await world.outcome(cured_at)


async def _hand_in_again(world: World, name: str) -> None:
    ends = time.monotonic() + 40.0
    while True:
        try:
            return await world.hand_in(name)
        except AssertionError:
            world.names.append(name)  # an earlier try has arrived after all
            return None
        except (QueueUnavailable, StoreUnavailable):
            assert time.monotonic() < ends, f"{name} could not be handed in"
            await asyncio.sleep(0.1)


async def half_open(world: World) -> Outcome:
    """Every connection of a worker falls silent without a word; new ones are fine."""
    world.bound_seconds = max(LONG_LEASE, world.setup.dead_peer_seconds) + SLACK_SECONDS
    with proxied(world) as proxy:
        await world.worker(QUEUE__LEASE_SECONDS=str(LONG_LEASE))
        await world.hand_in("t", plan=HELD)
        await world.site.effect("hold go")
        proxy.forget()
        cured_at = time.monotonic()
        world.site.ask_for("go")
        await world.hand_in("u")
        return await world.outcome(cured_at)


async def slow(world: World) -> Outcome:
    """Every packet of broker and worker takes its time, in both directions."""
    world.bound_seconds = 30.0
    with proxied(world) as proxy:
        await world.worker(QUEUE__LEASE_SECONDS="10")
        proxy.delay_seconds = SLOW_SECONDS
        await world.hand_in("t1", "t2", "t3")
        found = await world.outcome(time.monotonic())
        proxy.delay_seconds = 0.0
        return found


async def away(world: World, which: str) -> Outcome:
    """The store is down while the broker is up, or the reverse, with a task in work."""
    assert world.setup.store_server is not None
    world.bound_seconds = SLACK_SECONDS
    server: Server = world.setup.store_server if which == "store" else world.broker
    await world.worker(QUEUE__LEASE_SECONDS=str(LONG_LEASE))
    await world.hand_in("t", plan=HELD)
    await world.site.effect("hold go")
    server.kill()
    world.site.ask_for("go")
    await asyncio.sleep(AWAY_SECONDS)
    server.start()
    cured_at = time.monotonic()
    await _hand_in_again(world, "u")
    return await world.outcome(cured_at)


async def full_file(world: World) -> Outcome:
    """Nothing more fits on the disk of a worker with a file, and then it does."""
    worker = await world.worker()
    await world.hand_in("t", plan=HELD)
    await world.site.effect("hold go")
    files = list(world.site.folder.glob("tasks.db*"))
    size = max(each.stat().st_size for each in files)
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    limits = (size + 4096, resource.RLIM_INFINITY)
    resource.prlimit(worker.popen.pid, resource.RLIMIT_FSIZE, limits)
    names = [f"u{number}" for number in range(10)]
    await world.hand_in(*names, plan="book a, look " + "x" * 4000)
    world.site.ask_for("go")
    failed = {"store.error", "queue.receive.error", "queue.error"}
    await until(lambda: failed & set(worker.events()), within=20, what="a failed write")
    resource.prlimit(worker.popen.pid, resource.RLIMIT_FSIZE, unlimited)
    return await world.outcome(time.monotonic())


async def full_memory(world: World) -> Outcome:
    """Redis takes no more, and then it does."""
    import redis.asyncio

    worker = await world.worker()
    await world.hand_in("t", plan=HELD)
    await world.site.effect("hold go")
    assert world.setup.store_server is not None
    admin = redis.asyncio.Redis(port=world.setup.store_server.port)
    await admin.config_set("maxmemory", "1mb")
    world.site.ask_for("go")
    failed = {"store.error", "queue.receive.error", "queue.error"}
    await until(lambda: failed & set(worker.events()), within=20, what="a failed write")
    await admin.config_set("maxmemory", "0")
    await admin.aclose()
    cured_at = time.monotonic()
    await quietly(world.hand_in, "u")
    return await world.outcome(cured_at)

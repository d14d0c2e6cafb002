"""Faults of a worker: killed at each boundary, frozen, blocked, poisoned, restarted, called off."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.matrix.world import HELD, LEASE_SECONDS, PLAN, SLACK_SECONDS, Outcome, World
from tests.system.processes import CRASHING, WORKER, Process, until
from tests.system.test_kill import POINTS
from worker.queues.port import Ticket

HERE = Path(__file__).parent
SUBMITTING = (sys.executable, str(HERE / "submitting.py"))
SHIFTED = (sys.executable, str(HERE / "shifted_worker.py"))
STUCK_SECONDS = 2


async def killed_at(world: World, point: str) -> Outcome:
    """kill -9 at a boundary of a run; another worker comes."""
    where = POINTS[point][0]
    await world.hand_in("t")
    if where.startswith("die"):
        world.site.ask_for(where)
    at = "never" if where in ("model", "die-after-effect") else where
    worker = world.begin((*CRASHING, at))
    if where == "model":
        world.site.model.before_reply = lambda asked: worker.kill()
    await worker.ended(within=20)
    world.site.model.before_reply = lambda asked: None
    await world.worker()
    return await world.outcome(time.monotonic())


async def killed_in_a_call(world: World, command: Sequence[str] = WORKER) -> Outcome:
    """kill -9 while the model is being asked, of a worker that was there before the task."""
    worker = await world.worker(command)
    world.site.model.before_reply = lambda asked: worker.kill()
    await world.hand_in("t")
    await worker.ended(within=20)
    world.site.model.before_reply = lambda asked: None
    await world.worker()
    return await world.outcome(time.monotonic())


async def killed_in_submit(world: World, moment: str) -> Outcome:
    """The client dies before or after the queue has confirmed, and hands the same task in again."""
    await world.worker()
    client = world.site.start((*SUBMITTING, moment, "t", PLAN))
    await client.ended(within=20)
    await world.site.queue.put(_ticket("t"))
    world.names.append("t")
    return await world.outcome(time.monotonic())


def _ticket(name: str) -> Ticket:
    body = {"id": name, "input": f"{name}: {PLAN}", "reply_to": "queue:results"}
    return Ticket(name, json.dumps(body).encode())


async def frozen(world: World, command: Sequence[str] = WORKER) -> Outcome:
    """SIGSTOP for longer than the lease; it goes on when another has taken over."""
    first = await world.worker(command)
    await world.hand_in("t", plan=HELD)
    await world.site.effect("hold go")
    first.freeze()
    second = await world.worker()
    # RabbitMQ's lease is its connection, which the server gives up after the dead-peer time.
    let_go = max(LEASE_SECONDS, world.setup.dead_peer_seconds)
    await second.said("run.taken_over", within=let_go + SLACK_SECONDS)
    world.site.ask_for("go")
    first.send(signal.SIGCONT)
    return await world.outcome(time.monotonic())


async def blocked(world: World) -> Outcome:
    """A tool keeps the event loop for good: the lease is let go of, another takes over."""
    await world.worker(WORKER__LOOP_STUCK_SECONDS=str(STUCK_SECONDS))
    await world.hand_in("t", plan="book a, block never, book b")
    await world.site.effect("block never")
    began = time.monotonic()
    world.bound_seconds = STUCK_SECONDS + LEASE_SECONDS + SLACK_SECONDS
    await world.worker(WORKER__LOOP_STUCK_SECONDS=str(STUCK_SECONDS))
    found = await world.outcome(began)
    world.site.ask_for("never")
    return found


async def poisoned(world: World) -> Outcome:
    """A task that kills its worker, each time, among others."""
    await world.hand_in("poison", plan="explode now")
    await world.hand_in("n1", "n2", "n3")
    world.dead = 1
    for _ in range(2):
        worker = world.begin(QUEUE__MAX_DELIVERIES="2")
        await until(lambda: not worker.alive, within=30, what="a crash")  # noqa: B023
    await world.worker(QUEUE__MAX_DELIVERIES="2")
    return await world.outcome(time.monotonic())


async def restarted(world: World) -> Outcome:
    """All workers are replaced one by one, twice within a lease, with tasks in work."""
    # A replaced worker hands back what it has, so nobody has to wait for a lease of this length.
    settings = {"QUEUE__LEASE_SECONDS": "30", "WORKER__DRAIN_SECONDS": "0"}
    workers = [await world.worker(**settings) for _ in range(2)]
    await world.hand_in("t1", "t2", "t3", plan=HELD)
    await world.site.effect("hold go", times=3)
    for _ in range(2):
        workers = [await _replaced(world, worker, settings) for worker in workers]
    world.site.ask_for("go")
    return await world.outcome(time.monotonic())


async def _replaced(world: World, worker: Process, settings: dict[str, str]) -> Process:
    following = await world.worker(**settings)
    assert await worker.stop(within=20) == 0
    return following


async def called_off(world: World) -> Outcome:
    """Every task is called off many times over, at any moment of its work."""
    worker = world.site.start(admin=True, http=True, LOG_LEVEL="info", **world.started)
    await worker.ready()
    names = [f"t{number}" for number in range(10)]
    await world.hand_in(*names, plan="book a, hold go, book b")
    calls = [asyncio.to_thread(_call_off, worker, name) for name in names * 5]
    await asyncio.gather(*calls)
    world.site.ask_for("go")
    return await world.outcome(time.monotonic())


def _call_off(worker: Process, name: str) -> None:
    request = urllib.request.Request(f"http://{worker.http}/v1/tasks/{name}", method="DELETE")
    try:
        urllib.request.urlopen(request, timeout=20).close()
    except urllib.error.HTTPError as refused:
        refused.close()  # it has ended already


async def clock_moved(world: World, seconds: int) -> Outcome:
    """The wall clock of the workers jumps while a task is in work."""
    shifted = (*SHIFTED, str(seconds))
    await world.worker(shifted)
    await world.worker(shifted)
    await world.hand_in("t", plan=HELD)
    await world.site.effect("hold go")
    world.site.ask_for("jump")
    await asyncio.sleep(LEASE_SECONDS)  # a lease that was read by the wall clock would be over
    world.site.ask_for("go")
    await world.hand_in("u")
    return await world.outcome(time.monotonic())

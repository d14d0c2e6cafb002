"""Several workers on one file, and every now and then one of them dies."""

from __future__ import annotations

import asyncio
import collections
import json
import random
from functools import partial

from tests.system.processes import until
from worker.core.wireformat import result_to_wire

TASKS = 300
WORKERS = 4
KILLS = 8
SETTINGS = {
    "CONCURRENCY": "8",
    "LOG_LEVEL": "info",
    # A kill costs everything in work a delivery; here it is the kills that are the poison.
    "QUEUE__MAX_DELIVERIES": "1000",
}


async def test_crowd_with_random_kills(site):
    """Each task has one result, published once; no completed booking is made again."""
    dice = random.Random(20)
    names = [f"t{number}" for number in range(TASKS)]
    for name in names:
        plan = f"book {name}, reserve {name}, look {name}"
        await site.submit(name, plan, reply_to="queue:out")
    workers = [site.start(**SETTINGS) for _ in range(WORKERS)]
    for number in range(KILLS):
        done = TASKS * (number + 1) // (KILLS + 2)
        await until(partial(finished, site, done), within=30, what=f"{done} results")
        victim = dice.choice(workers)
        victim.kill()
        workers.remove(victim)
        workers.append(site.start(**SETTINGS))
    results = [await site.result(name, within=60) for name in names]
    await site.empty(within=10)
    codes = await asyncio.gather(*(stopped(worker) for worker in workers))
    published = await everything(site, "out")
    taken_over = sum(each.events().count("run.taken_over") for each in site.processes)
    booked = collections.Counter(site.effects("book"))

    assert [result.status for result in results] == ["completed"] * TASKS
    assert codes == [0] * WORKERS
    assert taken_over > 0, "no kill hit a run"
    assert sorted(published) == sorted(f"{name}/result" for name in names)
    for name, result in zip(names, results, strict=True):
        assert published[f"{name}/result"] == json.loads(json.dumps(result_to_wire(result)))
        sources = [call.source for call in result.tool_calls]
        assert sources in (["live"] * 3, ["unknown", "live", "live"])
        assert booked[f"book {name}"] in ((1,) if sources[0] == "live" else (0, 1))
    assert len(set(site.keys("reserve"))) == TASKS
    assert site.keys("book") == list(dict.fromkeys(site.keys("book")))


async def test_rolling_restart_uses_up_no_delivery(site):
    """Every worker is replaced twice within one lease: nobody waits, nothing is given up."""
    settings = {
        "CONCURRENCY": "8",
        "LOG_LEVEL": "info",
        "QUEUE__LEASE_SECONDS": "60",
        "QUEUE__MAX_DELIVERIES": "1",  # one that was counted would be one too many
        "WORKER__DRAIN_SECONDS": "0",
    }
    names = [f"t{number}" for number in range(TASKS // 2)]
    for name in names:
        await site.submit(name, f"book {name}, reserve {name}", reply_to="queue:out")
    workers = [site.start(**settings) for _ in range(2)]
    codes = []
    for number in range(4):
        await until(partial(finished, site, 25 * (number + 1)), within=30, what="some results")
        codes.append(await stopped(workers.pop(0)))
        workers.append(site.start(**settings))
    results = [await site.result(name, within=20) for name in names]
    await site.empty(within=10)
    codes += [await stopped(worker) for worker in workers]
    booked = collections.Counter(site.effects("book"))

    assert codes == [0] * 6
    assert [result.status for result in results] == ["completed"] * len(names)
    for name, result in zip(names, results, strict=True):
        times = (1,) if result.tool_calls[0].source == "live" else (0, 1)
        assert booked[f"book {name}"] in times
    assert len(set(site.keys("reserve"))) == len(names)


async def stopped(worker):
    """Stop a worker that may have been started a moment ago; before it listens it just dies."""
    await worker.said("worker.ready")
    return await worker.stop(within=10)


async def finished(site, number):
    """Whether so many results have been published."""
    depth = await site.queue.sibling("out").depth()
    return depth.ready >= number


async def everything(site, name):
    """Take every message from another queue of the site, by its id."""
    queue, found = site.queue.sibling(name), {}
    while leases := await queue.claim(owner="t", lease_seconds=60, wait_seconds=0, limit=100):
        for lease in leases:
            assert lease.id not in found
            found[lease.id] = json.loads(lease.body)
    return found

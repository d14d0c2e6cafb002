"""What `doctor` says of a queue that is split: shards that nobody seems to read, or that were left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from worker.cli.finding import Finding, checked

if TYPE_CHECKING:
    from worker.queues.port import Queue
    from worker.settings import Settings

# Where looking at a queue that is not there does not make one.
_LOOKED_INTO = ("postgresql", "redis", "sqlite")


async def check_shards(settings: Settings) -> list[Finding]:
    """Look for tasks where nobody works, and in shards beyond those of the settings; silence is no
    finding.
    """
    findings = [await checked("shards", _shards(settings))]
    return [each for each in findings if each.is_odd]  # the queue's own check told of an outage


async def _shards(settings: Settings) -> Finding:
    from worker.queues import open_queue

    queue = await asyncio.to_thread(open_queue, settings.queue_url, **settings.queue_options())
    try:
        said = [*await _unread(queue), *await _left(queue, settings)]
    finally:
        await queue.close()
    return Finding("shards", "; ".join(said), is_odd=bool(said))


async def _unread(queue: Queue) -> list[str]:
    shards = (*getattr(queue, "parts", ()), *getattr(queue, "others", ()))
    depths = await asyncio.gather(*(shard.depth() for shard in shards))
    counts = {
        shard.name: depth.ready
        for shard, depth in zip(shards, depths, strict=True)
        if depth.ready and not depth.leased
    }
    # Where none is in work anywhere, there is no worker, and that is not the fault of a shard.
    if not counts or not any(depth.leased for depth in depths):
        return []
    listed = ", ".join(f"{name} ({ready} ready)" for name, ready in counts.items())
    return [
        f"nobody has a task in hand of {listed}: see that LOOPWORKER_QUEUE_SHARD_SET of the workers"
        " names every shard"
    ]


async def _left(queue: Queue, settings: Settings) -> list[str]:
    from worker.core.sharding import SHARDS_MAX, shard_name

    if queue.system not in _LOOKED_INTO or "{shard}" in settings.queue_url:
        return []
    beyond = range(settings.sharding().known.stop, SHARDS_MAX)
    shards = [queue.sibling(shard_name(settings.queue.name, number)) for number in beyond]
    depths = await asyncio.gather(*(shard.depth() for shard in shards))
    left = [number for number, d in zip(beyond, depths, strict=True) if d != type(d)()]
    if not left:
        return []
    names = ", ".join(shard_name(settings.queue.name, number) for number in left)
    return [
        f"there are tasks in {names}, beyond LOOPWORKER_QUEUE_SHARDS: have some workers read them"
        f" with LOOPWORKER_QUEUE_SHARD_SET=0-{left[-1]} until they are empty, dead letters as well"
    ]

"""One cell of the table: a fault, and what was lost, made twice, and how soon work went on."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.matrix.engines import Setup
from tests.servers.proxy import Proxy
from tests.servers.server import Server
from tests.system.planmodel import PlanModel
from tests.system.processes import EMPTY, WORKER, Process, Site, counts
from worker.core.errors import QueueUnavailable, StoreUnavailable
from worker.queues.port import Lease

LEASE_SECONDS = 3.0
SLACK_SECONDS = 5.0
PATIENCE_SECONDS = (
    45.0  # after it, what is not there is lost; a test that expects losses is shorter
)
PLAN = "book a, book b"
HELD = "book a, hold go, book b"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a fault has done. `bound_seconds` is how soon after the cure all work had to be over."""

    lost: int
    duplicated: int
    seconds: float
    bound_seconds: float
    odd: str = ""  # what else is not as it should be

    @property
    def is_sound(self) -> bool:
        """Whether every promise was kept."""
        kept = self.lost == self.duplicated == 0 and not self.odd
        return kept and self.seconds <= self.bound_seconds


class World:
    """A site on a setup. Faults start workers, hand tasks in, do harm, and call `outcome`."""

    def __init__(self, site: Site, setup: Setup) -> None:
        self.site = site
        self.setup = setup
        self.names: list[str] = []
        self.started: dict[str, str] = {}
        self.bound_seconds = LEASE_SECONDS + SLACK_SECONDS
        self.patience_seconds = PATIENCE_SECONDS
        self.dead = 0

    @property
    def broker(self) -> Server:
        """The server of the queue."""
        assert self.setup.broker is not None
        return self.setup.broker

    async def worker(self, command: Sequence[str] = WORKER, **settings: str) -> Process:
        """Start a worker and wait until it claims."""
        process = self.begin(command, **settings)
        await process.ready()
        return process

    def begin(self, command: Sequence[str] = WORKER, **settings: str) -> Process:
        """Start a worker."""
        lease = {"QUEUE__LEASE_SECONDS": str(LEASE_SECONDS), "LOG_LEVEL": "info"}
        return self.site.start(command, admin=True, **(lease | self.started | settings))

    async def hand_in(self, *names: str, plan: str = PLAN) -> None:
        """Put tasks into the queue that publish their results to the queue `results`."""
        for name in names:
            await self.site.submit(name, plan, reply_to="queue:results")
            self.names.append(name)

    async def outcome(self, cured_at: float, *, expected: Sequence[str] | None = None) -> Outcome:
        """Wait for all results from the cure on, look what became of everything.

        `expected` are the tasks that have to have a published result; all that were handed in.
        """
        names = self.names if expected is None else expected
        ends = cured_at + max(self.patience_seconds, self.bound_seconds)
        missing = set(names)
        while missing and time.monotonic() < ends:
            missing -= {name for name in missing if await quietly(self.site.store.result, name)}
            await asyncio.sleep(0.02)
        seconds = time.monotonic() - cured_at
        odd = await self._left_over(ends + 5.0)
        return Outcome(len(missing), self._made_twice(), seconds, self.bound_seconds, odd)

    def _made_twice(self) -> int:
        keys = collections.Counter(self.site.keys("book"))
        return sum(times - 1 for times in keys.values())

    async def _left_over(self, ends: float) -> str:
        # First the results: an engine may not see what is in the hands of a worker it cannot reach.
        wanted = {f"{name}/result" for name in self.names}
        found = await self._published(wanted, ends)
        depth: Any = None
        while time.monotonic() < ends:
            depth = await quietly(self.site.queue.depth)
            if depth is not None and counts(depth) == (*EMPTY[:-1], self.dead):
                break
            await asyncio.sleep(0.05)
        else:
            return f"queue not empty: {counts(depth) if depth else 'cannot be asked'}"
        # Where a queue does not know ids, the same result may lie there twice, alike to the byte.
        twice = collections.Counter(name for name, _ in {(each.id, each.body) for each in found})
        if self.site.queue.capabilities.deduplicates:
            twice = collections.Counter(lease.id for lease in found)
        if set(twice) != wanted or max(twice.values(), default=1) > 1:
            return f"published: {sorted(twice.items())}"
        return ""

    async def _published(self, wanted: set[str], ends: float) -> list[Lease]:
        """All results in the reply queue: those that are wanted, and what comes a moment later."""
        queue, found = self.site.queue.sibling("results"), list[Lease]()
        while True:
            is_all = wanted <= {lease.id for lease in found} or time.monotonic() > ends
            more = await queue.claim(owner="matrix", lease_seconds=60, wait_seconds=0.5, limit=100)
            found += more
            if is_all and not more:
                return found


async def quietly(call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """What the call returns, or None while the engine cannot be asked."""
    try:
        return await call(*arguments)
    except (QueueUnavailable, StoreUnavailable):
        return None


@contextlib.asynccontextmanager
async def world(setup: Setup, folder: Path) -> AsyncIterator[World]:
    """A world in a folder; its processes are ended with it."""
    queue_url, store_url = setup.own_urls()
    model = PlanModel()
    site = Site(folder, model, queue_url=queue_url, store_url=store_url)
    try:
        yield World(site, setup)
    finally:
        await site.close()
        model.close()


@contextlib.contextmanager
def proxied(world: World) -> Any:
    """A proxy before the broker, which the workers of the world go through from now on."""
    proxy = Proxy(world.broker.port)
    there, through = f":{world.broker.port}/", f":{proxy.port}/"
    queue_url = world.site.queue_url.replace(there, through)
    world.started |= {"QUEUE_URL": queue_url}
    if world.setup.store_server is world.broker:
        world.started |= {"STORE_URL": queue_url}
    try:
        yield proxy
    finally:
        proxy.close()
